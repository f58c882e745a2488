"""Who may do what, shown by real logins."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from click.testing import CliRunner

from holdfast import Context, Holdfast
from holdfast.cli.main import cli
from holdfast.model.errors import ConfigurationError
from holdfast.model.records import LockWish, Verdict
from holdfast.model.scheduling import Term
from holdfast.model.timing import SECOND
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.conformance.case import new_job
from holdfast.testing.conformance.schedules import write

TABLES = (
    *("job", "lease", "done", "done_other", "attempt", "key", "tally", "worker", "queue", "day", "schema"),
    *("lock", "lock_line", "lock_token", "schedule", "standing"),
    *("outbox", "event", "event_head", "event_floor"),
)
LEADER = LockWish(name="leader", owner="ann", ttl=60 * SECOND, place=0)
KINDS = ("producer", "worker", "admin", "stranger")


@dataclass
class Estate:
    """A migrated database with its roles, and a login for each."""

    database: str
    options: str
    logins: dict[str, str]

    def url(self, kind: str) -> str:
        parts = urlsplit(self.database)
        return parts._replace(netloc=f"{self.logins[kind]}@{parts.netloc.rpartition('@')[2]}").geturl()

    def store_url(self, kind: str) -> str:
        return self.url(kind) + self.options

    def app(self, kind: str) -> Holdfast:
        app = Holdfast(self.store_url(kind), namespace="shop", poll_seconds=0.1)

        @app.task(name="add")
        async def add(ctx: Context, a: int, b: int) -> int:
            ctx.progress(0.5)
            return a + b

        @app.task(name="keep")
        async def keep(ctx: Context, text: str) -> None:
            async with ctx.transaction() as tx:
                await tx.connection.execute("SELECT $1::text", text)

        return app

    @asynccontextmanager
    async def connection(self, kind: str) -> AsyncGenerator[Any]:
        connection = await asyncpg.connect(self.url(kind))
        try:
            yield connection
        finally:
            await connection.close()

    async def refused(self, kind: str, *statements: str) -> None:
        async with self.connection(kind) as connection:
            for statement in statements:
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(statement)


@asynccontextmanager
async def an_estate(database: str, options: str = "") -> AsyncGenerator[Estate]:
    """Roles are the whole server's, so each estate has names of its own."""
    mark = f"t{secrets.token_hex(4)}"
    store = PostgresStore.from_url(database + options)
    estate = Estate(database, options, {kind: f"{mark}_{kind}_login" for kind in KINDS})
    connection = await asyncpg.connect(database)
    try:
        await store.migrations.apply()
        roles = store.migrations.roles_as_sql(mark)
        for kind, login in estate.logins.items():
            await connection.execute(roles)
            await connection.execute(f"CREATE ROLE {login} LOGIN")
            if kind != "stranger":
                await connection.execute(f"GRANT {mark}_{kind} TO {login}")
        yield estate
    finally:
        for login in estate.logins.values():
            await connection.execute(f"DROP ROLE IF EXISTS {login}")
        for kind in ("producer", "worker", "admin"):
            await connection.execute(f"REASSIGN OWNED BY {mark}_{kind} TO CURRENT_USER")
            await connection.execute(f"DROP OWNED BY {mark}_{kind}; DROP ROLE {mark}_{kind}")
        await connection.close()
        await store.close()


@pytest.mark.parametrize("options", ["", "?schema=public&prefix=hf_"])
async def test_a_producer_adds_and_a_worker_works(options: str, postgres_database: str) -> None:
    async with an_estate(postgres_database, options) as estate:
        producer, worker = estate.app("producer"), estate.app("worker")
        async with producer:
            add, keep = producer.tasks["add"], producer.tasks["keep"]
            first = await add.using(key="k", tags=["x"]).enqueue(1, b=2)
            assert (await add.using(key="k", tags=["x"]).enqueue(1, b=2)).id == first.id
            many = await producer.enqueue_many([add.call(1, 1), keep.call("x")])
            async with estate.connection("producer") as connection:
                for isolation in ("read_committed", "repeatable_read", "serializable"):
                    async with connection.transaction(isolation=isolation):
                        await add.enqueue_in(connection, 1, b=2)
            async with worker:
                await worker.worker(concurrency=2).run(until_idle=True)
            assert await first.result(timeout=10) == 3
            assert [job.state for job in await producer.find(state="success")] == ["success"] * 6
            assert (await producer.stats()).completed == 6
            assert len(await producer.history(many[0].id)) == 1


async def test_a_producer_can_neither_claim_nor_change_nor_delete(postgres_database: str) -> None:
    async with an_estate(postgres_database) as estate, estate.app("producer") as app:
        job = await app.tasks["add"].enqueue(1, b=2)
        calls: list[Callable[[], Any]] = [
            lambda: app.worker().run(until_idle=True),
            lambda: app.delete(job.id),
            lambda: app.edit(job.id, version=1, priority=5),
            lambda: app.cancel(job.id),
            lambda: app.queues.pause("default"),
        ]
        for call in calls:
            with pytest.raises(ConfigurationError, match="permission denied"):
                await call()
        # There is nothing to do.
        assert await PostgresStore.from_url(estate.store_url("producer")).migrations.apply() == []
        await estate.refused(
            "producer",
            *(f"DELETE FROM holdfast.{table}" for table in TABLES),
            *(f"TRUNCATE holdfast.{table}" for table in TABLES),
            "UPDATE holdfast.job SET priority = 1",
            "INSERT INTO holdfast.job SELECT * FROM holdfast.job",
            "INSERT INTO holdfast.namespace (name, retention) VALUES ('x', 0)",
            "SELECT holdfast.make_days_v1(0)",
            "SELECT holdfast.drop_day_v1('20200101')",
            "SELECT holdfast.prune_v1(1, 0, 1)",
            "SELECT holdfast.forget_v1(1, '{}')",
            "SELECT holdfast.extend_v1(1, '', '{}', '{}', '{}', '{}', '{}', '{}')",
            "CREATE TABLE holdfast.mine (a int)",
            "DROP TABLE holdfast.job",
            "CREATE OR REPLACE FUNCTION holdfast.now_v1() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'",
        )
        assert (await app.get(job.id)).state == "scheduled"  # type: ignore[union-attr]


async def test_a_worker_steers_jobs_and_drops_old_days_but_changes_no_table(postgres_database: str) -> None:
    async with an_estate(postgres_database) as estate, estate.app("worker") as app:
        add = app.tasks["add"]
        jobs = [await add.using(delay=3600).enqueue(1, b=n) for n in range(3)]
        await app.cancel(jobs[0].id)
        await app.edit(jobs[1].id, version=1, priority=5)
        assert await app.delete(jobs[2].id)
        await app.queues.pause("default")
        await app.queues.resume("default")
        async with estate.connection("admin") as connection:
            old = "(holdfast.now_v1() - 9 * 86400000000)"
            await connection.execute(f"SELECT holdfast.make_days_v1({old})")
            before = await connection.fetchval("SELECT count(*) FROM holdfast.day")
        session = await app.store.connect("shop")
        for _ in range(3):
            await session.jobs.prune(86_400_000_000, 100)
        await session.close()
        async with estate.connection("worker") as connection:
            assert await connection.fetchval("SELECT count(*) FROM holdfast.day") == before - 3
        await estate.refused(
            "worker",
            *(f"TRUNCATE holdfast.{table}" for table in TABLES),
            *(f"DROP TABLE holdfast.{table}" for table in TABLES),
            "CREATE TABLE holdfast.mine (a int)",
            "ALTER TABLE holdfast.job ADD COLUMN mine int",
            "INSERT INTO holdfast.day (name, upto) VALUES ('other', 0)",
            "UPDATE holdfast.day SET name = 'other'",
            "UPDATE holdfast.namespace SET name = 'other'",
            "DELETE FROM holdfast.namespace",
            "DELETE FROM holdfast.schema",
            "CREATE OR REPLACE FUNCTION holdfast.now_v1() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'",
        )


async def test_a_worker_writes_and_fires_schedules_and_a_producer_does_not_even_read_them(
    postgres_database: str,
) -> None:
    async with an_estate(postgres_database) as estate:
        producer = await PostgresStore.from_url(estate.store_url("producer")).connect("shop")
        worker = await PostgresStore.from_url(estate.store_url("worker")).connect("shop")
        try:
            token = (await worker.locks.acquire(LEADER)).token
            term = Term(lock=LEADER.name, owner=LEADER.owner, token=token or 0)
            fired = write(look_at=0, jobs=(new_job(),))
            assert await worker.schedules.write([fired], term) == [Verdict.ACCEPTED]
            assert len((await worker.schedules.due(9)).records) == 1
            assert len((await worker.schedules.list("", 9)).records) == 1
            calls: list[Callable[[], Any]] = [
                lambda: producer.schedules.write([write("other")]),
                lambda: producer.schedules.remove("nightly"),
                lambda: producer.schedules.get(["nightly"]),
                lambda: producer.schedules.list("", 9),
                lambda: producer.schedules.due(9),
            ]
            for call in calls:
                with pytest.raises(ConfigurationError, match="permission denied"):
                    await call()
            assert await worker.schedules.remove("nightly") is True
        finally:
            await producer.close()
            await worker.close()


async def test_functions_that_run_as_the_owner_do_only_what_they_are_for(postgres_database: str) -> None:
    async with an_estate(postgres_database) as estate, estate.connection("worker") as connection:
        count = "SELECT count(*) FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace"
        before = await connection.fetchval(count)
        today = await connection.fetchval("SELECT min(name) FROM holdfast.day")
        names = [
            "other",
            "20200101",
            "",
            None,
            today,
            "other; DROP TABLE holdfast.job",
            "other, holdfast.job",
        ]
        for name in names:
            assert await connection.fetchval("SELECT holdfast.drop_day_v1($1)", name) == 0
        for instant in (None, -1, 0, 2**62):
            with pytest.raises(asyncpg.InvalidParameterValueError, match="too far from now"):
                await connection.execute("SELECT holdfast.make_days_v1($1)", instant)
        assert await connection.fetchval(count) == before
        definers = await connection.fetch(
            "SELECT proname, proconfig, proacl::text FROM pg_proc "
            "WHERE prosecdef AND pronamespace = 'holdfast'::regnamespace ORDER BY proname"
        )
        assert [row[0] for row in definers] == [
            "add_fresh_v1",
            "add_lone_v1",
            "add_v1",
            "append_v1",
            "drop_day_v1",
            "make_days_v1",
        ]
        for _, config, rights in definers:
            assert "search_path=pg_catalog, pg_temp" in config
            assert "{=" not in rights
            assert ",=" not in rights


async def test_names_of_a_callers_own_do_not_lead_the_owner_astray(postgres_database: str) -> None:
    nothing = ["NULL::pg_catalog.int8[]", "NULL::pg_catalog.int8[]", "NULL::pg_catalog.text[]"]
    arguments = ["1", "NULL", "ARRAY[pg_catalog.gen_random_uuid()]", *["ARRAY['x'::pg_catalog.text]"] * 2]
    arguments += ["ARRAY['x'::pg_catalog.bytea]", "ARRAY[1::pg_catalog.int8]", *nothing]
    async with an_estate(postgres_database) as estate, estate.connection("producer") as connection:
        await connection.execute("SELECT holdfast.namespace_v1('shop')")
        for name in ("text", "jsonb", "uuid", "key"):
            await connection.execute(f"CREATE TYPE pg_temp.{name} AS (a int)")
        await connection.execute("SET search_path = pg_temp, pg_catalog")
        await connection.execute(f"SELECT holdfast.add_v1({', '.join(arguments + ['NULL'] * 8)})")
        assert await connection.fetchval("SELECT count(*) FROM holdfast.job") == 1


async def test_a_stranger_may_do_nothing(postgres_database: str) -> None:
    async with an_estate(postgres_database) as estate:
        with pytest.raises(ConfigurationError, match="permission denied"):
            await estate.app("stranger").__aenter__()
        await estate.refused(
            "stranger",
            *(f"SELECT FROM holdfast.{table}" for table in TABLES),
            "SELECT holdfast.now_v1()",
            "SELECT holdfast.make_days_v1(0)",
        )
    async with an_estate(postgres_database, "?schema=public&prefix=hf_") as estate:
        await estate.refused(
            "stranger",
            *(f"SELECT FROM public.hf_{table}" for table in TABLES),
            *(f"SELECT public.hf_{name}" for name in ("now_v1()", "make_days_v1(0)", "namespace_v1('x')")),
        )


async def test_an_admin_migrates_without_being_a_superuser(postgres_database: str) -> None:
    async with an_estate(postgres_database) as estate, estate.connection("admin") as connection:
        await connection.execute("DELETE FROM holdfast.schema WHERE version > 1")
        drop = await connection.fetch(
            "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'holdfast'::regnamespace"
        )
        for (function,) in drop:
            await connection.execute(f"DROP FUNCTION {function}")
        await connection.execute(
            "DROP TABLE holdfast.lock, holdfast.lock_line, holdfast.lock_token, holdfast.schedule, "
            "holdfast.standing, holdfast.outbox, holdfast.event, holdfast.event_head, holdfast.event_floor"
        )
        store = PostgresStore.from_url(estate.store_url("admin"))
        applied = await store.migrations.apply()
        assert applied[0] == "0002_clock"
        # What somebody of that role made is not the role's yet, and nobody else may use it.
        await connection.execute(store.migrations.roles_as_sql(estate.logins["admin"].split("_")[0]))
        async with estate.app("producer") as app:
            await app.tasks["add"].enqueue(1, b=2)


async def test_an_owner_who_may_create_roles_need_not_be_a_superuser(postgres_database: str) -> None:
    mark = f"t{secrets.token_hex(4)}"
    connection = await asyncpg.connect(postgres_database)
    name = urlsplit(postgres_database).path.removeprefix("/")
    await connection.execute(f"CREATE ROLE {mark} LOGIN CREATEROLE")
    await connection.execute(f"GRANT CREATE ON DATABASE {name} TO {mark}")
    try:
        parts = urlsplit(postgres_database)
        url = parts._replace(netloc=f"{mark}@{parts.netloc.rpartition('@')[2]}").geturl()
        store = PostgresStore.from_url(url)
        await store.migrations.apply()
        owner = await asyncpg.connect(url)
        for _ in range(2):
            await owner.execute(store.migrations.roles_as_sql(mark))
        await owner.close()
        owners = await connection.fetch(
            "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class "
            "WHERE relnamespace = 'holdfast'::regnamespace"
        )
        assert [row[0] for row in owners] == [f"{mark}_admin"]
    finally:
        await connection.execute("DROP SCHEMA holdfast CASCADE")
        for role in ("_producer", "_worker", "_admin", ""):
            await connection.execute(f"DROP OWNED BY {mark}{role}; DROP ROLE {mark}{role}")
        await connection.close()


def test_the_command_prints_the_roles() -> None:
    arguments = ["migrate", "--print-roles", "--store", "postgresql://nowhere.invalid/db?schema=jobs"]
    printed = CliRunner().invoke(cli, [*arguments, "--role-prefix", "acme"])
    assert printed.exit_code == 0
    assert "'acme_producer', 'acme_worker', 'acme_admin'" in printed.stdout
    assert "holdfast.job" not in printed.stdout
    assert '"jobs".job' in printed.stdout
    wrong = CliRunner().invoke(cli, [*arguments, "--role-prefix", "x; DROP"])
    assert wrong.exit_code == 2
    assert "role prefix='x; DROP' is not a name" in wrong.output


@pytest.mark.parametrize("store", ["sqlite:///jobs.db", "memory://"])
def test_a_store_without_roles_says_so(store: str) -> None:
    printed = CliRunner().invoke(cli, ["migrate", "--print-roles", "--store", store])
    assert printed.exit_code == 1
    assert "has no roles" in printed.output


async def test_two_who_run_it_at_once_both_succeed(postgres_database: str) -> None:
    async with an_estate(postgres_database) as estate:
        mark = estate.logins["admin"].split("_")[0]
        roles = PostgresStore.from_url(postgres_database).migrations.roles_as_sql(mark)

        async def run() -> None:
            connection = await asyncpg.connect(postgres_database)
            try:
                await connection.execute(roles)
            finally:
                await connection.close()

        await asyncio.gather(*(run() for _ in range(4)))
