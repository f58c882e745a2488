"""A store full of believable work, to look at the dashboard with.

`python tools/seed.py sqlite:///seed.db` fills it, runs workers, and shows the dashboard until Ctrl-C.
"""

import asyncio
import random
import sys
from datetime import UTC, datetime, timedelta

import uvicorn

from holdfast import Context, Event, Exponential, Holdfast, cron, every
from holdfast.web import Hosts, Role, Token, create

PORT = 8080
TOKEN = "look-at-the-dashboard"
chance = random.Random(8)


def make_app(store: str) -> Holdfast:
    """An online shop: some of its work fails, some is slow, some is held back."""
    app = Holdfast(store)

    @app.task(name="mail.send_receipt", queue="mail")
    async def send_receipt(to: str, order: int) -> str:
        await asyncio.sleep(chance.uniform(0.01, 0.2))
        return f"sent to {to}"

    @app.task(name="billing.charge_card", queue="billing", retry=Exponential(max_retries=2, base=2))
    async def charge_card(order: int, amount: int, card_token: str) -> dict[str, int]:
        await asyncio.sleep(chance.uniform(0.02, 0.3))
        if amount % 97 == 0:
            raise ConnectionError("payment gateway did not answer within 10 s")
        if amount % 211 == 0:
            raise ValueError("the card has expired")
        return {"order": order, "charged": amount}

    @app.task(name="media.resize_image", queue="media")
    async def resize_image(ctx: Context[None], path: str) -> None:
        for step in range(10):
            ctx.progress(step / 10, f"tile {step + 1} of 10")
            await asyncio.sleep(chance.uniform(0.1, 0.4))

    @app.task(name="reports.nightly_export", queue="reports")
    async def nightly_export(day: str) -> None:
        await asyncio.sleep(90)

    @app.on("orders", group="search-index")
    async def index(event: Event) -> None:
        if event.aggregate == "order-1007":
            raise ValueError("this order has no lines")

    return app


async def fill(app: Holdfast) -> None:
    """Stores what stands there from the beginning."""
    tasks = app.tasks
    await app.limits.set(queue="media", concurrency=6)
    await app.limits.set(task="mail.send_receipt", rate=40, burst=5)
    report = tasks["reports.nightly_export"].call(day="yesterday")
    await app.schedules.put("nightly-export", cron("0 3 * * *", tz="Europe/Berlin"), report)
    await app.schedules.put(
        "tidy-thumbnails", every(minutes=10), tasks["media.resize_image"].call(path="all")
    )
    await app.schedules.put("heartbeat", every(30), Event(topic="clock", type="tick", data={}))
    await app.schedules.put("year-end", cron("0 6 1 1 *"), report)
    await app.schedules.pause("year-end")
    later = [
        tasks["mail.send_receipt"]
        .using(at=datetime.now(UTC) + timedelta(hours=chance.uniform(0.1, 48)), tags=["reminder"])
        .call(to=f"customer-{at}@example.org", order=at)
        for at in range(240)
    ]
    await app.enqueue_many(later)
    await tasks["reports.nightly_export"].enqueue(day="today")
    await app.queues.pause("newsletter")
    newsletter = app.batch()  # left open, as by a program that died
    await newsletter.add(
        *(app.tasks["mail.send_receipt"].call(to=f"reader-{at}", order=at) for at in range(12))
    )


async def feed(app: Holdfast) -> None:
    """Goes on enqueuing, more at some times than at others."""
    tasks = app.tasks
    order = 1000
    while True:
        order += 1
        tenant = f"tenant-{order % 7}"
        amount = chance.randint(100, 9000)
        await (
            tasks["billing.charge_card"]
            .using(tags=[tenant], key=f"order-{order}")
            .enqueue(order=order, amount=amount, card_token="tok_4242")
        )
        await (
            tasks["mail.send_receipt"]
            .using(tags=[tenant, "eu"])
            .enqueue(to=f"customer-{order}@example.org", order=order)
        )
        if order % 12 == 0:
            await tasks["media.resize_image"].enqueue(path=f"products/{order}.jpg")
        await app.emit(
            Event(
                topic="orders", type="placed", data={"total": amount}, aggregate=f"order-{1000 + order % 40}"
            )
        )
        await asyncio.sleep(chance.uniform(0.02, 0.25))


async def hold(app: Holdfast, name: str) -> None:
    async with app.lock(name, ttl=30):
        await asyncio.sleep(3600)


async def main(store: str) -> None:
    app = make_app(store)
    async with app:
        await fill(app)
        web = create(app, tokens=[Token.of("ada", Role.ADMIN, TOKEN)], hosts=Hosts())
        server = uvicorn.Server(
            uvicorn.Config(web, port=PORT, log_level="warning", timeout_graceful_shutdown=1)
        )
        queues = ["mail", "billing", "media", "reports"]
        async with app.worker(queues, concurrency=12), app.worker(["billing", "mail"], concurrency=6):
            others = [
                feed(app),
                hold(app, "invoice/8801"),
                hold(app, "migrate/tenant-3"),
                hold(app, "migrate/tenant-3"),
            ]
            running = [asyncio.create_task(each) for each in others]
            print(f"http://127.0.0.1:{PORT}/#token={TOKEN}")
            await server.serve()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory://"))
