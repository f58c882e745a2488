"""Where in a database a store is, and that it stays there."""

import re
from importlib.resources import files

import asyncpg
import pytest

from holdfast.model.errors import ConfigurationError
from holdfast.model.lifecycle import STARTED
from holdfast.model.records import Edit, Extension, Move, Query, Tick
from holdfast.store import Session
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.address import Address, parse
from holdfast.stores.postgres.queries import Queries, queries
from holdfast.stores.postgres.schema import steps
from holdfast.testing.conformance.case import ended, new_job, wanted, worker_record
from tests.chaos.waiting import until

PLACES = (
    "",
    "?schema=other",
    "?schema=holdfast_two",
    "?schema=user",
    "?schema=public&prefix=hf_",
    "?schema=public&prefix=holdfast_",
    f"?schema={'s' * 24}&prefix={'p' * 23}_",
)


@pytest.mark.parametrize(
    "name",
    [
        "Jobs",
        "1a",
        "a-b",
        "a b",
        'a"b',
        "a'b",
        "a;b",
        "a.b",
        "ä",
        "a" * 25,
        "pg_x",
        "information_schema",
        "a\n",
    ],
)
@pytest.mark.parametrize("setting", ["schema", "prefix"])
def test_an_odd_name_is_refused(setting: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{setting}=.* is not a name"):
        parse(
            f"postgresql://h/db?{setting}={name}" if "\n" not in name else f"postgresql://h/db?{setting}=a%0A"
        )


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("pool", "1"),
        ("pool", "x"),
        ("notify", "maybe"),
        ("prepared", ""),
        ("timeout", "0"),
        ("timeout", "nan"),
    ],
)
def test_an_odd_setting_is_refused_by_name(setting: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{setting}={text!r}"):
        parse(f"postgresql://h/db?{setting}={text}")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush/hush@h/db",
        "postgresql://me:hush#hush@h/db",
        "postgresql://me:hush?hush@h/db",
        "postgresql://me:hush[hush@h/db",
        "postgresql://me:hush@h:hush/db",
        "postgresql://me:hush@h:65536/db",
        "other://me:hush@h/db",
    ],
)
def test_a_password_that_breaks_the_url_is_not_shown(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse(url)
    assert "hush" not in str(raised.value)
    assert "postgresql://user:password@host:port/database" in str(raised.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:hush@h:5/db", "h:5/db"),
        ("postgresql://me:hu%40sh@a:1,b:2/db?password=hush", "a:1,b:2/db"),
        ("postgres://[::1]:5/db", "[::1]:5/db"),
        ("postgresql:///db?host=/run&user=me@there", "the local server/db"),
    ],
)
def test_the_place_and_the_repr_tell_no_secret(url: str, place: str) -> None:
    address = parse(url)
    assert address.place == place
    assert "hush" not in repr(address) + repr(PostgresStore.from_url(url))


def test_names_are_rendered_once_and_wholly() -> None:
    address = Address("", schema="holdfast_x", prefix="holdfast_")
    told = "holdfast.job holdfast_job_pkey 'holdfast.job_ready' holdfast.%1$s holdfast.{source} notholdfast.x"
    assert address.rendered(told) == (
        '"holdfast_x".holdfast_job holdfast_job_pkey \'"holdfast_x".holdfast_job_ready\' '
        '"holdfast_x".holdfast_%1$s "holdfast_x".holdfast_{source} notholdfast.x'
    )


def test_a_channel_fits_a_name_and_belongs_to_one_place() -> None:
    assert len(Address("", schema="s" * 24, prefix="p" * 24).channel(2**31 - 1)) < 64
    assert Address("", schema="a", prefix="b_").channel(1) != Address("", schema="a_b").channel(1)


def test_no_statement_has_a_name_without_its_place() -> None:
    """Looks for our tables where SQL expects a table; only an alias may be called so."""
    made = re.compile(r"^CREATE (?:TABLE|VIEW|FUNCTION) holdfast\.(\w+)", re.MULTILINE)
    sources = [step.sql for step in steps()]
    names = {name for sql in sources for name in made.findall(sql)}
    assert {"job", "done_other", "live", "tick_v1"} <= names
    folder = files("holdfast.stores.postgres")
    sources += [file.read_text() for file in folder.iterdir() if file.name.endswith(".py")]
    sources += [getattr(Queries(), name) for name in Queries.__slots__]
    some = "|".join(sorted(names))
    bare = re.compile(
        rf"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|LIKE|PARTITION|PERFORM) (?:ONLY )?({some})\b(?! AS \()"
    )
    call = re.compile(r"(?<![\w.])\w+_v\d+\(")
    for sql in sources:
        plain = re.sub(r"--.*", "", sql)
        assert bare.findall(plain) == []
        assert call.findall(plain) == []


def test_rendered_statements_name_only_their_place() -> None:
    address = Address("", schema="elsewhere", prefix="x_")
    known = queries(address)
    scripts = [step.script(address) for step in steps()] + [
        getattr(known, name) for name in Queries.__slots__
    ]
    for script in scripts:
        assert re.findall(r"\bholdfast[._]\w+", re.sub(r"--.*", "", script)) == []


async def walk(session: Session) -> None:
    """One job through all that has a statement of its own."""
    jobs, fleet = session.jobs, session.fleet
    await fleet.register(worker_record("ann"), 60_000_000)
    assert await fleet.beat("ann", 60_000_000)
    first, other = new_job(key="k", tags=("x",)), new_job(queue="later", delay=10**9)
    assert [added.created for added in await jobs.add([first, other])] == [True, True]
    assert [added.created for added in await jobs.add([first, other])] == [False, False]
    await fleet.pause("mail")
    await fleet.resume("mail")
    [job] = (await jobs.tick(Tick(worker="ann", seq=1, moves=[], want=wanted()))).claimed
    start = Move(job=job.id, token=job.token, path=STARTED, outcome=None, elapsed=0)
    for _ in range(2):
        assert (await jobs.tick(Tick(worker="ann", seq=2, moves=[start]))).verdicts[0].name == "ACCEPTED"
    extension = Extension(job=job.id, token=job.token, lease=10**9, elapsed=1, progress=0.5)
    assert [held.name for held in await jobs.extend("ann", [extension])] == ["HELD"]
    done = await jobs.tick(Tick(worker="ann", seq=3, moves=[ended(job, elapsed=1)]))
    assert done.verdicts[0].name == "ACCEPTED"
    assert await jobs.edit(other.id, 1, Edit(priority=3)) is not None
    assert len(await jobs.find(Query(limit=10))) == 2
    assert {each.state.value for each in await jobs.count()} == {"scheduled", "success"}
    assert len(await jobs.history(job.id)) == 1
    assert await jobs.expired(10) == []
    assert await jobs.delete(other.id)
    assert await jobs.prune(-1_000_000, 10) == 1
    assert len(await fleet.workers()) == 1
    assert [queue.name for queue in await fleet.queues()] == ["mail"]


async def test_stores_stand_side_by_side_in_one_database(postgres_database: str) -> None:
    stores = [PostgresStore.from_url(postgres_database + place, auto_migrate=True) for place in PLACES]
    sessions = [await store.connect("shop") for store in stores]
    try:
        # Each finds only its own.
        for session in sessions:
            assert await session.jobs.find(Query(limit=10)) == []
            assert await session.fleet.workers() == []
            await session.jobs.add(
                [new_job(id="018f0000-0000-7000-8000-0000000000ff", payload=b"[2]", delay=10**9)]
            )
            assert len(await session.jobs.find(Query(limit=10))) == 1
            await session.jobs.delete("018f0000-0000-7000-8000-0000000000ff")
            await walk(session)
        assert await made_elsewhere(postgres_database) == set()
        for place, store in zip(PLACES, stores, strict=True):
            facts = await store.facts()
            assert facts["schema"].startswith(parse(postgres_database + place).schema)
            assert "live jobs" in facts
    finally:
        for session in sessions:
            await session.close()
        for store in stores:
            await store.close()


async def test_a_wake_up_stays_in_its_place(postgres_database: str) -> None:
    here, there = "?schema=a&prefix=b_", "?schema=a_b"
    stores = [PostgresStore.from_url(postgres_database + each, auto_migrate=True) for each in (here, there)]
    sessions = [await store.connect("shop") for store in stores]
    heard: list[str] = []
    connection = await asyncpg.connect(postgres_database)
    try:
        for store, name in zip(stores, ("here", "there"), strict=True):
            channel = store._address.channel(1)
            await connection.add_listener(channel, lambda *_, name=name: heard.append(name))
        await sessions[0].jobs.add([new_job()])
        await until(lambda: list(heard), "a wake-up")
        assert set(heard) == {"here"}
    finally:
        await connection.close()
        for session in sessions:
            await session.close()


async def made_elsewhere(url: str) -> set[str]:
    """Tables and functions that belong to none of the places."""
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            """SELECT n.nspname || '.' || o.name FROM (
                SELECT relnamespace AS place, relname AS name FROM pg_class
                UNION ALL SELECT pronamespace, proname FROM pg_proc
            ) AS o JOIN pg_namespace AS n ON n.oid = o.place
            WHERE n.nspname NOT LIKE 'pg_%' AND n.nspname <> 'information_schema'"""
        )
    finally:
        await connection.close()
    starts = [f"{parse(url + place).schema}.{parse(url + place).prefix}" for place in PLACES]
    return {name for (name,) in rows if not any(name.startswith(start) for start in starts)}
