import random
from collections import Counter

import pytest

from holdfast.model.errors import ConfigurationError
from holdfast.model.strategy import Rotating, Strict, Weighted

QUEUES = ("mail", "reports", "images")


def test_rotating_begins_with_each_queue_equally_often() -> None:
    firsts = Counter(Rotating().order(QUEUES, turn, random.random)[0] for turn in range(30))
    assert firsts == {"mail": 10, "reports": 10, "images": 10}


def test_strict_keeps_the_given_order() -> None:
    assert Strict().order(QUEUES, 7, random.random) == QUEUES


def test_weighted_begins_with_queues_in_proportion_to_their_weights() -> None:
    draw = random.Random(1).random
    strategy = Weighted({"mail": 6, "reports": 3})
    orders = [strategy.order(QUEUES, turn, draw) for turn in range(10_000)]
    firsts = Counter(order[0] for order in orders)
    assert all(sorted(order) == sorted(QUEUES) for order in orders)
    assert firsts["mail"] == pytest.approx(6_000, rel=0.05)
    assert firsts["reports"] == pytest.approx(3_000, rel=0.05)


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_a_weight_that_is_no_positive_number_is_refused_by_name(weight: float) -> None:
    with pytest.raises(ConfigurationError, match=r"strategy\.mail"):
        Weighted({"mail": weight})
