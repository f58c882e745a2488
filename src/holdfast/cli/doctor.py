"""`holdfast doctor`: what is here, how it is set up, and what is wrong with it."""

from __future__ import annotations

import platform
import sqlite3
import stat
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import click

from holdfast import __version__
from holdfast.cli.access import as_json, store_options
from holdfast.cli.output import say, show_facts, show_json, show_table
from holdfast.cli.run import run
from holdfast.config import CODE, Loaded, load, load_keys
from holdfast.model.encryption import EncryptionKeys
from holdfast.model.errors import HoldfastError, OutcomeUnknown, StoreUnavailable
from holdfast.model.masking import mask
from holdfast.model.partition import store_urls
from holdfast.model.settings import Settings
from holdfast.store import Session, Store
from holdfast.store.circuit import CircuitReport, CircuitState, circuits
from holdfast.stores import open_store

PROBES = 5
"""So many calls tell how fast a store answers."""


@dataclass(slots=True)
class Findings:
    """What was found. `problems` keep Holdfast from working; `warnings` are for the operator to weigh."""

    versions: dict[str, str]
    settings: dict[str, dict[str, object]]
    store: dict[str, str] = field(default_factory=dict[str, str])
    warnings: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])


@click.command()
@as_json
@store_options
def doctor(store: str | None, namespace: str | None, as_json: bool) -> int:
    """Check versions, settings and store. The exit code is 1 if something is wrong."""
    loaded = load({"store": store, "namespace": namespace})
    findings = Findings(_versions(), _settings(loaded))
    run(_examine(loaded, findings))
    if as_json:
        show_json(findings)
    else:
        _show(findings)
    return 1 if findings.problems else 0


def _versions() -> dict[str, str]:
    return {
        "holdfast": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "msgspec": version("msgspec"),
        "system": f"{platform.system()} {platform.release()}",
    }


def _settings(loaded: Loaded) -> dict[str, dict[str, object]]:
    shown: dict[str, dict[str, object]] = {}
    for name, place in loaded.sources.items():
        source = f"--{name}" if place == CODE else place
        shown[name] = {"value": loaded.settings.shown(name), "source": source}
    return shown


async def _examine(loaded: Loaded, findings: Findings) -> None:
    settings = loaded.settings
    try:
        keys = load_keys(settings)
        _examine_keys(settings, keys, findings)
        store = open_store(settings.store, auto_migrate=False, keys=keys)
        try:
            await _examine_store(store, settings, findings)
        finally:
            _examine_circuits(store, findings)
            await store.close()
    except HoldfastError as error:
        findings.problems.append(mask(str(error)))


def _examine_keys(settings: Settings, keys: EncryptionKeys | None, findings: Findings) -> None:
    """Says whether payloads are encrypted, by which keys, and what weakens that."""
    findings.store["encryption"] = "off" if keys is None else keys.summary
    if keys is not None and keys.reads_plain and not keys.writes_plain:
        findings.warnings.append(
            "what is not encrypted is read, too; take plain out of encryption_keys in the end"
        )
    file = settings.encryption_keys_file
    if file is not None and stat.S_IMODE(Path(file).stat().st_mode) & 0o077:
        findings.warnings.append(f"{file} can be read by others than its owner; chmod 600 it")


async def _examine_store(store: Store, settings: Settings, findings: Findings) -> None:
    for name, fact in (await _facts(store, settings)).items():
        if name.startswith("warning"):
            findings.warnings.append(fact)
            continue
        findings.store[name] = fact
        if name == "integrity" and not fact.endswith("ok"):
            findings.problems.append(f"the store is damaged: {fact}")
    missing = [] if store.migrations is None else await store.migrations.pending()
    if missing and _is_made_unasked(settings):
        findings.store["schema"] = f"made at the first use: {', '.join(missing)}"
        return
    session = await store.connect(settings.namespace)
    try:
        await session.jobs.count()
        findings.store["answers in"] = await _measure(session)
    finally:
        await session.close()


async def _facts(store: Store, settings: Settings) -> dict[str, str]:
    """What the store tells of itself. It is asked once; a session is tried for until that is hopeless."""
    try:
        return await store.facts()
    except (StoreUnavailable, OutcomeUnknown):
        if not circuits(store):
            raise
        session = await store.connect(settings.namespace)
        await session.close()
        return await store.facts()


async def _measure(session: Session) -> str:
    took: list[float] = []
    for _ in range(PROBES):
        began = perf_counter()
        await session.fleet.queues()
        took.append((perf_counter() - began) * 1_000)
    return f"{min(took):.1f} to {max(took):.1f} ms ({PROBES} calls)"


def _examine_circuits(store: Store, findings: Findings) -> None:
    """What this process met on its way to the store. What workers meet is in their logs and metrics."""
    for partition, circuit in circuits(store).items():
        report = circuit.report()
        findings.store[f"{partition}.circuit" if partition else "circuit"] = _circuit(report)
        if report.faults and report.state is CircuitState.CLOSED and report.away_seconds is None:
            where = f"partition {partition}: " if partition else ""
            findings.warnings.append(
                f"{where}{report.faults} tries did not reach the store, and worked when made again; "
                f"the last fault: {report.fault}"
            )


def _circuit(report: CircuitReport) -> str:
    if report.away_seconds is None:
        return str(report.state)
    faults = f"{report.faults} tries failed within {report.away_seconds:.1f} s"
    return f"{report.state}; {faults}, the last: {report.fault}"


def _is_made_unasked(settings: Settings) -> bool:
    """Whether the first use of the store makes its tables."""
    if settings.auto_migrate is None:
        return all(url.startswith(("sqlite:", "memory:")) for url in store_urls(settings.store))
    return settings.auto_migrate


def _show(findings: Findings) -> None:
    say("Versions", "bold")
    show_facts(findings.versions)
    say("")
    say("Settings", "bold")
    rows = ((name, entry["value"], entry["source"]) for name, entry in findings.settings.items())
    show_table(("setting", "value", "source"), rows, nothing="")
    say("")
    say("Store", "bold")
    show_facts(findings.store)
    say("")
    for warning in findings.warnings:
        say(f"warning: {warning}", "yellow")
    for problem in findings.problems:
        say(f"problem: {problem}", "bold red")
    if not findings.problems:
        say("Nothing is wrong.", "green")
