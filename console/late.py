"""What is made when it is first needed, because its imports take long: a value, and an application at some paths."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar

from aiohttp import web
from aiohttp.web_urldispatcher import AbstractRoute
from yarl import URL

T = TypeVar("T")


class Late(Generic[T]):
    """A value that is made once, when it is first needed."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """make: makes the value. It imports in a thread, so that the event loop goes on."""
        self._make = make
        self._making: asyncio.Task[T] | None = None

    @property
    def made(self) -> T | None:
        """The value; None if it has not been made."""
        making = self._making
        is_made = making is not None and making.done() and not making.cancelled() and making.exception() is None
        return making.result() if making is not None and is_made else None

    def begin(self) -> asyncio.Task[T]:
        """Begin to make the value, if nobody has yet."""
        if self._making is None:
            self._making = asyncio.create_task(self._make())
        return self._making

    async def get(self) -> T:
        """Return the value. Raises what making it raises."""
        return await asyncio.shield(self.begin())  # others wait for it, too

    def cancel(self) -> None:
        """Do not make the value: nobody needs it any more."""
        if self._making is not None:
            self._making.cancel()


class LateResource(web.AbstractResource):
    """Whatever begins with a path is answered by an application that is made when it is first needed.

    The routes of the application have the whole path. Its signals are not sent, except `on_response_prepare`.
    """

    def __init__(self, path: str, application: Late[web.Application]) -> None:
        super().__init__()
        self._path = path
        self._application = application

    @property
    def canonical(self) -> str:
        return self._path

    async def resolve(self, request: web.Request) -> tuple[web.UrlMappingMatchInfo | None, set[str]]:
        """Find the route of a request, or the error that answers it."""
        application = await self._application.get()
        return await application.router.resolve(request), set()

    def raw_match(self, path: str) -> bool:
        return False

    def url_for(self, **_: str) -> URL:
        raise NotImplementedError("the paths are those of the application")

    def add_prefix(self, prefix: str) -> None:
        raise NotImplementedError("the routes of the application have the whole path")

    def get_info(self) -> dict[str, object]:  # type: ignore[override]
        return {"prefix": self._path}

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[AbstractRoute]:
        return iter(())
