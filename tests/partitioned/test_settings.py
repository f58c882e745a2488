"""Partitions in a settings file."""

from pathlib import Path

import pytest

from holdfast.config import load
from holdfast.model.errors import ConfigurationError
from holdfast.model.partition import parse

FILE = """
concurrency = 3

[partitions]
a = "postgresql://me:s3cret@host/one"
b = "memory://b"
home = "b"
draining = ["a"]

[partitions.queues]
mail = "a"
"report-*" = "b"

[partitions.topics]
orders = "a"
"""


def loaded(folder: Path, text: str, name: str = "holdfast.toml", **environ: str) -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return load(file=file, environ=environ).settings.store


def test_a_table_of_partitions_is_the_store(tmp_path: Path) -> None:
    found = parse(loaded(tmp_path, FILE))
    assert [(each.name, each.url, each.draining) for each in found.partitions] == [
        ("a", "postgresql://me:s3cret@host/one", True),
        ("b", "memory://b", False),
    ]
    assert (found.home, found.queues, found.topics) == (
        "b",
        (("mail", "a"), ("report-*", "b")),
        (("orders", "a"),),
    )


def test_so_it_is_in_a_pyproject(tmp_path: Path) -> None:
    text = '[tool.holdfast.partitions]\na = "memory://a"\n[tool.holdfast.partitions.queues]\n"*" = "a"\n'
    assert parse(loaded(tmp_path, text, "pyproject.toml")).queues == (("*", "a"),)


def test_the_environment_names_another_store_or_means_the_table(tmp_path: Path) -> None:
    assert loaded(tmp_path, FILE, HOLDFAST_STORE="memory://") == "memory://"
    assert loaded(tmp_path, FILE, HOLDFAST_STORE="partition://") == loaded(tmp_path, FILE)
    assert loaded(tmp_path, 'store = "partition://"\n' + FILE) == loaded(tmp_path, FILE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partitions = 3", "[partitions]: expected a table of names and URLs"),
        ('store = "sqlite:///x"\n[partitions]\na = "memory://"', "store: there are [partitions] too"),
        ('[partitions]\na = ["s3cret"]', "[partitions] a: expected the URL of a store"),
        ('[partitions]\na = "memory://a"\nhome = 3', "[partitions] home: expected a name"),
        ('[partitions]\na = "memory://a"\ndraining = "a"', "[partitions] draining: expected a list of names"),
        ('[partitions]\na = "memory://a"\nqueues = "a"', "[partitions] queues: expected a table"),
        ('[partitions]\na = "me:s3cret@host"', "[partitions] partition a: its store is not a URL"),
        ('[partitions]\na = "memory://a"\n[partitions.queues]\nq = "z"', "queue.q='z' is not the name"),
    ],
)
def test_a_table_that_is_wrong_is_refused_in_one_line_without_secrets(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        loaded(tmp_path, text)
    assert message in str(raised.value)
    assert "holdfast.toml: " in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_no_secret_is_shown_by_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text(FILE, encoding="utf-8")
    shown = repr(load(file=file, environ={}).settings)
    assert "s3cret" not in shown
    assert "postgresql://me:***@host/one" in shown
