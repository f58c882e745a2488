"""Encryption changes no promise of a store."""

from collections.abc import Callable

import pytest

from holdfast.model.encryption import parse_keys
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sealed import SealedStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance import FlowWakeupPromises, StoreConformance, Subject, WakeupPromises
from tests.partitioned.support import made_of
from tests.partitioned.test_conformance import URLS, NoOneLog, NoOneScopeOfKeys
from tests.sealed.keys import NEW, OLD


class TestSealedStore(StoreConformance, FlowWakeupPromises, WakeupPromises):
    @pytest.fixture
    def make_store(self) -> Callable[[], Subject]:
        def make() -> Subject:
            clock = ManualClock()
            keys = parse_keys(f"{NEW} {OLD}")
            return Subject(SealedStore(MemoryStore(clock=clock), keys), clock.advance)

        return make


class TestSealedPartitions(NoOneLog, NoOneScopeOfKeys, StoreConformance, FlowWakeupPromises, WakeupPromises):
    """As `open_store` puts them together: each partition by itself is sealed."""

    @pytest.fixture
    def make_store(self) -> Callable[[], Subject]:
        def make() -> Subject:
            clock, keys = ManualClock(), parse_keys(f"{NEW} {OLD}")
            stores = {name: SealedStore(MemoryStore(clock=clock), keys) for name in URLS}
            return Subject(made_of(stores, URLS), clock.advance)

        return make
