"""Finding the application that a command was given as `module:name`."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

from holdfast.app import Holdfast
from holdfast.cli.errors import Left, WrongUse
from holdfast.model.errors import HoldfastError


def load_app(reference: str) -> Holdfast:
    """The application at `module:name` (or `module:a.b`). The working directory can be imported from."""
    module_name, colon, path = reference.partition(":")
    if not (colon and path and module_name):
        raise WrongUse(f"{reference!r} is not of the form module:app, for instance 'myproject.jobs:app'.")
    found: object = _import(module_name)
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise WrongUse(f"module {module_name!r} has no {path!r}.{_candidates(module_name)}") from None
    if not isinstance(found, Holdfast):
        raise WrongUse(f"{reference} is a {type(found).__name__}, not a Holdfast.{_candidates(module_name)}")
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
