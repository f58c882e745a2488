-- name: events_before
-- Which of the ids are stored, and the last version of each (topic, aggregate), in the order asked for.
SELECT (SELECT json_group_array(e.id)
        FROM json_each(:ids) AS i CROSS JOIN holdfast_event AS e INDEXED BY holdfast_event_id
        WHERE e.ns = :ns AND e.id = i.value),
       (SELECT json_group_array(coalesce(
            (SELECT e.version FROM holdfast_event AS e INDEXED BY holdfast_event_aggregate
             WHERE e.ns = :ns AND e.topic = json_extract(l.value, '$[0]')
               AND e.aggregate = json_extract(l.value, '$[1]')
             ORDER BY e.position DESC LIMIT 1),
            (SELECT f.version FROM holdfast_event_floor AS f
             WHERE f.ns = :ns AND f.topic = json_extract(l.value, '$[0]')),
            0))
        FROM json_each(:lines) AS l);

-- name: event_head
-- Gives out positions; the last of them, and the instant of their events.
INSERT INTO holdfast_event_head (ns, position, at) VALUES (:ns, :count, :now)
ON CONFLICT (ns) DO UPDATE SET position = position + excluded.position, at = max(at, excluded.at)
RETURNING position, at;

-- name: events_add
INSERT INTO holdfast_event (ns, position, id, topic, type, aggregate, version, at, data, headers)
SELECT :ns, :first + f.key, json_extract(f.value, '$[0]'), json_extract(f.value, '$[1]'),
       json_extract(f.value, '$[2]'), json_extract(f.value, '$[3]'), json_extract(f.value, '$[4]'), :at,
       substr(p.long, json_extract(f.value, '$[5]'), json_extract(f.value, '$[6]')),
       substr(p.long, json_extract(f.value, '$[7]'), json_extract(f.value, '$[8]'))
FROM (SELECT :long AS long) AS p CROSS JOIN json_each(:rows) AS f;

-- name: events_after
-- The positions of a page with the sizes of their events, and the last position that was given.
SELECT (SELECT json_group_array(json_array(position, size)) FROM (
            SELECT position, length(data) + ifnull(length(headers), 0) AS size FROM holdfast_event
            WHERE ns = :ns {conditions} AND position > :after ORDER BY position LIMIT :limit)),
       ifnull((SELECT position FROM holdfast_event_head WHERE ns = :ns), 0);

-- name: events
-- Bytes in hexadecimal, since JSON has none.
SELECT json_group_array(json_array(
    e.id, e.topic, e.type, hex(e.data), e.position, e.at, e.aggregate, e.version,
    CASE WHEN e.headers IS NOT NULL THEN hex(e.headers) END))
FROM json_each(:positions) AS p CROSS JOIN holdfast_event AS e INDEXED BY holdfast_event_position
WHERE e.ns = :ns AND e.position = p.value;

-- name: event_last
SELECT ifnull((SELECT position FROM holdfast_event_head WHERE ns = :ns), 0);

-- name: events_prunable
-- The topics side by side, each from its first event on to the first that must stay; of all these the first by position.
-- So neither those that must stay are looked through, nor those that are too young.
WITH RECURSIVE topics (topic) AS (
    SELECT (SELECT min(topic) FROM holdfast_event WHERE ns = :ns)
    UNION ALL
    SELECT (SELECT min(topic) FROM holdfast_event WHERE ns = :ns AND topic > t.topic)
    FROM topics AS t WHERE t.topic IS NOT NULL
),
passed (topic, upto) AS (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:passed)
),
old (position, topic, aggregate, version, upto) AS (
    SELECT e.position, e.topic, e.aggregate, e.version, ifnull(p.upto, 9223372036854775807) AS most
    FROM topics AS t LEFT JOIN passed AS p ON p.topic = t.topic
    CROSS JOIN holdfast_event AS e INDEXED BY holdfast_event_position
    WHERE e.ns = :ns
      AND e.position = (SELECT min(position) FROM holdfast_event INDEXED BY holdfast_event_topic
                        WHERE ns = :ns AND topic = t.topic)
      AND e.at < :before AND e.position <= most
    UNION ALL
    SELECT e.position, e.topic, e.aggregate, e.version, o.upto
    FROM old AS o CROSS JOIN holdfast_event AS e INDEXED BY holdfast_event_position
    WHERE e.ns = :ns
      AND e.position = (SELECT min(position) FROM holdfast_event INDEXED BY holdfast_event_topic
                        WHERE ns = :ns AND topic = o.topic AND position > o.position)
      AND e.at < :before AND e.position <= o.upto
    ORDER BY 1 LIMIT :limit
)
SELECT json_group_array(json_array(position, topic, aggregate, version)) FROM old;

-- name: events_forget
DELETE FROM holdfast_event WHERE ns = :ns AND position IN (SELECT value FROM json_each(:positions));

-- name: event_floors
-- Raises the floor of each topic to those of the removed (topic, aggregate, version) of which nothing is left.
INSERT INTO holdfast_event_floor (ns, topic, version)
SELECT :ns, json_extract(g.value, '$[0]') AS topic, max(json_extract(g.value, '$[2]'))
FROM json_each(:gone) AS g
WHERE NOT EXISTS (SELECT 1 FROM holdfast_event AS e INDEXED BY holdfast_event_aggregate
                  WHERE e.ns = :ns AND e.topic = json_extract(g.value, '$[0]')
                    AND e.aggregate = json_extract(g.value, '$[1]'))
GROUP BY 2
ON CONFLICT (ns, topic) DO UPDATE SET version = max(version, excluded.version);
