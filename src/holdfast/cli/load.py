"""Finding what a command was given as `module:name`: the application, a strategy."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from holdfast.app import Holdfast
from holdfast.cli.errors import Left, WrongUse
from holdfast.model.errors import HoldfastError
from holdfast.model.strategy import Rotating, Strategy, Strict, Weighted

STRATEGIES: Mapping[str, Callable[[], Strategy]] = {
    "rotating": Rotating,
    "strict": Strict,
    "weighted": Weighted,
}


def load_app(reference: str) -> Holdfast:
    """The application at `module:name` (or `module:a.b`). The working directory can be imported from."""
    module_name, colon, path = reference.partition(":")
    if not (colon and path and module_name):
        raise WrongUse(f"{reference!r} is not of the form module:app, for instance 'myproject.jobs:app'.")
    found = _found(module_name, path)
    if not isinstance(found, Holdfast):
        raise WrongUse(f"{reference} is a {type(found).__name__}, not a Holdfast.{_candidates(module_name)}")
    return found


def load_strategy(reference: str) -> Strategy:
    """One of ours by its name, or an object of one's own at `module:name`."""
    if reference in STRATEGIES:
        return STRATEGIES[reference]()
    module_name, colon, path = reference.partition(":")
    if not (colon and path and module_name):
        known = ", ".join(STRATEGIES)
        raise WrongUse(f"{reference!r} is no strategy: give one of {known}, or your own as module:name.")
    found = _found(module_name, path)
    if isinstance(found, type) or not callable(getattr(found, "order", None)):
        raise WrongUse(f"{reference} is no strategy: it must be an object with order(queues, turn, random).")
    return cast("Strategy", found)


def _found(module_name: str, path: str) -> object:
    found: object = _import(module_name)
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise WrongUse(f"module {module_name!r} has no {path!r}.{_candidates(module_name)}") from None
    return found


def _import(name: str) -> object:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise WrongUse(f"there is no module {name!r} here; the working directory is {here}.") from None
        raise WrongUse(f"module {name!r} needs the module {error.name!r}, which is not installed.") from None
    except (HoldfastError, Left):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  its author must read it
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise WrongUse(
            f"module {name!r} cannot be imported: {type(error).__name__}: {error} "
            f"(in {place.filename}, line {place.lineno})."
        ) from None


def _candidates(module_name: str) -> str:
    names = [name for name, value in vars(sys.modules[module_name]).items() if isinstance(value, Holdfast)]
    return f" Did you mean {module_name}:{names[0]}?" if names else ""
