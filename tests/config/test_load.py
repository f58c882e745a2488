from pathlib import Path

import pytest

from holdfast.config import load, load_settings
from holdfast.model.errors import ConfigurationError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(**given: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(**{"environ": {}, **given})  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_without_anything_the_defaults_stand() -> None:
    settings, sources = load(environ={})
    assert settings.store == "sqlite:///holdfast.db"
    assert set(sources.values()) == {"default"}


def test_each_place_overrides_the_one_before_it(folder: Path) -> None:
    (folder / "holdfast.toml").write_text('lease_seconds = 10\nconcurrency = 2\nnamespace = "file"\n')
    environ = {"HOLDFAST_CONCURRENCY": "3", "HOLDFAST_NAMESPACE": "environment"}
    settings, sources = load({"namespace": "code"}, environ=environ)
    assert (settings.lease_seconds, settings.concurrency, settings.namespace) == (10.0, 3, "code")
    assert sources["lease_seconds"] == "holdfast.toml"
    assert sources["concurrency"] == "HOLDFAST_CONCURRENCY"
    assert sources["namespace"] == "code"
    assert sources["store"] == "default"


def test_an_override_of_none_counts_as_not_given() -> None:
    settings = load_settings({"store": None}, environ={"HOLDFAST_STORE": "memory://"})
    assert settings.store == "memory://"


def test_an_empty_variable_counts_as_not_given() -> None:
    assert load_settings(environ={"HOLDFAST_STORE": ""}).store == "sqlite:///holdfast.db"


def test_pyproject_is_read_when_there_is_no_file_of_our_own(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.holdfast]\nconcurrency = 4\n")
    assert load(environ={}).sources["concurrency"] == "pyproject.toml"
    (folder / "holdfast.toml").write_text("concurrency = 5\n")
    assert load_settings(environ={}).concurrency == 5


def test_a_pyproject_of_another_tool_says_nothing(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.other]\nconcurrency = 4\n")
    assert load_settings(environ={}).concurrency == 10


def test_a_file_can_be_named_by_the_environment_or_in_code(folder: Path) -> None:
    (folder / "other.toml").write_text("concurrency = 6\n")
    assert load_settings(environ={"HOLDFAST_CONFIG": "other.toml"}).concurrency == 6
    assert load_settings(file=Path("other.toml"), environ={}).concurrency == 6


def test_environment_text_becomes_the_settings_type() -> None:
    environ = {
        "HOLDFAST_LEASE_SECONDS": "2.5",
        "HOLDFAST_BATCH": "7",
        "HOLDFAST_AUTO_MIGRATE": "true",
        "HOLDFAST_HEARTBEAT_SECONDS": "0.5",
    }
    settings = load_settings(environ=environ)
    assert (settings.lease_seconds, settings.batch, settings.auto_migrate) == (2.5, 7, True)
    assert settings.heartbeat_seconds == 0.5


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("HOLDFAST_LEASE_SECONDS", "abc", "HOLDFAST_LEASE_SECONDS: expected a number, got 'abc'"),
        ("HOLDFAST_CONCURRENCY", "1.5", "HOLDFAST_CONCURRENCY: expected a whole number, got '1.5'"),
        ("HOLDFAST_AUTO_MIGRATE", "maybe", "HOLDFAST_AUTO_MIGRATE: expected true or false, got 'maybe'"),
        ("HOLDFAST_CONCURRENCY", "0", "HOLDFAST_CONCURRENCY: 0 is not between 1 and 10000"),
        ("HOLDFAST_POLL_SECONDS", "nan", "HOLDFAST_POLL_SECONDS: nan is not between 0.01 and 3600"),
        ("HOLDFAST_LOG_FORMAT", "xml", "HOLDFAST_LOG_FORMAT: 'xml' is not one of logfmt, json"),
        (
            "HOLDFAST_LEESE_SECONDS",
            "2",
            "HOLDFAST_LEESE_SECONDS: unknown setting; did you mean HOLDFAST_LEASE_SECONDS?",
        ),
        ("HOLDFAST_CONFIG", "none.toml", "HOLDFAST_CONFIG: there is no file 'none.toml'"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, message: str) -> None:
    assert refused(environ={variable: value}) == message


def test_a_name_that_cannot_be_a_namespace_is_refused_with_its_source() -> None:
    message = refused(environ={"HOLDFAST_NAMESPACE": "a b\n"})
    assert message.startswith("HOLDFAST_NAMESPACE: 'a b\\n' is not a valid name")


@pytest.mark.parametrize("variable", ["HOLDFAST_SERVICE_HOST", "HOLDFAST_PORT", "HOLDFAST_WEB_TOKEN"])
def test_variables_of_others_under_our_prefix_are_left_alone(variable: str) -> None:
    assert load_settings(environ={variable: "x"}) == load_settings(environ={})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "leese_seconds = 2",
            "holdfast.toml: unknown setting 'leese_seconds'; did you mean 'lease_seconds'?",
        ),
        ("[worker]\nx = 1", "holdfast.toml: unknown setting 'worker'"),
        ('"a\\nb" = 1', "holdfast.toml: unknown setting 'a\\nb'"),
        ('lease_seconds = "2"', "holdfast.toml: lease_seconds: expected a number, got '2'"),
        ("concurrency = true", "holdfast.toml: concurrency: expected a whole number, got True"),
        ("concurrency = 0", "holdfast.toml: concurrency: 0 is not between 1 and 10000"),
        ("concurrency =", "holdfast.toml: not valid TOML: Invalid value (at end of document)"),
    ],
)
def test_a_wrong_file_is_named_with_the_setting(folder: Path, text: str, message: str) -> None:
    (folder / "holdfast.toml").write_text(text)
    assert refused() == message


def test_a_file_that_is_not_text_is_refused(folder: Path) -> None:
    (folder / "holdfast.toml").write_bytes(b"\xff\xfe")
    assert refused() == "holdfast.toml: not valid TOML: it is not UTF-8 text"


def test_a_tool_table_that_is_none_is_refused(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool]\nholdfast = 1\n")
    assert refused() == "pyproject.toml: [tool.holdfast] is not a table"


def test_a_wrong_value_from_code_is_named() -> None:
    assert refused(overrides={"concurrency": "many"}) == "concurrency: expected a whole number, got 'many'"
    assert refused(overrides={"stroe": "x"}) == "unknown setting 'stroe'; did you mean 'store'?"


def test_an_unsafe_timing_blames_what_was_chosen() -> None:
    message = refused(environ={"HOLDFAST_HEARTBEAT_SECONDS": "60"})
    assert message.startswith("HOLDFAST_HEARTBEAT_SECONDS: a lease of 120 s is too short")
    message = refused(environ={"HOLDFAST_LEASE_SECONDS": "5"}, overrides={"heartbeat_seconds": 4})
    assert message.startswith("HOLDFAST_LEASE_SECONDS: a lease of 5 s is too short")


def test_the_error_carries_the_name_of_the_setting() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings({"concurrency": 0}, environ={})
    assert caught.value.setting == "concurrency"


def test_a_store_that_is_not_text_is_not_shown() -> None:
    message = refused(overrides={"store": ["postgresql://me:canary@host/db"]})
    assert message == "store: expected text, got a list"
