from collections.abc import Iterator

import pytest

from holdfast import Holdfast
from tests.web.serving import Serving, make_web, serving
from tests.web.shop import make_shop


@pytest.fixture(scope="module")
def shop() -> Holdfast:
    return make_shop()


@pytest.fixture(scope="module")
def server(shop: Holdfast) -> Iterator[Serving]:
    with serving(make_web(shop)) as served:
        yield served
