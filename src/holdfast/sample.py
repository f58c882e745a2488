"""A sample application with one task, to try things with: `holdfast worker holdfast.sample:app`.

The store comes from the settings, as for every application that does not name one.
"""

from __future__ import annotations

import time
from typing import Any

from holdfast.app import Holdfast
from holdfast.engine.context import Context

STEPS = 4

app = Holdfast()


@app.task(name="sample")
def sample(ctx: Context[Any], number: int, length: float = 2.0) -> str:
    """Works for `length` seconds and logs its start, progress and end.

    It never asks whether it may go on. So an attempt that was frozen past its lease runs to its end and
    reports, late, which is what the demo wants to see refused.
    """
    ctx.log.info("sample started", fields={"number": number, "length": length})
    for step in range(1, STEPS + 1):
        time.sleep(length / STEPS)
        ctx.progress(step / STEPS, f"step {step} of {STEPS}")
        if step < STEPS:
            ctx.log.info("sample progress", fields={"number": number, "percent": 100 * step // STEPS})
    ctx.log.info("sample ended", fields={"number": number})
    return f"sample {number} done"
