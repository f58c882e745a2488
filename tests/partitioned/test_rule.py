"""The rule from queues to partitions, and what job ids tell of it."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.ids import new_id, new_id_beside, new_ids
from holdfast.model.errors import ConfigurationError
from holdfast.model.partition import (
    Layout,
    as_url,
    layout,
    own_position,
    parse,
    stamped,
    tag_of,
    whole_position,
)
from tests.partitioned.support import memory_layout

QUEUES = [f"queue-{number}" for number in range(600)]


def test_a_queue_goes_where_it_is_mapped_by_name_before_any_pattern() -> None:
    found = layout(
        {"a": "memory://a", "b": "memory://b"},
        queues=[("mail*", "a"), ("mail-urgent", "b"), ("report-?", "b")],
    )
    assert [found.of_queue(queue) for queue in ("mail", "mail-slow", "mail-urgent", "report-1")] == list(
        "aabb"
    )


def test_the_first_pattern_that_fits_counts() -> None:
    found = layout({"a": "memory://a", "b": "memory://b"}, queues=[("x*", "a"), ("*", "b")])
    assert [found.of_queue(queue) for queue in ("x1", "y1")] == ["a", "b"]


def test_queues_that_are_not_mapped_are_spread_over_all_that_are_open() -> None:
    found = memory_layout("a", "b", "c")
    shares = {name: sum(found.of_queue(queue) == name for queue in QUEUES) for name in "abc"}
    assert all(140 < share < 260 for share in shares.values()), shares


def test_one_more_partition_takes_its_share_and_moves_nothing_else() -> None:
    before, after = memory_layout("a", "b", "c"), memory_layout("a", "b", "c", "d")
    moved = [queue for queue in QUEUES if before.of_queue(queue) != after.of_queue(queue)]
    assert {after.of_queue(queue) for queue in moved} == {"d"}
    assert 100 < len(moved) < 200


def test_a_draining_partition_gets_nothing_by_hash_and_the_others_keep_what_they_have() -> None:
    before, after = memory_layout("a", "b", "c"), memory_layout("a", "b", "c", draining=("b",))
    for queue in QUEUES:
        was, now = before.of_queue(queue), after.of_queue(queue)
        assert now != "b"
        assert was in {now, "b"}


def test_a_queue_that_is_mapped_to_a_draining_partition_stays_there() -> None:
    assert memory_layout("a", "b", draining=("b",), mail="b").of_queue("mail") == "b"


def test_topics_have_rules_of_their_own() -> None:
    found = parse("partition://?a=memory://a&b=memory://b&topic.orders=b&queue.orders=a")
    assert (found.of_topic("orders"), found.of_queue("orders")) == ("b", "a")


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True), st.text("abcxyz-", min_size=1, max_size=9)
)
def test_the_place_of_a_queue_does_not_depend_on_the_order_of_partitions(
    names: list[str], queue: str
) -> None:
    one, other = memory_layout(*names), memory_layout(*reversed(names))
    assert one.of_queue(queue) == other.of_queue(queue)


def test_a_layout_is_the_same_after_its_way_through_a_url() -> None:
    found = layout(
        {"a": "postgresql://me:s3&cret%2F@host/db?pool=3&schema=x", "b-2": "redis://host:6379/0"},
        home="b-2",
        draining=["a"],
        queues=[("mail", "a"), ("report-*", "b-2")],
        topics=[("orders", "a")],
    )
    assert parse(as_url(found)) == found


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("partition://", "needs its stores"),
        ("partition://?home=a", "at least one partition"),
        ("partition://?a=memory://a&home=z", "home='z' is not the name of a partition"),
        ("partition://?a=memory://a&draining=a", "all partitions are draining"),
        ("partition://?a=memory://a&draining=z", "draining='z' is not the name"),
        ("partition://?a=memory://a&queue.q=z", "queue.q='z' is not the name"),
        ("partition://?a=memory://a&a=memory://b", "two partitions are called 'a'"),
        ("partition://?A=memory://a", "'A' cannot be the name of a partition"),
        ("partition://?queues=memory://a", "'queues' cannot be the name"),
        ("partition://?a=nonsense", "partition a: its store is not a URL"),
        ("partition://?a=partition%3A%2F%2F%3Fx%3Dmemory%3A%2F%2F", "cannot be partitioned itself"),
        ("partition://?a=memory://a&queue.%20=a", "neither a name nor a pattern"),
    ],
)
def test_a_layout_that_cannot_work_is_refused_in_one_line(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse(url)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_names_that_ids_cannot_tell_apart_are_refused() -> None:
    tags: dict[str, str] = {}
    number = 0
    while (other := tags.setdefault(tag_of(f"p{number}"), f"p{number}")) == f"p{number}":
        number += 1
    with pytest.raises(ConfigurationError, match="apart"):
        memory_layout(other, f"p{number}")


def test_no_secret_of_a_partition_is_shown_by_its_layout() -> None:
    found = parse("partition://?a=postgresql%3A%2F%2Fme%3As3cret%40host%2Fdb")
    assert "s3cret" not in repr(found)


def test_an_id_tells_its_partition_and_stays_an_id_of_version_7() -> None:
    found = memory_layout("a", "b", "c")
    for name in "abc":
        job_id = stamped(new_id(), tag_of(name))
        assert found.of_id(job_id) == name
        assert (UUID(job_id).version, UUID(job_id).variant) == (7, UUID(new_id()).variant)
        assert found.of_id(new_id_beside(job_id)) == name


def test_the_tag_of_a_partition_depends_on_its_name_alone() -> None:
    job_id = stamped(new_id(), tag_of("c"))
    assert [each.of_id(job_id) for each in (memory_layout("c"), memory_layout("a", "c"))] == ["c", "c"]
    assert memory_layout("a", "b").of_id(job_id) is None


def test_stamped_ids_differ_and_grow_whatever_their_partitions() -> None:
    tags = [tag_of(name) for name in "abc"]
    ids = [stamped(job_id, tags[place % 3]) for place, job_id in enumerate(new_ids(20_000))]
    assert ids == sorted(set(ids))


@given(st.integers(0, 63), st.integers(0, 10**12))
def test_a_position_is_told_from_outside_and_found_again_inside(place: int, position: int) -> None:
    assert own_position(whole_position(position, place), place) == position
    assert own_position(whole_position(position, place) - 1, place) == max(0, position - 1)


def test_a_url_alone_describes_all_that_there_is() -> None:
    found = parse("partition://?one=memory://x&two=memory://y&home=two&draining=one")
    assert isinstance(found, Layout)
    assert (found.home, found.open) == ("two", ("two",))
