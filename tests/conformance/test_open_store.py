"""A store is found by the scheme of its URL, and a URL never gives away a password."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

import holdfast.stores
from holdfast.model.errors import ConfigurationError
from holdfast.stores import open_store
from holdfast.stores.memory import MemoryStore

SECRET = "s3cret"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool | None]]:
    """A store of another package for mongo://, and one that cannot be imported for broken://."""
    calls: list[tuple[str, bool | None]] = []
    module: Any = ModuleType("holdfast_mongo")

    def opener(url: str, auto_migrate: bool | None) -> MemoryStore:
        calls.append((url, auto_migrate))
        return MemoryStore()

    module.open_store = opener
    monkeypatch.setitem(sys.modules, "holdfast_mongo", module)
    points = [
        EntryPoint("mongo", "holdfast_mongo:open_store", "holdfast.stores"),
        EntryPoint("broken", "holdfast_missing:open_store", "holdfast.stores"),
    ]

    def entry_points(group: str) -> list[EntryPoint]:
        return [point for point in points if point.group == group]

    monkeypatch.setattr(holdfast.stores, "entry_points", entry_points)
    return calls


def test_memory_is_built_in() -> None:
    assert isinstance(open_store("memory://"), MemoryStore)
    assert open_store("memory://shared") is open_store("memory://shared", auto_migrate=True)


def test_a_registered_store_gets_the_url_and_the_wish_to_migrate(
    registered: list[tuple[str, bool | None]],
) -> None:
    open_store("mongo://host/db", auto_migrate=False)
    assert registered == [("mongo://host/db", False)]


def test_a_registered_store_that_cannot_be_imported_says_so(registered: object) -> None:
    with pytest.raises(ConfigurationError, match=r"store: .*broken://.*holdfast_missing"):
        open_store("broken://host")


def test_an_unknown_scheme_names_the_known_ones(registered: object) -> None:
    with pytest.raises(ConfigurationError) as raised:
        open_store("mongodb://host/db")
    for known in ("memory://", "sqlite://", "mongo://"):
        assert known in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        f"nosuch://user:{SECRET}@host/db",
        f"nosuch://user:p@/{SECRET}@host/db",
        f"nosuch://host/db?password={SECRET}",
        f"user:{SECRET}@host/db",
        f"nosuch://user:a\n{SECRET}@host/db",
    ],
)
def test_an_error_never_tells_the_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        open_store(url)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("url", ["", "jobs.db", "sqlite:jobs.db"])
def test_what_is_not_a_url_is_told_with_an_example(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///jobs\.db"):
        open_store(url)


@pytest.mark.process
@pytest.mark.parametrize("package", ["asyncpg", "tenacity"])
def test_a_store_whose_driver_is_not_installed_names_what_to_install(package: str) -> None:
    program = (
        f"import sys; sys.modules['{package}'] = None\n"
        "from holdfast.stores import open_store\n"
        "from holdfast.model.errors import ConfigurationError\n"
        "try:\n    open_store('postgresql://me:s3cret@host/db')\n"
        "except ConfigurationError as error:\n    print(error)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    wanted = f"store: postgresql:// needs the package {package}: pip install 'holdfast[postgres]'\n"
    assert ended.stdout == wanted
