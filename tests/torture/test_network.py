"""The gates of a campaign: they delay, fall silent, hang up, and lose answers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from holdfast.torture.network import HOST, Gate
from holdfast.torture.talks import RedisTalk

SCRIPT = b"*2\r\n$7\r\nEVALSHA\r\n$3\r\nsha\r\n"
READ = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
ANSWER = b":1\r\n"
MOMENT = 0.2


class Answering(asyncio.Protocol):
    """The server's side of a connection: every request gets the same answer."""

    def __init__(self, asked: list[bytes]) -> None:
        self._asked = asked

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._asked.append(data)
        self._transport.write(ANSWER)


class Wire:
    """A server that counts what reaches it, and a client that comes through the gate."""

    def __init__(self, gate: Gate, asked: list[bytes]) -> None:
        self.gate = gate
        self.asked = asked

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(HOST, self.gate.port)


@asynccontextmanager
async def wire(lost: list[str]) -> AsyncGenerator[Wire]:
    asked: list[bytes] = []
    server = await asyncio.get_running_loop().create_server(lambda: Answering(asked), HOST)
    gate = Gate("worker-0", server.sockets[0].getsockname()[:2], RedisTalk, lost.append)
    await gate.open()
    try:
        async with asyncio.timeout(20):
            yield Wire(gate, asked)
    finally:
        await gate.close()
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0)


async def test_an_answer_is_lost_after_the_request_was_carried_out() -> None:
    lost: list[str] = []
    async with wire(lost) as through:
        through.gate.to_lose = 1
        reader, writer = await through.connect()
        writer.write(READ)
        assert await reader.readexactly(len(ANSWER)) == ANSWER
        writer.write(SCRIPT)
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        assert through.asked == [READ, SCRIPT]
        assert lost == ["worker-0"]
        assert not through.gate.to_lose
        writer.close()


@pytest.mark.parametrize("asking", [True, False])
async def test_a_silent_gate_passes_nothing_on_until_it_is_healed(asking: bool) -> None:
    async with wire([]) as through:
        reader, writer = await through.connect()
        writer.write(READ)
        await reader.readexactly(len(ANSWER))
        through.gate.silence(asking=asking, answering=not asking)
        writer.write(SCRIPT)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(MOMENT):
                await reader.readexactly(1)
        assert len(through.asked) == (1 if asking else 2)
        through.gate.heal()
        assert await reader.readexactly(len(ANSWER)) == ANSWER
        writer.close()


async def test_a_gate_that_is_down_hangs_up_on_everybody() -> None:
    async with wire([]) as through:
        reader, writer = await through.connect()
        writer.write(READ)
        await reader.readexactly(len(ANSWER))
        through.gate.fall_down()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        reader, writer = await through.connect()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
