"""`holdfast scheduler`: a process that runs no jobs, but fires schedules when it leads."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import AsyncExitStack

import click

from holdfast.app import Holdfast
from holdfast.cli.errors import Cut, WrongUse
from holdfast.cli.load import load_app
from holdfast.cli.worker import leaving_on_signals
from holdfast.engine.candidacy import Candidacy
from holdfast.engine.identity import worker_record
from holdfast.engine.outage import Outage, reached
from holdfast.engine.partition_declaring import make_declaring
from holdfast.engine.signals import listening
from holdfast.model.partition import is_in_memory
from holdfast.store import Session, Store
from holdfast.store.partitions import Partitioned
from holdfast.telemetry import logs

logger = logging.getLogger("holdfast.scheduler")


@click.command()
@click.argument("app", metavar="MODULE:APP")
@click.option("--lease", type=float, metavar="S", help="Seconds after which another leads if this one dies.")
@click.option("--store", metavar="URL", help="Another store than the application's own.")
@click.option("--namespace", metavar="NAME", help="Another namespace than the application's own.")
def scheduler(app: str, lease: float | None, store: str | None, namespace: str | None) -> int:
    """Fire the schedules of an application, and run no jobs.

    Every worker can do this as well. Of all that stand for election one leads at a time. SIGTERM or Ctrl-C
    ends it, and hands leadership on at once.
    """
    with leaving_on_signals():
        application = load_app(app).configured(store=store, namespace=namespace, leader_lease_seconds=lease)
        logs.configure(application.settings)
        if is_in_memory(application.settings.store):
            raise WrongUse(
                "what is fired in this process's memory:// is run by nobody; name another store with --store."
            )
        return asyncio.run(_Election(application).run())


class _Election:
    """Stands until a signal comes; a second one ends it without taking leave."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._name = worker_record((), (), 0).id
        self._signals: list[signal.Signals] = []

    async def run(self) -> int:
        standing = asyncio.create_task(self._stand())

        def stop(number: signal.Signals) -> None:
            self._signals.append(number)
            forced = len(self._signals) > 1
            logs.log(logger, logging.INFO, "signal", scheduler=self._name, signal=number.name, forced=forced)
            standing.cancel()

        with listening(stop):
            try:
                await standing
            except asyncio.CancelledError:
                if len(self._signals) > 1:
                    raise Cut(self._signals[-1]) from None
                if not self._signals:
                    raise
        return 0

    async def _stand(self) -> None:
        async with AsyncExitStack() as stack:
            app = self._app
            declaring = make_declaring(app.store, app, app.schedules, lambda: app.declared)
            outage = Outage(self._name, self._app.notices, "start_failed")
            await reached(stack, outage, lambda opening: opening.enter_async_context(declaring))
            logs.log(logger, logging.INFO, "scheduler started", scheduler=self._name)
            stack.callback(logs.log, logger, logging.INFO, "scheduler stopped", scheduler=self._name)
            store = app.store
            stores = list(store.parts.values()) if isinstance(store, Partitioned) else [store]
            async with asyncio.TaskGroup() as group:
                for each in stores:
                    group.create_task(self._stand_in(each, outage))

    async def _stand_in(self, store: Store, outage: Outage) -> None:
        """Is a candidate in one store, which may not be there yet."""
        app = self._app

        async def connect() -> Session:
            return await store.connect(app.settings.namespace)

        async with AsyncExitStack() as stack:
            session = await reached(stack, outage, lambda _: connect())
            stack.push_async_callback(session.close)
            candidacy = Candidacy(session, connect, self._name, app.settings, app.notices)
            stack.push_async_callback(candidacy.close)
            await candidacy.stand()
