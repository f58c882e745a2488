from collections.abc import Callable

import pytest
import redis
from redis.cluster import RedisCluster as ClusterClient
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.sentinel import Sentinel as SentinelClient

from tests.servers.ports import HOST
from tests.servers.redis import Redis
from tests.servers.redis_binaries import find_valkey
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_sentinel import NAME, RedisSentinel
from tests.servers.run import Run


@pytest.mark.process
@pytest.mark.parametrize("lose", [Redis.kill, Redis.freeze])
def test_sentinels_promote_a_replica_when_the_master_is_lost(
    lose: Callable[[Redis], None], redis_sentinel: RedisSentinel
) -> None:
    lost = redis_sentinel.master
    lost.execute("SET", "thing", 42)
    assert lost.execute("WAIT", 1, 10_000) == 1
    lose(lost)
    promoted = redis_sentinel.wait_for_master(lost)
    assert promoted is not lost
    promoted.execute("SET", "other", 43)
    assert promoted.execute("MGET", "thing", "other") == [b"42", b"43"]


@pytest.mark.process
def test_clients_of_sentinel_are_led_to_the_new_master(redis_sentinel: RedisSentinel) -> None:
    addresses = redis_sentinel.url.removeprefix("redis+sentinel://").removesuffix(f"/{NAME}/0")
    places = [(host, int(port)) for host, port in (each.split(":") for each in addresses.split(","))]
    assert len(places) == 3
    lost = redis_sentinel.kill_master()
    promoted = redis_sentinel.wait_for_master(lost)
    for place in places:
        client = SentinelClient([place])  # type: ignore[no-untyped-call]
        assert client.discover_master(NAME) == (HOST, promoted.port)  # type: ignore[no-untyped-call]


@pytest.mark.process
def test_a_cluster_answers_for_keys_in_all_slots(redis_cluster: RedisCluster) -> None:
    keys = {key_slot(key.encode()): key for key in map(str, range(200_000))}
    assert len(keys) == REDIS_CLUSTER_HASH_SLOTS
    some = [keys[slot] for slot in (0, 5460, 5461, 10922, 10923, 16383, *range(7, 16_384, 128))]
    host, port = redis_cluster.url.removeprefix("redis+cluster://").split(":")
    with ClusterClient(host=host, port=int(port)) as client:
        for key in some:
            client.set(key, key)
        assert [client.get(key) for key in some] == [key.encode() for key in some]
        held = sorted((first, last) for first, last in client.cluster_slots())
    assert held == [(0, 5460), (5461, 10922), (10923, 16383)]
    assert min(node.execute("DBSIZE") for node in redis_cluster.nodes) > len(some) // 4


def test_a_node_sends_clients_to_the_one_that_has_the_key(redis_cluster: RedisCluster) -> None:
    assert key_slot(b"{2}thing") == 5649
    with pytest.raises(redis.ResponseError, match="5649"):
        redis_cluster.nodes[0].execute("SET", "{2}thing", 1)
    assert redis_cluster.nodes[1].execute("SET", "{2}thing", 1)


@pytest.mark.process
def test_a_cluster_that_lost_a_node_is_made_ready_again(redis_cluster: RedisCluster) -> None:
    first, second, _ = redis_cluster.nodes
    second.execute("SET", "{2}thing", 1)
    first.kill()
    second.freeze()
    redis_cluster.make_ready()
    redis_cluster.empty()
    assert [node.execute("DBSIZE") for node in redis_cluster.nodes] == [0, 0, 0]


@pytest.mark.process
def test_valkey_makes_such_groups_too(servers: Run) -> None:
    program = find_valkey(servers)
    cluster = RedisCluster(servers, program)
    cluster.remove()
    sentinel = RedisSentinel(servers, program)
    lost = sentinel.kill_master()
    assert sentinel.wait_for_master(lost) is not lost
    sentinel.remove()
