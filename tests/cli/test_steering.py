"""Commands that steer tell programs what they did."""

from holdfast import every
from tests.cli.steering import Shop


def test_pausing_a_queue_gives_a_document() -> None:
    shop = Shop()
    assert shop.asked("queues", "pause", "mail") == {"queue": "mail", "paused": True}
    assert shop.asked("queues", "resume", "mail") == {"queue": "mail", "paused": False}


def test_steering_a_schedule_gives_a_document() -> None:
    shop = Shop()
    shop.do(lambda: shop.app.schedules.put("nightly", every(60), shop.work.call()))
    assert shop.asked("schedules", "pause", "nightly")["schedule"]["paused"] is True
    assert shop.asked("schedules", "resume", "nightly")["schedule"]["paused"] is False
    assert shop.asked("schedules", "remove", "nightly") == {"removed": "nightly"}
