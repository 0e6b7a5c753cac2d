"""The pages: one document, whose script shows the page that the path names, and the files that it loads.

Files are read when they are first asked for, kept in memory, and revalidated by browsers on each use. Nothing is built:
a checkout and a wheel serve the same files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from aiohttp import web

STATIC: Final = Path(__file__).parent / "static"
PAGES: Final = ("topics", "groups", "brokers", "transactions", "security", "inside", "api-docs")
"""The first part of the path of each page; the overview is at the root."""
HTML: Final = "text/html"
_CONTENT_TYPES: Final = {
    ".html": HTML,
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class _File(NamedTuple):
    body: bytes
    content_type: str
    tag: str


def add_pages(application: web.Application, on_document: Callable[[], object]) -> None:
    """Add the document at the path of each page, and its files below `/static`. On other paths the document says so.

    on_document: called when a browser asks for the document.
    """
    files = _Files(on_document)
    routes = application.router
    routes.add_get("/", files.document)
    for page in PAGES:
        routes.add_get(f"/{page}", files.document)
        routes.add_get(f"/{page}/{{rest:.*}}", files.document)
    routes.add_get("/static/{path:.+}", files.file)
    routes.add_get("/{unknown:.*}", files.unknown)


class _Files:
    """The files below `static`."""

    def __init__(self, on_document: Callable[[], object]) -> None:
        self._on_document = on_document
        self._paths = {str(path.relative_to(STATIC)): path for path in STATIC.rglob("*") if path.is_file()}
        self._read: dict[str, _File] = {}

    async def document(self, request: web.Request) -> web.Response:
        """Return the document of all pages."""
        self._on_document()
        return self._answer(request, "index.html")

    async def file(self, request: web.Request) -> web.Response:
        """Return a file; 404 if there is none of this name."""
        return self._answer(request, request.match_info["path"])

    async def unknown(self, request: web.Request) -> web.Response:
        """Return the document to a browser, with the status 404. Raises HTTPNotFound for others."""
        if HTML not in request.headers.get("Accept", ""):
            raise web.HTTPNotFound
        return self._answer(request, "index.html", 404)

    def _answer(self, request: web.Request, name: str, status: int = 200) -> web.Response:
        file = self._read.get(name)
        if file is None:
            path = self._paths.get(name)
            if path is None or path.suffix not in _CONTENT_TYPES:
                raise web.HTTPNotFound(text="There is no such file.\n")
            body = path.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            file = self._read[name] = _File(body, _CONTENT_TYPES[path.suffix], tag)
        headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
        if status == 200 and request.headers.get("If-None-Match") == file.tag:
            return web.Response(status=304, headers=headers)
        response = web.Response(
            status=status, body=file.body, content_type=file.content_type, charset="utf-8", headers=headers
        )
        response.enable_compression()
        return response
