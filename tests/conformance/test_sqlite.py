from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.case import Subject
from holdfast.testing.conformance.add import *
from holdfast.testing.conformance.children import *
from holdfast.testing.conformance.claim import *
from holdfast.testing.conformance.edit import *
from holdfast.testing.conformance.extend import *
from holdfast.testing.conformance.find import *
from holdfast.testing.conformance.fleet import *
from holdfast.testing.conformance.keys import *
from holdfast.testing.conformance.moves import *
from holdfast.testing.conformance.namespaces import *
from holdfast.testing.conformance.reclaim import *
from holdfast.testing.conformance.repeat import *
from holdfast.testing.conformance.case import Promises

G=dict(globals())
for n,v in G.items():
    if isinstance(v,type) and issubclass(v,Promises) and v is not Promises:
        globals()["Test"+n]=type("Test"+n,(v,),{})
@pytest.fixture
def make_store(tmp_path: Path) -> Callable[[], Subject]:
    def make() -> Subject:
        clock = ManualClock()
        store = SqliteStore.from_url(f"sqlite:///{tmp_path}/jobs.db", clock=clock)
        return Subject(store, clock.advance)
    return make
