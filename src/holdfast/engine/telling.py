"""Tells the store every few seconds how the worker stands, for those who look at it from elsewhere."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import NoReturn

from holdfast.engine import surroundings
from holdfast.engine.account import Account
from holdfast.engine.pump import Pump
from holdfast.model.report import WorkerReport, encode_report
from holdfast.model.settings import Settings
from holdfast.model.timing import SECOND
from holdfast.store import FleetStore

log = logging.getLogger("holdfast.heartbeat")

FIRST_SECONDS = 1.0
REPORT_SECONDS = 5.0


async def tell(
    fleet: FleetStore, worker: str, settings: Settings, report: Callable[[], WorkerReport]
) -> NoReturn:
    """Sends a report with a beat, again and again, until cancelled. Nothing rests on any one of them."""
    pause, timing = FIRST_SECONDS, settings.timing
    patience = timing.call_timeout / SECOND
    while True:
        await asyncio.sleep(pause * random.uniform(0.9, 1.1))
        pause = REPORT_SECONDS
        try:
            async with asyncio.timeout(patience):
                await fleet.beat(worker, timing.lease, encode_report(report()))
        except Exception as error:  # noqa: BLE001  the heartbeat says what is wrong with the store
            fields = {"worker": worker, "error": str(error) or type(error).__name__}
            log.debug("cannot tell how the worker stands", extra={"fields": fields})


def stands(pump: Pump | None, account: Account, concurrency: int) -> WorkerReport:
    """How a worker stands, whether it has begun or not. From any thread."""
    if pump is None:
        return WorkerReport(slots=concurrency, by_queue=account.reports())
    slots = pump.slots
    running = list(slots.running)
    begun = [hold.started for hold in running if hold.started is not None]
    return WorkerReport(
        slots=slots.concurrency,
        busy=len(running),
        stuck=len(slots.stuck),
        waiting=len(slots.buffer),
        claiming=pump.is_claiming,
        oldest_run=max(0.0, surroundings.now() - min(begun)) if begun else None,
        by_queue=account.reports(),
    )
