"""The OpenAPI document over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

from aiohttp import web

from console.rest.answering import JSON
from console.rest.openapi import openapi_document
from console.rest.operation import ApiOperation


class Description:
    """The OpenAPI document, made when it is first asked for."""

    def __init__(self, tables: Mapping[str, Iterable[ApiOperation]]) -> None:
        """tables: the operations below each root, such as `/v3`."""
        self._tables = tables
        self._body: bytes | None = None

    async def answer(self, request: web.Request) -> web.Response:
        """Describe the REST APIs."""
        if self._body is None:
            self._body = json.dumps(openapi_document(self._tables, _version())).encode()
        response = web.Response(body=self._body, content_type=JSON, headers={"Cache-Control": "no-cache"})
        response.enable_compression()
        return response


def _version() -> str:
    try:
        return installed_version("ottla")
    except PackageNotFoundError:
        return "unknown"
