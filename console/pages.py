"""The pages: one document, whose script shows the page that the path names, and the files that it loads.

Files are read and compressed when they are first asked for, kept in memory, and revalidated by browsers on each use.
Nothing is built: the stylesheets are joined when they are read.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from aiohttp import web

STATIC: Final = Path(__file__).parent / "static"
PAGES: Final = ("topics", "groups", "brokers", "transactions", "security", "inside", "api-docs")
"""The first part of the path of each page; the overview is at the root."""
_STYLES: Final = "styles.css"
"""All stylesheets as one file: each request costs a cold start some milliseconds."""
HTML: Final = "text/html"
_DOCUMENT: Final = "index.html"
_SHARED_STYLES: Final = ("tokens.css", "base.css", "components.css")
"""In this order, before those of the pages, which share no names."""
_OVERVIEW_NEEDS: Final = ", ".join(
    [
        *(f"</static/{name}>; rel=modulepreload" for name in ("pages/overview.js", "core/chart.js")),
        "</api/v1/overview>; rel=preload; as=fetch; crossorigin",
    ]
)
"""What the overview asks for when its scripts run, as a header: the browser asks for it while it loads them."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_CONTENT_TYPES: Final = {
    ".html": HTML,
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class _File(NamedTuple):
    body: bytes
    compressed: bytes
    content_type: str
    tag: str


def add_pages(application: web.Application, on_document: Callable[[], object]) -> None:
    """Add the document at the path of each page, and its files below `/static`. On other paths the document says so.

    on_document: called when a browser asks for the document.
    """
    files = _Files(on_document)
    routes = application.router
    routes.add_get("/", files.overview)
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

    async def overview(self, request: web.Request) -> web.Response:
        """Return the document, and what the first page needs."""
        response = await self.document(request)
        response.headers["Link"] = _OVERVIEW_NEEDS
        return response

    async def document(self, request: web.Request) -> web.Response:
        """Return the document of all pages."""
        self._on_document()
        return self._answer(request, _DOCUMENT)

    async def file(self, request: web.Request) -> web.Response:
        """Return a file; 404 if there is none of this name."""
        return self._answer(request, request.match_info["path"])

    async def unknown(self, request: web.Request) -> web.Response:
        """Return the document to a browser, with the status 404. Raises HTTPNotFound for others."""
        if HTML not in request.headers.get("Accept", ""):
            raise web.HTTPNotFound
        return self._answer(request, _DOCUMENT, 404)

    def _answer(self, request: web.Request, name: str, status: int = 200) -> web.Response:
        file = self._read.get(name)
        if file is None:
            file = self._read[name] = self._file(name)
        headers = {"ETag": file.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if status == 200 and request.headers.get("If-None-Match") == file.tag:
            return web.Response(status=304, headers=headers)
        body = file.body
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            body = file.compressed
            headers["Content-Encoding"] = "gzip"
        return web.Response(status=status, body=body, content_type=file.content_type, charset="utf-8", headers=headers)

    def _file(self, name: str) -> _File:
        if name == _STYLES:
            paths = [*(STATIC / one for one in _SHARED_STYLES), *sorted(STATIC.glob("pages/*.css"))]
        elif name in self._paths:
            paths = [self._paths[name]]
        else:
            paths = []
        content_type = _CONTENT_TYPES.get(PurePosixPath(name).suffix)
        if not paths or content_type is None:
            raise web.HTTPNotFound(text="There is no such file.\n")
        body = b"\n".join(path.read_bytes() for path in paths)
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        return _File(body, zlib.compress(body, wbits=_GZIP), content_type, tag)
