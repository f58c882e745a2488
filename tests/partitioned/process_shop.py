"""An application whose handlers run in processes of their own, which find it by the name of this module."""

from holdfast import Context, Holdfast

app = Holdfast(poll_seconds=0.1)


@app.task(run_in="process")
def pay_in_process(ctx: Context, entry: str) -> None:
    with ctx.sync_transaction() as tx:
        tx.connection.execute("INSERT INTO public.ledger VALUES (%s)", [entry])


def shop_of(store: str, namespace: str) -> Holdfast:
    return app.configured(store=store, namespace=namespace)
