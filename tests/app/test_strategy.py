from collections.abc import Callable
from typing import Any

import pytest

from holdfast import ConfigurationError, Holdfast, Strategy, Strict, Weighted


class Broken:
    def order(self, queues: tuple[str, ...], turn: int, random: Callable[[], float]) -> tuple[str, ...]:
        raise ZeroDivisionError


class OnlyTheLast:
    def order(self, queues: tuple[str, ...], turn: int, random: Callable[[], float]) -> tuple[str, ...]:
        return queues[-1:]


async def _served(strategy: Strategy | None) -> list[str]:
    """The queues in the order in which a worker with one slot served their jobs."""
    app, served = Holdfast("memory://"), list[str]()

    @app.task
    async def note(queue: str) -> None:
        served.append(queue)

    async with app:
        for queue in ("low", "high", "low", "high"):
            await note.using(queue=queue).enqueue(queue)
        await app.worker(["high", "low"], concurrency=1, strategy=strategy).run(until_idle=True)
    return served


async def test_a_strict_worker_serves_the_first_queue_before_the_second() -> None:
    assert await _served(Strict()) == ["high", "high", "low", "low"]


async def test_a_strategy_may_leave_a_queue_out() -> None:
    assert await _served(OnlyTheLast()) == ["low", "low"]


async def test_a_strategy_that_fails_does_not_stop_the_worker(caplog: pytest.LogCaptureFixture) -> None:
    assert sorted(await _served(Broken())) == ["high", "high", "low", "low"]
    assert "the strategy failed" in caplog.text


@pytest.mark.parametrize("weights", [{"a": "b"}, ["a"], {"a": 0}, {"a": float("nan")}])
def test_weights_that_are_none_are_refused(weights: Any) -> None:
    with pytest.raises(ConfigurationError):
        Weighted(weights)
