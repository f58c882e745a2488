"""Loopback ports for servers."""

import random
import socket
from contextlib import suppress
from pathlib import Path

HOST = "127.0.0.1"
_LOWEST = 12000


def free_port(beside: int = 0) -> int:
    """A port that nobody listens on, nor on the one that far above it, below those for outgoing connections.

    A client that tries again and again while its server is down could otherwise connect to itself, and keep
    the server from coming back.
    """
    highest = _first_outgoing_port() - beside
    for port in random.sample(range(_LOWEST, highest), 200):
        with socket.socket() as probe, socket.socket() as second, suppress(OSError):
            probe.bind((HOST, port))
            if beside:
                second.bind((HOST, port + beside))
            return port
    raise OSError(f"no free port on {HOST} between {_LOWEST} and {highest}")


def _first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except OSError:
        return 32768
