"""What is read from a store: any of it may have been written by another version, or by nobody of us."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from fuzz.target import Targets, refusals
from holdfast import Secret
from holdfast.model import payload, plan, progress, sealed
from holdfast.model import schedule as rules
from holdfast.model.encryption import EncryptionKey, EncryptionKeys
from holdfast.model.events import EventPage, EventRecord
from holdfast.model.headers import carried
from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord
from holdfast.model.redaction import Redactor, revealed
from holdfast.model.report import QueueReport, WorkerReport, decode_report, encode_report
from holdfast.model.retry import decode_retry, encode_retry
from holdfast.model.scheduling import ScheduleRecord, Schedules
from holdfast.model.task import define
from holdfast.stores.sealed.keyring import Keyring
from holdfast.stores.sealed.seal import Seal

targets = Targets()

KEYRING = Keyring(EncryptionKeys((EncryptionKey(bytes(range(32))),), reads_plain=True))
SEAL = Seal(KEYRING, "default")
REDACTOR = Redactor()
NOW = 1_800_000_000_000_000


class Order(msgspec.Struct):
    """One of each kind that arguments can have."""

    name: str
    count: int
    price: Decimal
    at: datetime
    day: date
    took: timedelta
    id: UUID
    raw: bytes
    card: Secret[str]
    more: dict[str, Any]


def _job(data: bytes) -> JobRecord:
    return JobRecord(
        id="i",
        task="t",
        queue="q",
        payload=data,
        state=State.SUCCESS,
        priority=0,
        due=0,
        created=0,
        headers=data,
        result=data,
    )


def _event(data: bytes) -> EventRecord:
    return EventRecord(id="i", topic="t", type="e", data=data, position=1, at=0, headers=data)


def _schedule(definition: bytes, state: bytes) -> ScheduleRecord:
    return ScheduleRecord(
        name="s",
        version=1,
        mark="m",
        definition=definition,
        state=state,
        look_at=None,
        job=None,
        waits=False,
        run=None,
    )


def _take(order: Order, n: int = 0, rest: list[str] | None = None) -> None: ...


KINDS = [payload.decoder(kind) for kind in (Any, int, float, str, Order, dict[int, Order], set[str])]
TASK = define(_take, name="take")
_JSON = ('{"order":{"name":"a"},"n":1}', "[1,2.5,null,true]", '{"a":{"b":["\\ud800"]}}', "1e400", "NaN")


@targets.add(*_JSON)
def arguments(data: bytes) -> None:
    with refusals():
        TASK.decode_arguments(data)
    for kind in KINDS:
        with refusals():
            value = payload.decode(kind, data, "arguments")
            again = payload.encode(value, limit=payload.PAYLOAD_LIMIT, field="arguments", typed_keys=True)
            read = payload.decode(kind, again, "arguments")
            assert read == value, (read, value)


@targets.add(*_JSON, b"\x00HF\x01")
def contents(data: bytes) -> None:
    shown = REDACTOR.shown(data)
    msgspec.json.encode(shown)
    revealed(data)


@targets.add(
    b"\x00HF\x01\x01abcd",
    b"\x00HF!\x00\x02no{}",
    KEYRING.seal(b"{}", sealed.Kind.ARGUMENTS, "default", "t", "i"),
)
def encrypted(data: bytes) -> None:
    KEYRING.open(data, "default", lambda kind: ("t", "i"))
    sealed.unreadable(data)
    sealed.as_stored(data)
    with refusals():
        sealed.check_read(data, "arguments")
    SEAL.record(_job(data))
    SEAL.page(EventPage(records=[_event(data)], upto=1))
    if not data.startswith(b"\x00HF"):
        for kind in sealed.Kind:
            stored = KEYRING.seal(data, kind, "default", "t", "i")
            assert KEYRING.open(stored, "default", lambda _: ("t", "i")) == data


@targets.add('{"trace":{"traceparent":"00-1-2-01"}}', '{"firing":{"schedule":"s","due":1}}')
def headers(data: bytes) -> None:
    carried(data)
    plan.schedule_of(data)
    plan.firing_of(_job(data))


@targets.add(
    '{"type":"exponential","max_retries":3,"base":1.0}', '{"type":"never"}', '{"type":"linear","step":1e300}'
)
def retry(data: bytes) -> None:
    with refusals(msgspec.MsgspecError):
        strategy = decode_retry(data)
        assert decode_retry(encode_retry(strategy)) == strategy


_DEFINITION = (
    b'{"schedule":{"name":"s","recurrence":{"type":"every","interval":1000000}},'
    b'"fires":{"fires":"job","task":"t","queue":"q","payload":"e30="}}'
)
_CRON = _DEFINITION.replace(b'"every","interval":1000000', b'"cron","expression":"* * * * *"')
_STATE = b'{"origin":0,"next_due":0}'


@targets.add(
    _DEFINITION + b"\n" + _STATE,
    _CRON + b"\n" + _STATE,
    _CRON + b'\n{"origin":-9223372036854775808,"next_due":-9223372036854775808}',
    _DEFINITION + b'\n{"origin":0,"next_due":-9223372036854775808}',
)
def schedules(data: bytes) -> None:
    definition, _, state = data.partition(b"\n")
    record = _schedule(definition, state)
    plan.is_paused(record)
    plan.target_of(definition)
    plan.left_out(state)
    SEAL.schedules(Schedules(now=NOW, records=[record]))
    with refusals(msgspec.MsgspecError):
        plan.ScheduleInfo.of(record)
        stored, stands = plan.decode(record)
        assert plan.decode(_schedule(stored.encode(), msgspec.json.encode(stands))) == (stored, stands)
        decision = rules.decide(stored.schedule, stands, NOW, live=False, most=100)
        stored.write(decision.state, record, "mark", decision)


@targets.add('{"group":"g","topic":"t"}\n{"offset":1,"event":"e","waiting":{}}')
def groups(data: bytes) -> None:
    definition, _, state = data.partition(b"\n")
    with refusals(msgspec.MsgspecError):
        subscriber, stands = progress.decode(_schedule(definition, state))
        stands.due(NOW)
        written = progress.as_write(subscriber, stands, None, "mark")
        assert progress.decode(_schedule(written.definition, written.state)) == (subscriber, stands)


@targets.add(encode_report(WorkerReport(slots=1, by_queue={"q": QueueReport(claimed=1)})))
def reports(data: bytes) -> None:
    report = decode_report(data, NOW)
    if report is not None:
        decode_report(encode_report(report), NOW)
        assert report.total is not None
