"""Where settings come from: defaults or a preset, a file, the environment, code; the later one wins."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import msgspec

from holdfast.model.encryption import EncryptionKeys, parse_keys
from holdfast.model.errors import ConfigurationError
from holdfast.model.partition_table import PARTITIONED, with_partitions
from holdfast.model.presets import PRESETS
from holdfast.model.settings import SECRET_SETTINGS, Settings

PREFIX = "HOLDFAST_"
FILE_VARIABLE = "HOLDFAST_CONFIG"
CODE = "code"
DEFAULT = "default"
PRESET = "preset "
_KEEPING = ("heartbeat_seconds", "call_timeout_seconds")

_TYPES: dict[str, Any] = get_type_hints(Settings)
_KINDS = {"float": "a number", "int": "a whole number", "bool": "true or false", "str": "text"}


class Loaded(NamedTuple):
    """The settings, and for each of them the place that its value came from."""

    settings: Settings
    sources: dict[str, str]


class _Given(NamedTuple):
    value: object
    source: str


def load_settings(
    overrides: Mapping[str, object] | None = None,
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Settings from all places. Raises ConfigurationError: one line that names the setting and its place."""
    return load(overrides, file=file, environ=environ).settings


def load(
    overrides: Mapping[str, object] | None = None,
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """The same, with the source of each setting. An override of None counts as not given."""
    environ = os.environ if environ is None else environ
    in_file = _from_file(file, environ)
    given = {**in_file, **_from_environment(environ), **_from_code(overrides or {})}
    given = {**_from_preset(given.get("preset")), **given}
    if "store" in in_file and given["store"].value == PARTITIONED:
        given["store"] = in_file["store"]  # whoever names it so means the table there
    values = {name: _convert(name, item) for name, item in given.items()}
    sources = {name: given[name].source if name in given else DEFAULT for name in _TYPES}
    try:
        return Loaded(msgspec.convert(values, Settings), sources)
    except ConfigurationError as error:
        raise _with_source(error, sources) from None


def load_keys(settings: Settings) -> EncryptionKeys | None:
    """The keys that the settings name, or that are in the file they name; None if there are none."""
    if settings.encryption_keys is not None:
        return parse_keys(settings.encryption_keys)
    if settings.encryption_keys_file is None:
        return None
    setting, path = "encryption_keys_file", settings.encryption_keys_file
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot read {path!r}: {error.strerror}", setting=setting) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path!r} is not text", setting=setting) from None
    return parse_keys(text, setting)


def _from_file(file: Path | None, environ: Mapping[str, str]) -> dict[str, _Given]:
    found = _find_file(file, environ)
    if found is None:
        return {}
    path, table = found
    table = with_partitions(table, str(path))
    unknown = next((name for name in table if name not in _TYPES), None)
    if unknown is not None:
        raise ConfigurationError(f"{path}: unknown setting {unknown!a}{_hint(unknown)}")
    return {name: _Given(value, str(path)) for name, value in table.items()}


def _find_file(file: Path | None, environ: Mapping[str, str]) -> tuple[Path, dict[str, object]] | None:
    if file is not None:
        return file, _read(file, str(file))
    named = environ.get(FILE_VARIABLE)
    if named:
        return Path(named), _read(Path(named), FILE_VARIABLE)
    own, project = Path("holdfast.toml"), Path("pyproject.toml")
    if own.is_file():
        return own, _read(own, str(own))
    if project.is_file() and (table := _read(project, str(project))):
        return project, table
    return None


def _read(path: Path, source: str) -> dict[str, object]:
    """The table of settings in a file: all of it, or `[tool.holdfast]` in a pyproject.toml."""
    try:
        document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"{source}: there is no file {str(path)!r}") from None
    except OSError as error:
        raise ConfigurationError(f"{source}: cannot read {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: not valid TOML: it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits, or brackets as deep, are not its own errors.
        raise ConfigurationError(f"{path}: not valid TOML: {' '.join(str(error).split())}") from None
    if path.name != "pyproject.toml":
        return document
    try:
        return msgspec.convert(document.get("tool", {}).get("holdfast", {}), dict[str, object])
    except (AttributeError, msgspec.ValidationError):
        raise ConfigurationError(f"{path}: [tool.holdfast] is not a table") from None


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    for variable, value in environ.items():
        if not variable.startswith(PREFIX) or variable == FILE_VARIABLE or not value:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name in _TYPES:
            given[name] = _Given(value, variable)
        elif close := get_close_matches(name, _TYPES, n=1, cutoff=0.85):
            # Other programs may use the prefix (a cluster does, for a service of this name), so only what
            # looks like a slip of the pen is refused.
            raise ConfigurationError(f"{variable}: unknown setting; did you mean {PREFIX}{close[0].upper()}?")
    return given


def _from_code(overrides: Mapping[str, object]) -> dict[str, _Given]:
    for name in overrides:
        if name not in _TYPES:
            raise ConfigurationError(f"unknown setting {name!a}{_hint(name)}")
    return {name: _Given(value, CODE) for name, value in overrides.items() if value is not None}


def _from_preset(named: _Given | None) -> dict[str, _Given]:
    if named is None:
        return {}
    name = _convert("preset", named)
    if name not in PRESETS:
        message = f"{name!a} is not one of {', '.join(PRESETS)}"
        raise ConfigurationError(_placed("preset", named.source, message), setting=None)
    return {setting: _Given(value, f"{PRESET}{name}") for setting, value in PRESETS[str(name)].items()}


def _hint(name: str) -> str:
    close = get_close_matches(name, _TYPES, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _convert(name: str, item: _Given) -> object:
    from_environment = item.source.startswith(PREFIX)
    try:
        return msgspec.convert(item.value, _TYPES[name], strict=not from_environment)
    except (msgspec.ValidationError, UnicodeEncodeError):
        is_hidden = name == "store" or name in SECRET_SETTINGS
        shown = f"a {type(item.value).__name__}" if is_hidden else ascii(item.value)
        message = f"expected {_kind(name)}, got {shown if len(shown) <= 60 else shown[:57] + '...'}"
        raise ConfigurationError(_placed(name, item.source, message), setting=None) from None


def _kind(name: str) -> str:
    text = str(_TYPES[name])
    return next((kind for part, kind in _KINDS.items() if part in text), "another value")


def _placed(name: str, source: str, message: str) -> str:
    """`HOLDFAST_LEASE_SECONDS: …`, `holdfast.toml: lease_seconds: …` or, from code, `lease_seconds: …`."""
    if source.startswith(PREFIX):
        return f"{source}: {message}"
    if source in {CODE, DEFAULT} or source.startswith(PRESET):
        return f"{name}: {message}"
    return f"{source}: {name}: {message}"


def _with_source(error: ConfigurationError, sources: Mapping[str, str]) -> ConfigurationError:
    name, _, message = str(error).partition(": ")
    if name not in sources:
        return error
    if name == "lease_seconds" and (sources[name] == DEFAULT or sources[name].startswith(PRESET)):
        # A lease nobody chose is too short only because of what somebody did choose.
        name = next((each for each in _KEEPING if sources[each] != DEFAULT), name)
    placed = ConfigurationError(_placed(name, sources[name], message))
    placed.setting = name
    return placed
