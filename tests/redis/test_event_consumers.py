"""Consumers whose server loses its last writes: what comes next is told, though it has their positions."""

from holdfast import Event, Holdfast
from tests.chaos.waiting import until_async
from tests.servers.redis import Redis


async def test_what_follows_lost_events_is_told(private_redis: Redis) -> None:
    app = Holdfast(private_redis.url, poll_seconds=0.1)
    told: list[str] = []

    @app.on("orders", group="billing")
    async def handle(event: Event[str]) -> None:
        told.append(event.data)

    async def emit(*names: str) -> None:
        for name in names:
            await app.emit(Event(topic="orders", type="placed", data=name))

    async def passed(count: int) -> bool:
        groups = await app.events.groups()
        return len(told) >= count and [group.offset for group in groups] == [count]

    async with app, app.worker():
        await emit("k1", "k2", "k3")
        await until_async(lambda: passed(3), "three are passed")
        kept = {key: private_redis.execute("DUMP", key) for key in private_redis.execute("KEYS", "*")}
        await emit("lost1", "lost2")
        await until_async(lambda: passed(5), "five are passed")
        for key in private_redis.execute("KEYS", "*"):
            if key not in kept:
                private_redis.execute("DEL", key)
        for key, value in kept.items():
            private_redis.execute("RESTORE", key, 0, value, "REPLACE")
        await emit("new1")
        await until_async(lambda: passed(4), "what has a position that was lost is passed")
        await emit("new2", "new3")
        await until_async(lambda: passed(6), "all that is stored is passed")
    assert [name for name in told if name.startswith("new")] == ["new1", "new2", "new3"]
