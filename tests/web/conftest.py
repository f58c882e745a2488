from collections.abc import Iterator

import pytest

from holdfast import Holdfast
from holdfast.web.throttle import Throttle
from tests.web.serving import Serving, make_web, serving
from tests.web.shop import make_shop


@pytest.fixture(scope="module")
def shop() -> Holdfast:
    return make_shop()


@pytest.fixture(scope="module")
def server(shop: Holdfast) -> Iterator[Serving]:
    web = make_web(shop)
    web.site.sign_ins = Throttle(100_000, 1)  # all tests of a module come from one address
    with serving(web) as served:
        yield served
