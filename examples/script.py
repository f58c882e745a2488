"""A plain script: stores jobs without an event loop, runs them, and reads what became of them.

Run it: python script.py
"""

import asyncio

from holdfast import Exponential, Holdfast

app = Holdfast("sqlite:///script.db")


@app.task(retry=Exponential(max_retries=5, base=1))
def count_words(text: str) -> int:
    return len(text.split())


def main() -> None:
    with app:
        job = count_words.using(key="moby-dick-1").enqueue_sync("Call me Ishmael.")
        again = count_words.using(key="moby-dick-1").enqueue_sync("Call me Ishmael.")
        print("one job for one key:", job.id == again.id)
        print("why does it not run?", app.sync.explain(job.id))

        # Usually another process does this: holdfast worker script:app
        asyncio.run(app.worker().run(until_idle=True))

        print("result:", app.sync.result(job, timeout=10))
        for attempt in app.sync.history(job.id):
            print(f"attempt {attempt.run}: {attempt.outcome}")


if __name__ == "__main__":
    main()
