-- name: events_before
-- Which of the ids are stored, and the last version of each (topic, aggregate), in the order asked for.
SELECT (SELECT json_group_array(ev.id)
        FROM json_each(:ids) AS i CROSS JOIN holdfast_event AS ev INDEXED BY holdfast_event_id
        WHERE ev.ns = :ns AND ev.id = i.value),
       (SELECT json_group_array(coalesce(
            (SELECT ev.version FROM holdfast_event AS ev INDEXED BY holdfast_event_aggregate
             WHERE ev.ns = :ns AND ev.topic = json_extract(l.value, '$[0]')
               AND ev.aggregate = json_extract(l.value, '$[1]')
             ORDER BY ev.position DESC LIMIT 1),
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
    ev.id, ev.topic, ev.type, hex(ev.data), ev.position, ev.at, ev.aggregate, ev.version,
    CASE WHEN ev.headers IS NOT NULL THEN hex(ev.headers) END))
FROM json_each(:positions) AS p CROSS JOIN holdfast_event AS ev INDEXED BY holdfast_event_position
WHERE ev.ns = :ns AND ev.position = p.value;

-- name: event_last
SELECT ifnull((SELECT position FROM holdfast_event_head WHERE ns = :ns), 0);

-- name: events_prunable
-- The topics side by side, each from its first event on up to the first that must stay; of all these the first by
-- position. So neither those that must stay are looked through, nor those that are too young. The instant is asked for by
-- itself: as a condition on a table that is joined it could make SQLite read that whole, for a Bloom filter.
WITH RECURSIVE topics (topic) AS (
    SELECT (SELECT min(topic) FROM holdfast_event INDEXED BY holdfast_event_topic WHERE ns = :ns)
    UNION ALL
    SELECT (SELECT min(topic) FROM holdfast_event INDEXED BY holdfast_event_topic
            WHERE ns = :ns AND topic > t.topic)
    FROM topics AS t WHERE t.topic IS NOT NULL
),
line (position, topic, upto) AS (
    SELECT (SELECT min(position) FROM holdfast_event INDEXED BY holdfast_event_topic
            WHERE ns = :ns AND topic = t.topic),
           t.topic,
           ifnull((SELECT json_extract(value, '$[1]') FROM json_each(:passed)
                   WHERE json_extract(value, '$[0]') = t.topic), 9223372036854775807)
    FROM topics AS t WHERE t.topic IS NOT NULL
    UNION ALL
    SELECT (SELECT min(position) FROM holdfast_event INDEXED BY holdfast_event_topic
            WHERE ns = :ns AND topic = l.topic AND position > l.position),
           l.topic, l.upto
    FROM line AS l
    WHERE l.position <= l.upto
      AND (SELECT at FROM holdfast_event INDEXED BY holdfast_event_position
           WHERE ns = :ns AND position = l.position) < :before
    ORDER BY 1 LIMIT :limit + (SELECT count(*) FROM topics)
)
SELECT json_group_array(json_array(position, topic, aggregate, version)) FROM (
    SELECT ev.position, ev.topic, ev.aggregate, ev.version
    FROM line AS l CROSS JOIN holdfast_event AS ev INDEXED BY holdfast_event_position
    WHERE ev.ns = :ns AND ev.position = l.position AND l.position <= l.upto
      AND (SELECT at FROM holdfast_event INDEXED BY holdfast_event_position
           WHERE ns = :ns AND position = l.position) < :before
    LIMIT :limit
);

-- name: events_forget
DELETE FROM holdfast_event WHERE ns = :ns AND position IN (SELECT value FROM json_each(:positions));

-- name: event_floors
-- Raises the floor of each topic to those of the removed (topic, aggregate, version) of which nothing is left.
INSERT INTO holdfast_event_floor (ns, topic, version)
SELECT :ns, json_extract(g.value, '$[0]') AS topic, max(json_extract(g.value, '$[2]'))
FROM json_each(:gone) AS g
WHERE NOT EXISTS (SELECT 1 FROM holdfast_event AS ev INDEXED BY holdfast_event_aggregate
                  WHERE ev.ns = :ns AND ev.topic = json_extract(g.value, '$[0]')
                    AND ev.aggregate = json_extract(g.value, '$[1]'))
GROUP BY 2
ON CONFLICT (ns, topic) DO UPDATE SET version = max(version, excluded.version);
