"""Promises about values: names and payloads are never identifiers, and come back exactly as they went in."""

import pytest

from holdfast.model.lifecycle import RETRIED, Ending
from holdfast.model.records import Edit, Extension, Query
from holdfast.testing.conformance.case import (
    LONG,
    Case,
    Promises,
    ended,
    new_job,
    promise,
    wanted,
    worker_record,
)

TEXTS = [
    "plain",
    "it's",
    'say "so"',
    "'; DROP TABLE jobs; --",
    "100%_like\\",
    "{curly} :colon ?mark $1 %s",
    '{"looks": ["like", "json"]}',
    "null",
    "123",
    "1e3",
    "true",
    " spaces ",
    "Größe – 価値 – قيمة – 🪝",
    "e\u0301 is not \u00e9",
    "right\u202eleft",
    "line\nend\r\n\ttab",
    "\x01\x1f\x7f",
    "x" * 200,
]

PAYLOADS = [
    b"",
    b"null",
    b'{"a": [1, 2.50, "\\u00e9"]}',
    '{"grüße": "🪝"}'.encode(),
    b"\x00\x01\xff\xfe",
    b"'; DROP TABLE jobs; --",
    bytes(range(256)) * 4,
]

BIG = bytes(range(256)) * 4_096


def names(texts: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("text", texts, ids=[ascii(text)[:30] for text in texts])


class ValuePromises(Promises):
    """Whatever a value looks like, it is only a value."""

    @names(TEXTS)
    @promise
    async def test_every_name_works_wherever_a_name_is_taken(self, case: Case, text: str) -> None:
        job = new_job(task=text, queue=text, key=text, key_ttl=LONG, tags=(text, "other"))
        await case.jobs.add([job, new_job(task="bystander", queue="bystander")])
        await case.fleet.register(worker_record(text, queues=(text,), tasks=(text,), host=text), LONG)
        for query in (Query(task=text), Query(queue=text), Query(tag=text)):
            assert [found.id for found in await case.jobs.find(query)] == [job.id]
        [claimed] = (await case.tick(text, want=wanted(text, tasks=[text], limit=5))).claimed
        assert (claimed.task, claimed.queue, claimed.key, claimed.worker) == (text, text, text, text)
        assert claimed.tags == (text, "other")
        assert [found.id for found in await case.jobs.find(Query(worker=text))] == [job.id]
        [worker] = await case.fleet.workers()
        assert (worker.id, worker.host, worker.queues, worker.tasks) == (text, text, (text,), (text,))
        await case.fleet.pause(text)
        assert text in (await case.tick(text, want=wanted(text, tasks=[text]))).paused
        assert {line.queue for line in await case.jobs.count()} == {text, "bystander"}
        [again] = await case.jobs.add([new_job(task=text, key=text)])
        assert again.record.id == job.id

    @names(TEXTS)
    @promise
    async def test_every_text_is_kept_where_a_text_is_told(self, case: Case, text: str) -> None:
        job = await case.add_and_claim()
        extension = Extension(job=job.id, token=job.token, lease=LONG, progress=1.0, progress_note=text)
        await case.jobs.extend("ann", [extension])
        assert (await case.reload(job)).progress_note == text
        await case.move("ann", ended(job, RETRIED, Ending.RETRY, delay=0, reason=text, error=text))
        stored = await case.reload(job)
        [attempt] = await case.jobs.history(job.id)
        assert (stored.reason, stored.error) == (attempt.reason, attempt.error) == (text, text)
        edited = await case.jobs.edit(job.id, stored.version, Edit(reason=f"{text}!", tags=(text,), key=text))
        assert edited is not None
        assert (edited.reason, edited.tags, edited.key) == (f"{text}!", (text,), text)

    @pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: ascii(payload)[:20])
    @promise
    async def test_bytes_come_back_byte_for_byte(self, case: Case, payload: bytes) -> None:
        child = new_job(payload=payload, headers=payload, retry=payload)
        job = await case.add_and_claim(payload=payload, headers=payload, retry=payload)
        assert (job.payload, job.headers, job.retry) == (payload, payload, payload)
        await case.move("ann", ended(job, result=payload, children=(child,)))
        assert (await case.reload(job)).result == payload
        stored = await case.reload(child.id)
        assert (stored.payload, stored.headers, stored.retry) == (payload, payload, payload)

    @promise
    async def test_a_megabyte_comes_back_byte_for_byte(self, case: Case) -> None:
        job = await case.add_and_claim(payload=BIG)
        assert job.payload == BIG
        await case.move("ann", ended(job, result=BIG, error="e" * 100_000))
        stored = await case.reload(job)
        assert (stored.payload, stored.result, stored.error) == (BIG, BIG, "e" * 100_000)

    @promise
    async def test_nothing_and_empty_are_told_apart(self, case: Case) -> None:
        empty = await case.add(headers=b"", retry=b"", priority=-1)
        nothing = await case.add()
        assert (empty.headers, empty.retry) == (b"", b"")
        assert (nothing.headers, nothing.retry) == (None, None)
        for result in (b"", None):
            job = await case.claim_one()
            await case.move("ann", ended(job, result=result))
            assert (await case.reload(job)).result == result

    @pytest.mark.parametrize("number", [0, -1, 2**31, -(2**31) - 1, 2**53 + 1, 2**62, -(2**62)])
    @promise
    async def test_large_numbers_keep_every_digit(self, case: Case, number: int) -> None:
        job = await case.add(priority=number, due=number)
        stored = await case.reload(job)
        assert (stored.priority, stored.due) == (number, number)

    @promise
    async def test_ids_that_differ_in_one_letter_are_two_jobs(self, case: Case) -> None:
        ids = ["018f0000-0000-7000-8000-aaaaaaaaaaaa", "018f0000-0000-7000-8000-aaaaaaaaaaab"]
        answers = await case.jobs.add([new_job(id=job_id) for job_id in ids])
        assert [answer.created for answer in answers] == [True, True]

    @promise
    async def test_names_differ_by_case_and_by_trailing_space(self, case: Case) -> None:
        keys = ["key", "Key", "key ", "kéy", "ke\u0301y"]
        answers = await case.jobs.add([new_job(key=key, queue=key) for key in keys])
        assert [answer.created for answer in answers] == [True] * len(keys)
        assert {line.queue for line in await case.jobs.count()} == set(keys)
