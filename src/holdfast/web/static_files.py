"""The dashboard's own files: the same for everybody, without any data."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".woff2": "font/woff2",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
_INDEX = "index.html"
_FOLDER = "static"


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    kind: str
    tag: str


class StaticFiles:
    """Files that are read once, and looked up by their whole path: there is no way out of the folder."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, ...], _File] = {}
        folder = files("holdfast.web").joinpath(_FOLDER)
        if folder.is_dir():
            self._read(folder, ())

    def _read(self, folder: Traversable, at: tuple[str, ...]) -> None:
        for each in folder.iterdir():
            if each.is_dir():
                self._read(each, (*at, each.name))
            elif (kind := _KINDS.get(PurePosixPath(each.name).suffix)) is not None:
                content = each.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
                self._files[(*at, each.name)] = _File(content, kind, tag)

    def find(self, request: Request, segments: tuple[str, ...]) -> Response | None:
        """The answer if there is such a file: the page itself at the root, all others below `static`."""
        if not segments:
            return None
        if segments == ("",):
            found = self._files.get((_INDEX,))
        else:
            found = self._files.get(segments[1:]) if segments[0] == _FOLDER else None
        if found is None:
            return None
        headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
        if found.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(found.content, headers=headers, media_type=found.kind)
