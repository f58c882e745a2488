"""Finding the driver that an address asks for."""

from importlib import import_module
from typing import cast

from holdfast.model.errors import ConfigurationError
from holdfast.stores.mssql.address import MSSQL_PYTHON, PYTDS
from holdfast.stores.mssql.driver import Driver

_MODULES = {
    MSSQL_PYTHON: ("holdfast.stores.mssql.mssql_python_driver", "MssqlPython", "sqlserver"),
    PYTDS: ("holdfast.stores.mssql.pytds_driver", "Pytds", "pytds"),
}


def driver_named(name: str) -> Driver:
    """The driver; its package is imported now."""
    module, kind, extra = _MODULES[name]
    try:
        return cast(Driver, getattr(import_module(module), kind)())
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"this store needs the package {error.name}: pip install 'holdfast[{extra}]'", setting="store"
        ) from error
