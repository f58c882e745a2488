"""Handlers in processes of their own that take a lock."""

from holdfast import Holdfast

app = Holdfast()


@app.task(run_in="process")
def blocking() -> int:
    with app.sync_lock("books", ttl=30) as grant:
        return grant.token


@app.task(run_in="process")
async def awaiting() -> int:
    async with app, app.lock("books", ttl=30) as grant:
        return grant.token


@app.task
def threaded() -> int:
    with app.sync_lock("books", ttl=30) as grant:
        return grant.token
