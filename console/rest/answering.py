"""From a request over HTTP to the handler of its operation, and back: parameters, body, rights, errors."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import web

from client.errors import KafkaError
from console.clients import API_TIMEOUT_MS
from console.rest.bodies import Body
from console.rest.call import Call
from console.rest.errors import BROKER_NOT_AVAILABLE, NOT_AUTHORIZED, RestError, not_found, rest_error
from console.rest.operation import ApiOperation, Parameter
from console.rights import Rights

if TYPE_CHECKING:
    from console.rest.models import Answer
    from console.rest.plain_answer import PlainAnswer
    from console.services import ConsoleServices

JSON: Final = "application/json"
RightsOf = Callable[[web.Request], Rights]
"""Returns the rights of the sender of a request."""
_HEADERS: Final = {"Cache-Control": "no-store"}

logger = logging.getLogger(__name__)


def answerer(
    operation: ApiOperation, services: ConsoleServices, rights_of: RightsOf
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the function that answers the requests of an operation."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            with services.bodies.body() as body:
                call = await _call(operation, request, services, rights_of(request), body)
                if not operation.right.is_given(call):
                    raise _refused(operation, call)
                found = await operation.handler(call)
        except KafkaError as error:
            return error_response(rest_error(error))
        except RestError as error:
            return error_response(error)
        if isinstance(found, web.StreamResponse):
            return found
        return json_response(found, operation.status)

    return answer


def json_response(found: Answer | PlainAnswer | None, status: int) -> web.Response:
    """Return an answer with this body; None: without a body."""
    if found is None:
        return web.Response(status=status, headers=_HEADERS)
    return _response(found.to_json(), status)


def _response(body: bytes, status: int) -> web.Response:
    response = web.Response(body=body, status=status, content_type=JSON, headers=_HEADERS)
    response.enable_compression()
    return response


def error_response(error: RestError) -> web.Response:
    """Return the answer for an error."""
    found = {"error_code": error.code, "message": error.message}
    body = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
    answer = _response(body, error.status)
    if error.retry_after_s is not None:
        answer.headers["Retry-After"] = str(error.retry_after_s)
    return answer


@web.middleware
async def answer_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Give errors of HTTP, such as an unknown path, the shape of the API's errors."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        phrase = HTTPStatus(error.status).phrase
        answer = error_response(RestError(error.status, f"HTTP {error.status} {phrase}"))
        if "Allow" in error.headers:
            answer.headers["Allow"] = error.headers["Allow"]
        return answer
    except (ConnectionError, TimeoutError):
        raise  # the client is gone
    except Exception:
        logger.exception("%s %s failed", request.method, request.path)
        return error_response(RestError(500, "Internal error; the log of the console has the details."))


async def _call(
    operation: ApiOperation, request: web.Request, services: ConsoleServices, rights: Rights, body: Body
) -> Call:
    query = _query(request, operation.query)
    asked = None
    if operation.takes is not None:
        if request.content_type != JSON:
            raise RestError(415, f"The Content-Type of this request must be {JSON}.")
        if not operation.is_stream:
            from console.rest.models import parsed  # pydantic takes 100 ms, and the first page does not need it

            asked = parsed(operation.takes, await _read(body, request))
    try:
        async with asyncio.timeout(API_TIMEOUT_MS / 1000):
            admin = await services.clients.admin()
            cluster_id = await services.clients.cluster_id()
    except TimeoutError:
        raise RestError(504, "No broker of the cluster answers in time.", BROKER_NOT_AVAILABLE) from None
    if request.match_info.get("cluster_id", cluster_id) != cluster_id:
        raise not_found(f"there is no cluster {request.match_info['cluster_id']} here, only {cluster_id}")
    return Call(request, services, admin, rights, cluster_id, asked, query)


async def _read(body: Body, request: web.Request) -> bytes:
    found = await body.read(request)
    if not found:
        raise RestError(400, "Request body is empty. Data is required.")
    return found


def _query(request: web.Request, parameters: tuple[Parameter, ...]) -> dict[str, str]:
    found = {}
    for one in parameters:
        value = request.query.get(one.name)
        if not value:
            if one.is_required:
                raise RestError(400, f"the parameter {one.name} is required")
            continue
        if one.choices:
            value = value.upper()
            if value not in one.choices:
                raise RestError(400, f"{one.name} must be one of {', '.join(one.choices)}, not {value}")
        found[one.name] = value
    return found


def _refused(operation: ApiOperation, call: Call) -> RestError:
    right = operation.right
    where = f"{right.resource_type.label} {right.name(call)}"
    return RestError(403, f"{right.operation.label} on {where} is not allowed", NOT_AUTHORIZED)
