"""An application for tests of the HTTP interface."""

from holdfast import Context, Holdfast, Linear, Secret


def make_shop(store: str = "memory://", **settings: object) -> Holdfast:
    app = Holdfast(store, **settings)  # type: ignore[arg-type]

    @app.task
    async def add(a: int, b: int = 2) -> int:
        return a + b

    @app.task(queue="mail", retry=Linear(max_retries=0))
    async def send(to: str, password: str) -> None:
        raise ConnectionError(f"the mail server does not know {to}")

    @app.task
    async def pay(card: Secret[str], note: str = "") -> dict[str, str]:
        return {"receipt": "r-1", "api_key": card.reveal()}

    @app.task
    async def wait(ctx: Context) -> None:
        ctx.progress(0.5, "half way")

    return app
