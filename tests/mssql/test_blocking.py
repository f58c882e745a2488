"""Connections for blocking code."""

import pytest

from holdfast.model.errors import StoreUnavailable
from holdfast.stores.mssql.blocking import BlockingConnections
from holdfast.stores.mssql.connecting import Connecting
from holdfast.stores.mssql.driver import Fault
from tests.mssql.fake_driver import FakeDriver
from tests.mssql.test_database import address


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


def test_blocking_code_borrows_a_connection_and_gives_it_back_clean(driver: FakeDriver) -> None:
    connections = BlockingConnections(address(), Connecting(address(), driver))
    for _ in range(2):
        with connections.lent() as connection:
            connection.begin()
            connection.execute("mine")
    [made] = driver.made
    assert made.sent == ["BEGIN TRANSACTION", "mine", "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION"] * 2
    assert made.patience is None
    with (
        connections.lent(),
        connections.lent(),
        pytest.raises(StoreUnavailable, match="all 2 connections"),
        connections.lent(),
    ):
        pytest.fail("there is no third one")
    connections.close()
    assert all(each.is_closed for each in driver.made)


def test_blocking_code_never_gets_a_broken_connection(driver: FakeDriver) -> None:
    connections = BlockingConnections(address(), Connecting(address(), driver))
    with pytest.raises(Fault), connections.lent():
        raise Fault("gone", is_lost=True)
    with connections.lent():
        pass
    driver.made[1].dead = True
    with connections.lent():
        pass
    assert [each.is_closed for each in driver.made] == [True, True, False]
    driver.fault = Fault("nobody listens", is_lost=True)
    with (
        pytest.raises(StoreUnavailable, match="nothing was written"),
        connections.lent(),
        connections.lent(),
    ):
        pytest.fail("there is no second one")
    connections.close()
