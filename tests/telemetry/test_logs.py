import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from holdfast.model.settings import Settings
from holdfast.telemetry.logs import AUDIT, JsonFormatter, LogfmtFormatter, configure, log, printable

HOSTILE = [
    "plain",
    "two\nlines",
    "carriage\rreturn",
    "\x1b[31mred\x1b[0m",
    'quote " and = and \\',
    "nul \x00 bell \x07 del \x7f",
    "c1 \x9b31m next line \x85",
    "separators \u2028 \u2029",
    "reversed \u202e evil \u2066 isolate",
    "lone surrogate \ud800",
    "tag \U000e0041",
    "fake level=error event=forged",
]


def record(message: str = "something happened", **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("holdfast.test", logging.INFO, "file.py", 1, message, None, None)
    made.created = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC).timestamp()
    made.__dict__["fields"] = fields
    return made


def test_a_line_says_when_what_and_whose() -> None:
    line = LogfmtFormatter().format(record(lateness=0.5, worker="w", job="j", token=7, run=1))
    assert line == (
        "time=2026-01-02T03:04:05.678Z level=info logger=holdfast.test "
        'event="something happened" job=j run=1 token=7 worker=w lateness=0.5'
    )


def test_the_json_line_has_the_same_facts_with_their_types() -> None:
    made = json.loads(JsonFormatter().format(record(job="j", run=1, lateness=0.5, ok=True, none=None)))
    assert made == {
        "time": "2026-01-02T03:04:05.678Z",
        "level": "info",
        "logger": "holdfast.test",
        "event": "something happened",
        "job": "j",
        "run": 1,
        "lateness": 0.5,
        "ok": True,
        "none": None,
    }


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("formatter", [LogfmtFormatter(), JsonFormatter()])
def test_one_event_is_one_printable_line(text: str, formatter: logging.Formatter) -> None:
    line = formatter.format(record(text, reason=text, **{text: 1}))
    assert line.isprintable()
    assert len(line.splitlines()) == 1
    line.encode()


@pytest.mark.parametrize("text", HOSTILE)
def test_json_gives_hostile_text_back_unchanged(text: str) -> None:
    assert json.loads(JsonFormatter().format(record(reason=text)))["reason"] == text


def test_a_value_cannot_forge_a_field() -> None:
    line = LogfmtFormatter().format(record(reason='x" level=error event="forged'))
    assert line.endswith('reason="x\\" level=error event=\\"forged"')


def test_payloads_and_results_are_left_out() -> None:
    made = record(payload=b"canary", args=["canary"], kwargs={"a": "canary"}, result="canary", job="j")
    assert "canary" not in LogfmtFormatter().format(made)
    assert "canary" not in JsonFormatter().format(made)


@pytest.mark.parametrize("formatter", [LogfmtFormatter(), JsonFormatter()])
def test_passwords_in_urls_are_masked(formatter: logging.Formatter) -> None:
    url = "postgresql://me:canary@host/db?password=canary"
    made = record(f"cannot reach {url}", error=RuntimeError(url), store=url)
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError(url)
    made.exc_info = (caught.type, caught.value, caught.tb)
    line = formatter.format(made)
    assert "canary" not in line
    assert line.count("postgresql://me:***@host/db?password=***") == 4


def test_numbers_that_json_lacks_become_text() -> None:
    made = json.loads(JsonFormatter().format(record(a=float("nan"), b=float("inf"), c=object)))
    assert (made["a"], made["b"], made["c"]) == ("nan", "inf", "<class 'object'>")


def test_a_traceback_stays_on_the_line() -> None:
    made = record()
    with pytest.raises(ValueError, match="first") as caught:
        raise ValueError("first\nsecond")
    made.exc_info = (caught.type, caught.value, caught.tb)
    line = LogfmtFormatter().format(made)
    assert len(line.splitlines()) == 1
    assert "ValueError: first\\nsecond" in line
    assert "Traceback" in json.loads(JsonFormatter().format(made))["traceback"]


def test_a_wrong_placeholder_does_not_cost_the_line() -> None:
    made = logging.LogRecord("holdfast.test", logging.INFO, "file.py", 1, "%d jobs", ("many",), None)
    assert 'event="%d jobs"' in LogfmtFormatter().format(made)


@pytest.fixture
def heard() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    logger = logging.getLogger("holdfast.tests.heard")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogfmtFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield logger, stream
    logger.removeHandler(handler)


def test_an_event_is_not_read_as_a_format(heard: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = heard
    log(logger, logging.INFO, "100 %s done", job="j")
    assert 'event="100 %s done" job=j' in stream.getvalue()


def test_a_silent_level_does_not_touch_the_fields(heard: tuple[logging.Logger, io.StringIO]) -> None:
    class Explosive:
        def __str__(self) -> str:
            raise AssertionError("formatted although the level is off")

    logger, stream = heard
    log(logger, logging.DEBUG, "quiet", value=Explosive())
    assert stream.getvalue() == ""


@contextmanager
def bare_root() -> Iterator[logging.Logger]:
    """The root logger without handlers; no fixture, because pytest adds its own after fixtures are made."""
    root, own, audit = (logging.getLogger(name) for name in ("", "holdfast", AUDIT))
    before = (root.handlers[:], root.level, own.level, audit.level)
    root.handlers[:] = []
    try:
        yield root
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        own.setLevel(before[2])
        audit.setLevel(before[3])


def test_configure_writes_in_the_chosen_format_from_the_chosen_level() -> None:
    stream = io.StringIO()
    with bare_root():
        configure(Settings(log_format="json", log_level="warning"), stream)
        logging.getLogger("holdfast.x").info("quiet")
        logging.getLogger("holdfast.x").warning("loud")
    assert json.loads(stream.getvalue())["event"] == "loud"


def test_the_audit_is_written_from_whatever_level() -> None:
    stream = io.StringIO()
    with bare_root():
        configure(Settings(log_format="json", log_level="error"), stream)
        logging.getLogger("holdfast.x").info("quiet")
        logging.getLogger(AUDIT).info("change")
    assert json.loads(stream.getvalue())["event"] == "change"


def test_configure_leaves_an_applications_own_logging_alone() -> None:
    theirs = logging.StreamHandler(io.StringIO())
    with bare_root() as root:
        root.addHandler(theirs)
        configure(Settings(log_level="debug"))
        assert root.handlers == [theirs]
        assert logging.getLogger("holdfast").level == logging.DEBUG


def test_printable_keeps_what_people_write() -> None:
    assert printable("Grüße, 世界 ✓") == "Grüße, 世界 ✓"


def test_facts_with_the_name_of_a_secret_are_hidden() -> None:
    fields = {"token": 7, "api_key": "hush", "user": {"password": "hush", "name": "ada"}, "tries": 2}
    record = logging.makeLogRecord({"msg": "signed in", "fields": fields, "dbPassword": "hush"})
    told = json.loads(JsonFormatter().format(record))
    assert (told["token"], told["api_key"], told["dbPassword"], told["tries"]) == (7, "***", "***", 2)
    assert "ada" in told["user"]
    assert "hush" not in JsonFormatter().format(record) + LogfmtFormatter().format(record)
