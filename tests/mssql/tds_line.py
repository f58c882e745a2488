"""The way from the scripted peer to one client."""

import socket
import ssl

from tests.mssql import tds_words as tds


class Gone(Exception):
    """The connection has ended."""


class Line:
    """Packets in and out, encrypted from some moment on or not."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._tls: ssl.SSLObject | None = None
        self._coming, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()

    def read(self) -> tuple[int, bytes]:
        """The next message."""
        body, is_last, kind = b"", False, 0
        while not is_last:
            kind, is_last, length = tds.header(self._exactly(8))
            body += self._exactly(length)
        return kind, body

    def say(self, body: bytes) -> None:
        self._send(tds.packets(tds.REPLY, body))

    def say_half(self, body: bytes) -> None:
        """Some of the packets, the last of them cut."""
        whole = tds.packets(tds.REPLY, body)
        self._send(whole[: len(whole) * 2 // 3])

    def encrypt(self, context: ssl.SSLContext) -> None:
        """Shakes hands within packets, and speaks TLS from then on."""
        tls = context.wrap_bio(self._coming, self._going, server_side=True)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush_handshake()
                _, body = self.read()
                self._coming.write(body)
        self._flush_handshake()
        self._tls = tls

    def _flush_handshake(self) -> None:
        if self._going.pending:
            self._client.sendall(tds.packets(tds.PRELOGIN, self._going.read()))

    def _exactly(self, length: int) -> bytes:
        found = b""
        while len(found) < length:
            found += self._some(length - len(found))
        return found

    def _some(self, most: int) -> bytes:
        while self._tls is not None:
            try:
                return self._tls.read(most) or _gone()
            except ssl.SSLWantReadError:
                self._coming.write(self._client.recv(65536) or _gone())
            except ssl.SSLError:
                _gone()
        return self._client.recv(most) or _gone()

    def _send(self, data: bytes) -> None:
        if self._tls is None:
            self._client.sendall(data)
            return
        self._tls.write(data)
        self._client.sendall(self._going.read())


def _gone() -> bytes:
    raise Gone
