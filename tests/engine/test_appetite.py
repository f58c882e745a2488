"""When a worker asks for work, and when it lets others ask first."""

from holdfast.engine.appetite import REST, Appetite
from holdfast.model.strategy import Strict
from tests.engine.rig import Rig


async def test_who_lets_others_ask_first_is_not_done_and_asks_later() -> None:
    rig = Rig(poll_seconds=30)
    appetite = Appetite(("default",), rig.registry, rig.settings, Strict())
    assert appetite.want(1, 0) is not None
    is_hungry = appetite.hungry
    appetite.rest()
    assert not is_hungry
    assert appetite.hungry, "a drain must not end here"
    assert not appetite.asks
    assert appetite.want(1, 0) is None
    assert 0 < appetite.pause() <= REST
