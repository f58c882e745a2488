"""The words of TDS 7.4, as far as the scripted peer needs them: what it says, and what it is told."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PRELOGIN, LOGIN7, BATCH, RPC, ATTENTION, REPLY = 0x12, 0x10, 0x01, 0x03, 0x06, 0x04
_LAST_PACKET = 0x01
_HEADER = struct.Struct(">BBHHBB")
_PACKET = 4096
_COLLATION = bytes([0x09, 0x04, 0xD0, 0x00, 0x34])
_LONG = 0xFFFF
_PLP_NULL = 0xFFFF_FFFF_FFFF_FFFF
_EXECUTE_SQL, _PREPARE, _EXECUTE, _PREPARE_AND_EXECUTE, _UNPREPARE = 10, 11, 12, 13, 15
MORE, ERROR, COUNT, CANCELLED = 0x01, 0x02, 0x10, 0x20


@dataclass(frozen=True)
class Login:
    """What a client said of itself."""

    user: str
    password: str
    application: str
    database: str
    token: str | None


@dataclass(frozen=True)
class Asked:
    """A statement, and the type and value of each parameter.

    `handle` says that it was prepared, and is run again by that number; it is None for those that are not.
    """

    sql: str
    kinds: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    handle: int | None = None


def packets(kind: int, body: bytes) -> bytes:
    """The message, cut into packets."""
    room = _PACKET - _HEADER.size
    parts = [body[start : start + room] for start in range(0, len(body), room)] or [b""]
    return b"".join(
        _HEADER.pack(kind, _LAST_PACKET if part is parts[-1] else 0, len(part) + 8, 51, number % 256, 0)
        + part
        for number, part in enumerate(parts, 1)
    )


def header(head: bytes) -> tuple[int, bool, int]:
    """The kind of a packet, whether it is the last one of its message, and how much follows."""
    kind, status, length, _, _, _ = _HEADER.unpack(head)
    return kind, bool(status & _LAST_PACKET), length - _HEADER.size


def options(prelogin: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    place = 0
    while prelogin[place] != 0xFF:
        name, start, length = struct.unpack_from(">BHH", prelogin, place)
        found[name] = prelogin[start : start + length]
        place += 5
    return found


def prelogin_reply(given: dict[int, bytes]) -> bytes:
    table, values, start = b"", b"", 5 * len(given) + 1
    for name, value in given.items():
        table += struct.pack(">BHH", name, start + len(values), len(value))
        values += value
    return table + b"\xff" + values


def login(body: bytes) -> Login:
    def text(place: int) -> bytes:
        start, length = struct.unpack_from("<HH", body, place)
        return body[start : start + 2 * length]

    hidden = bytes(((byte ^ 0xA5) >> 4) | ((byte ^ 0xA5) & 0x0F) << 4 for byte in text(44))
    return Login(
        user=text(40).decode("utf-16-le"),
        password=hidden.decode("utf-16-le"),
        application=text(48).decode("utf-16-le"),
        database=text(68).decode("utf-16-le"),
        token=_token(body),
    )


def _token(body: bytes) -> str | None:
    """The token in the extension for federated sign-in."""
    has_extension = body[27] & 0x10
    if not has_extension:
        return None
    [pointer] = struct.unpack_from("<H", body, 56)
    [place] = struct.unpack_from("<I", body, pointer)
    while body[place] != 0xFF:
        name, length = struct.unpack_from("<BI", body, place)
        if name == 0x02:
            [size] = struct.unpack_from("<I", body, place + 6)
            return body[place + 10 : place + 10 + size].decode("utf-16-le")
        place += 5 + length
    return None


def batch(body: bytes) -> Asked:
    [headers] = struct.unpack_from("<I", body)
    return Asked(body[headers:].decode("utf-16-le"))


def rpc(body: bytes, prepared: dict[int, Asked]) -> Asked:
    """A call of one of the procedures by which drivers run statements with parameters."""
    [place] = struct.unpack_from("<I", body)
    length, procedure = struct.unpack_from("<HH", body, place)
    place += 6
    if length != _LONG:
        name = body[place - 4 : place - 4 + 2 * length].decode("utf-16-le")
        place += 2 * length - 2
        if name.split(".")[-1] != "sp_executesql":
            return Asked(name, values=tuple(_parameters(body, place)))
        procedure = _EXECUTE_SQL
    values = _parameters(body, place)
    if procedure == _EXECUTE_SQL:
        sql, declared, *rest = values
        return Asked(sql, _kinds(declared), tuple(rest))
    if procedure == _EXECUTE:
        handle, *rest = values
        return Asked(prepared[handle].sql, prepared[handle].kinds, tuple(rest), None)
    if procedure == _UNPREPARE:
        return Asked("sp_unprepare")
    assert procedure in {_PREPARE, _PREPARE_AND_EXECUTE}, f"procedure {procedure} is not known"
    _, declared, sql, *rest = values
    asked = prepared[len(prepared) + 1] = Asked(sql, _kinds(declared), tuple(rest), len(prepared) + 1)
    return asked if procedure == _PREPARE_AND_EXECUTE else Asked("sp_prepare", handle=asked.handle)


def _kinds(declared: str | None) -> tuple[str, ...]:
    return tuple(each.split(" ", 1)[1].split(" ")[0].lower() for each in _declarations(declared or ""))


def _parameters(body: bytes, place: int) -> list[Any]:
    found: list[Any] = []
    while place < len(body) and body[place] != 0xFF:
        place += 2 + 2 * body[place]  # the name and the status
        value, place = _parameter(body, place)
        found.append(value)
    return found


def _declarations(text: str) -> list[str]:
    return [each.strip() for each in text.split(",@") if each.strip()]


def _parameter(body: bytes, place: int) -> tuple[Any, int]:
    kind = body[place]
    if kind in {0x26, 0x68, 0x6D}:
        size = body[place + 2]
        raw = body[place + 3 : place + 3 + size]
        number: Any = int.from_bytes(raw, "little", signed=kind == 0x26 and size > 1) if size else None
        if kind == 0x6D and size:
            [number] = struct.unpack("<d", raw)
        return number, place + 3 + size
    assert kind in {0xE7, 0xA7, 0xA5}, f"type {kind:#x}"
    [most] = struct.unpack_from("<H", body, place + 1)
    start = place + 3 + (0 if kind == 0xA5 else 5)
    raw_bytes, after = _long(body, start) if most == _LONG else _short(body, start)
    if raw_bytes is None or kind == 0xA5:
        return raw_bytes, after
    return raw_bytes.decode("utf-16-le" if kind == 0xE7 else "latin-1"), after


def _short(body: bytes, place: int) -> tuple[bytes | None, int]:
    [length] = struct.unpack_from("<H", body, place)
    if length == _LONG:
        return None, place + 2
    return body[place + 2 : place + 2 + length], place + 2 + length


def _long(body: bytes, place: int) -> tuple[bytes | None, int]:
    [total] = struct.unpack_from("<Q", body, place)
    place += 8
    if total == _PLP_NULL:
        return None, place
    found = b""
    while True:
        [length] = struct.unpack_from("<I", body, place)
        place += 4
        if not length:
            return found, place
        found += body[place : place + length]
        place += length


def _named(text: str) -> bytes:
    return bytes([len(text)]) + text.encode("utf-16-le")


def _sized(word: int, body: bytes) -> bytes:
    return struct.pack("<BH", word, len(body)) + body


def welcome(database: str, *, with_token: bool) -> bytes:
    """What is said after a sign-in."""
    said = _sized(0xE3, b"\x01" + _named(database) + _named("master"))
    said += _sized(0xE3, b"\x07\x05" + _COLLATION + b"\x00")
    said += _sized(0xAD, b"\x01\x74\x00\x00\x04" + _named("Microsoft SQL Server") + b"\x10\x00\x03\xe8")
    said += _sized(0xE3, b"\x04" + _named("4096") + _named("4096"))
    if with_token:
        said += b"\xae\x02\x00\x00\x00\x00\xff"
    return said + done()


def handle_of(asked: Asked) -> bytes:
    """Tells the number of what was prepared."""
    if asked.handle is None:
        return b""
    return struct.pack("<BHBBIHBBBi", 0xAC, 0, 0, 1, 0, 0, 0x26, 4, 4, asked.handle)


def done(status: int = 0, *, word: int = 0xFD, count: int = 0) -> bytes:
    return struct.pack("<BHHQ", word, status, 0, count)


def error(number: int, text: str, severity: int) -> bytes:
    encoded = struct.pack("<H", len(text)) + text.encode("utf-16-le")
    body = (
        struct.pack("<iBB", number, 1, severity)
        + encoded
        + _named("peer")
        + _named("")
        + struct.pack("<I", 1)
    )
    return _sized(0xAA, body)


def row_set(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows of bigint, nvarchar(max) and varbinary(max); the first row with a value tells which is which."""
    kinds = [
        next((type(row[place]) for row in rows if row[place] is not None), str)
        for place in range(len(columns))
    ]
    said = struct.pack("<BH", 0x81, len(columns))
    for name, kind in zip(columns, kinds, strict=True):
        said += struct.pack("<IH", 0, 0x0009) + _TYPES[kind] + _named(name)
    for row in rows:
        said += b"\xd1" + b"".join(_value(kind, value) for kind, value in zip(kinds, row, strict=True))
    return said


_TYPES: dict[type, bytes] = {
    int: b"\x26\x08",
    str: b"\xe7\xff\xff" + _COLLATION,
    bytes: b"\xa5\xff\xff",
}


def _value(kind: type, value: Any) -> bytes:
    if kind is int:
        return b"\x00" if value is None else struct.pack("<Bq", 8, value)
    if value is None:
        return struct.pack("<Q", _PLP_NULL)
    raw = value.encode("utf-16-le") if isinstance(value, str) else value
    chunk = struct.pack("<I", len(raw)) + raw if raw else b""
    return struct.pack("<Q", len(raw)) + chunk + struct.pack("<I", 0)
