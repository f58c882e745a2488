"""An application whose handlers are given secrets, each in another place to run in."""

from holdfast import Context, Event, Holdfast, Secret, every
from tests.sealed.keys import CANARY, NEW

app = Holdfast("memory://", encryption_keys=NEW, leader_candidate=False, poll_seconds=0.05)
seen: list[object] = []


@app.task
async def charge(card: Secret[str], note: str = "") -> Secret[str]:
    return Secret(f"{card.reveal()}/{note}")


@app.task
def charge_in_thread(card: Secret[str]) -> str:
    return card.reveal()


@app.task(run_in="process")
def charge_in_process(ctx: Context, card: Secret[str]) -> str:
    ctx.enqueue(charge.using(tags=["child"]).call(card))
    ctx.emit(Event(topic="paid", type="Paid", data={"card": card}))
    return card.reveal()


@app.task(retry=None)
async def refuse(card: Secret[str]) -> None:
    raise ValueError(f"{card} {card!r} {[card]} {card:>5}")


@app.schedule(every(hours=1), args=(Secret(CANARY),))
@app.task
async def recur(card: Secret[str]) -> str:
    return card.reveal()


@app.on("paid", group="ledger")
async def enter(event: Event[dict[str, Secret[str]]]) -> None:
    seen.append(event.data["card"].reveal())
