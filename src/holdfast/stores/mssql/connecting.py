"""Opening connections: the driver, and whom it signs in."""

from holdfast.model.errors import ConfigurationError
from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.credential import Credential, signed_in
from holdfast.stores.mssql.driver import Connection, Driver, Fault
from holdfast.stores.mssql.drivers import driver_named
from holdfast.stores.mssql.faults import encryption_advice, is_refused_sign_in
from holdfast.stores.mssql.seat import Opened
from holdfast.stores.mssql.shelf import shelf_of


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
        # What somebody else's driver or credential opened is for nobody but them.
        self._is_shared = driver is None and credential is None
        self._has_worked = False

    def open(self, patience: float | None) -> Opened:
        """A connection that waits so long for an answer: one that was kept, or a new one."""
        # Asked for each time: after a fork it is another one.
        if self._is_shared and (kept := shelf_of(self._address).take(patience)) is not None:
            return kept
        if self._credential is None:
            return Opened(self._connected(None, patience))
        token = self._credential.token()
        return Opened(self._connected(token.text, patience), self._credential.renew_at(token))

    def keep(self, opened: Opened, patience: float | None) -> None:
        """Keeps a connection for whoever needs the next one."""
        if self._is_shared:
            shelf_of(self._address).put(opened, patience)
        else:
            opened.connection.close()

    def _connected(self, token: str | None, patience: float | None) -> Connection:
        try:
            connection = self._driver.connect(self._address, token, patience)
        except Fault as fault:
            # A database that changes its server refuses for a while. What has worked is set up rightly.
            if self._has_worked and is_refused_sign_in(fault):
                raise Fault(fault.text, is_lost=True, sent=False) from fault
            if not self._has_worked and (advice := encryption_advice(fault)):
                told = f"{self._address.place}: {fault.text.rstrip('.')}; {advice}"
                raise ConfigurationError(told, setting="store") from fault
            raise
        self._has_worked = True
        return connection
