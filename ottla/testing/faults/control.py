"""The control API: faults of a running cluster over HTTP, for tests in other languages and for `ottla faults`.

    GET    /          the brokers and the verbs
    GET    /faults    the faults in effect
    POST   /faults    inject a fault: {"verb": "answer", "api": "Produce", "close": true, "count": 1}
    DELETE /faults/7  heal a fault
    DELETE /faults    heal all faults
    GET    /requests  the captured requests: ?api=Produce&client_id=billing&topic=orders&broker=1

Bodies are JSON. An error is {"error": TEXT}, with status 400 for wrong options and 404 for an unknown fault. The API
listens on 127.0.0.1 only and has no login. Web pages cannot use it: it refuses requests with an Origin header, and with
a Host header that is not of this machine.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from ottla.testing.faults.engine import Engine
from ottla.testing.faults.errors import FaultError, UnknownFaultError
from ottla.testing.faults.options import from_json
from ottla.testing.faults.scene import ClusterScene
from ottla.testing.faults.verbs import VERBS

HOST: Final = "127.0.0.1"
_MAX_DIGITS: Final = 18
_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")


class Control:
    """Serves the control API of one cluster, in the event loop of its brokers."""

    def __init__(self, scene: ClusterScene, engine: Engine) -> None:
        self._scene = scene
        self._engine = engine
        self._runner: web.AppRunner | None = None
        self.url = ""
        """The address, once it is bound: http://127.0.0.1:PORT."""

    async def bind(self, port: int = 0) -> None:
        """Start to serve. port: 0 for any free port. Raises OSError for a port in use."""
        app = web.Application(middlewares=[_guarded])
        app.router.add_get("/", self._cluster)
        app.router.add_get("/faults", self._active)
        app.router.add_post("/faults", self._apply)
        app.router.add_delete("/faults", self._heal_all)
        app.router.add_delete("/faults/{id}", self._heal)
        app.router.add_get("/requests", self._requests)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        self.url = f"http://{HOST}:{runner.addresses[0][1]}"

    async def close(self) -> None:
        """Stop to serve."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def _cluster(self, request: web.Request) -> web.Response:
        brokers = [
            {"id": member.id, "state": member.state.value, "bootstrap_servers": member.bootstrap_servers}
            for member in self._scene.members.values()
        ]
        return web.json_response({"brokers": brokers, "verbs": list(VERBS)})

    async def _active(self, request: web.Request) -> web.Response:
        return web.json_response({"faults": self._engine.active()})

    async def _apply(self, request: web.Request) -> web.Response:
        try:
            values = json.loads(await request.read())
        except ValueError as error:
            raise FaultError(f"the body is not JSON: {error}") from None
        except RecursionError:
            raise FaultError("the body is nested too deeply: a fault is one JSON object without others in it") from None
        return web.json_response(await self._engine.apply(from_json(VERBS, values)), status=201)

    async def _heal(self, request: web.Request) -> web.Response:
        fault_id = _number("id", request.match_info["id"])
        await self._engine.heal(fault_id)
        return web.json_response({"healed": [fault_id]})

    async def _heal_all(self, request: web.Request) -> web.Response:
        return web.json_response({"healed": await self._engine.heal_all()})

    async def _requests(self, request: web.Request) -> web.Response:
        query = request.query
        broker = query.get("broker")
        chosen = {
            "api": query.get("api"),
            "client_id": query.get("client_id"),
            "topic": query.get("topic"),
            "broker": None if broker is None else _number("broker", broker),
        }
        return web.json_response({"requests": await self._scene.requests_seen(chosen)})


def _number(name: str, text: str) -> int:
    """Return a whole number of at most 18 digits. Raises FaultError."""
    if not text.isdecimal() or not text.isascii():
        raise FaultError(f"{name}={text}: must be a whole number")
    if len(text) > _MAX_DIGITS:
        raise FaultError(f"{name}={text[:_MAX_DIGITS]}…: must have at most {_MAX_DIGITS} digits")
    return int(text)


@web.middleware
async def _guarded(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Refuse what a web page sends, and turn exceptions into JSON."""
    host = request.host.rpartition(":")[0] or request.host
    if host not in _HOSTS or "Origin" in request.headers:
        return _error(403, "web pages cannot use the control API")
    try:
        return await handler(request)
    except UnknownFaultError as error:
        return _error(404, str(error))
    except FaultError as error:
        return _error(400, str(error))
    except web.HTTPException as error:
        return _error(error.status, f"{request.method} {request.path}: {error.reason}")
    except Exception as error:
        return _error(500, f"{type(error).__name__}: {error}")


def _error(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status)
