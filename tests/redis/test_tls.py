"""TLS: the server's certificate is checked unless the URL says otherwise."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from holdfast.model.errors import StoreUnavailable
from holdfast.stores.redis import RedisStore
from holdfast.testing.conformance.case import new_job
from tests.redis.support import claiming, opened


@asynccontextmanager
async def terminated(url: str, authority: trustme.CA) -> AsyncGenerator[int]:
    """A port on which the server is reached by TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    target = urlsplit(url)

    async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                to.write(data)
                await to.drain()
        to.close()

    async def accept(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(target.hostname, target.port)
        await asyncio.gather(copy(client, to_server), copy(server, to_client))

    listening = await asyncio.start_server(accept, "127.0.0.1", ssl=context)
    yield listening.sockets[0].getsockname()[1]
    listening.close()
    await listening.wait_closed()


def test_a_trusted_server_is_used_and_another_is_refused(redis_url: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    trusted = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))

    async def scenario() -> None:
        async with terminated(redis_url, authority) as port:
            for setting in (f"ssl_ca_certs={trusted}", "ssl_cert_reqs=none"):
                async with opened(f"rediss://127.0.0.1:{port}?{setting}", "tls") as session:
                    await session.jobs.add([new_job()])
                    assert len((await session.jobs.tick(claiming())).claimed) == 1
            with pytest.raises(StoreUnavailable, match="certificate"):
                await RedisStore.from_url(f"rediss://127.0.0.1:{port}").connect("n")

    asyncio.run(scenario())
