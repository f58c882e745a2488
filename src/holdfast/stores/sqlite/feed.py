"""Rows on their way into one statement."""

from collections.abc import Sequence

import msgspec

from holdfast.model.errors import StoreError

_encode = msgspec.json.Encoder().encode


def as_json(value: object) -> str:
    """JSON for SQLite, which takes a NUL in a name for its end: such a name is refused."""
    encoded = _encode(value)
    if b"\\u0000" in encoded:
        raise StoreError("a name with a NUL character cannot be stored in SQLite")
    return encoded.decode()


class Run:
    """Long values, one behind the other.

    It starts with a byte that belongs to none, because SQLite takes a slice of an empty blob for NULL.
    """

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        self._pieces = [b"\0"]
        self._size = 1

    def put(self, value: bytes | str | None) -> tuple[int | None, int | None]:
        """Where the value will be: offset and length as `substr` counts them."""
        if value is None:
            return (None, None)
        piece = value.encode() if isinstance(value, str) else value
        offset = self._size + 1
        self._pieces.append(piece)
        self._size += len(piece)
        return (offset, len(piece))

    def joined(self) -> bytes:
        return b"".join(self._pieces)


def feed(rows: Sequence[Sequence[object]], run: Run | None = None) -> dict[str, object]:
    """The parameters `rows` and `long`."""
    return {"rows": as_json(rows), "long": run.joined() if run is not None else None}
