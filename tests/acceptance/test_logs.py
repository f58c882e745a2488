import io
import json
import logging
from collections.abc import Iterator

import pytest

from holdfast import Context, Holdfast
from holdfast.telemetry.logs import JsonFormatter

app = Holdfast("memory://")


@app.task
def careless(ctx: Context, facts: dict[str, str]) -> None:
    ctx.log.warning("told", fields=facts, extra={"token": "-1", "own": "kept"})


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("holdfast.task")
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


async def test_facts_that_come_from_a_payload_cannot_pass_for_the_lines_own(lines: io.StringIO) -> None:
    async with app.testing() as testing:
        job = await careless.enqueue(
            {"job": "another", "level": "critical", "event": "forged", "level_": "x"}
        )
        await testing.drain()
        done = await app.get(job.id)
    assert done is not None
    line = json.loads(lines.getvalue())
    assert (line["job"], line["run"], line["token"]) == (job.id, 1, done.token)
    assert (line["level"], line["event"], line["logger"]) == ("warning", "told", "holdfast.task")
    assert (line["level_"], line["level__"], line["event_"], line["own"]) == (
        "critical",
        "x",
        "forged",
        "kept",
    )
