"""Opening connections: the driver, and whom it signs in."""

from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.credential import Credential, signed_in
from holdfast.stores.mssql.driver import Driver
from holdfast.stores.mssql.drivers import driver_named
from holdfast.stores.mssql.seat import Opened


class Connecting:
    """Opens connections to one database. Threads may share it.

    The driver's package is imported at once; Entra ID is asked when the first connection is opened.
    """

    def __init__(
        self, address: Address, driver: Driver | None = None, credential: Credential | None = None
    ) -> None:
        self._address = address
        self._driver = driver or driver_named(address.driver)
        self._credential = credential or signed_in(address)

    def open(self, patience: float | None) -> Opened:
        if self._credential is None:
            return Opened(self._driver.connect(self._address, None, patience))
        token = self._credential.token()
        return Opened(self._driver.connect(self._address, token.text, patience), token.expires)
