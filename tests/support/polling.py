"""Waiting for a condition: poll until it holds, and fail with the last values when the deadline passes."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import inspect
import linecache
import time
from collections.abc import Awaitable, Callable
from types import CodeType
from typing import Any, TypeVar, cast

from support.deadlines import DEADLINE_S

T = TypeVar("T")
SLOWEST_POLL_S = 0.05


async def until(
    condition: Callable[[], T | Awaitable[T]], what: str, timeout_s: float = DEADLINE_S, *, pause_s: float = 0.005
) -> T:
    """Poll a condition, or a coroutine function, until it returns a true value; return that value.

    Raises AssertionError with `what` and the values in the condition when the deadline passes.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
            pause_s = min(1.2 * pause_s, SLOWEST_POLL_S)  # asks a server: poll less and less often
        if found:
            return cast(T, found)
        if loop.time() > deadline:
            raise AssertionError(_failure(condition, found, what, timeout_s))
        await asyncio.sleep(pause_s)


def until_blocking(condition: Callable[[], T], what: str, timeout_s: float = DEADLINE_S) -> T:
    """The same for tests without an event loop."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(_failure(condition, found, what, timeout_s))
        time.sleep(0.01)
    return found


def _failure(condition: Callable[[], Any], found: object, what: str, timeout_s: float) -> str:
    seen = "; ".join(_operands(condition)) or f"the condition is {_short(found)}"
    return f"not in {timeout_s:g} s: {what}. Last seen: {seen}"


def _short(value: object) -> str:
    """A value, or its begin and its end: that of a log says what happened last."""
    text = repr(value)
    return text if len(text) <= 2500 else f"{text[:500]}… ({len(text)} characters) …{text[-2000:]}"


def _operands(condition: Callable[[], Any]) -> list[str]:
    """The values of the operands of a lambda's comparisons, as `source = value`; nothing for other conditions."""
    code = getattr(condition, "__code__", None)
    body = _body(code) if isinstance(code, CodeType) else None
    if body is None:
        return []
    names = condition.__globals__ | _local_names(condition)  # type: ignore[attr-defined]
    found = []
    for operand in _parts(body):
        source = ast.unparse(operand)
        try:
            value = eval(compile(ast.Expression(operand), "<condition>", "eval"), names)
        except Exception as error:
            found.append(f"{source} raises {error!r}")
        else:
            if not inspect.isawaitable(value):
                found.append(f"{source} = {_short(value)}")
            elif inspect.iscoroutine(value):
                value.close()
    return found


def _local_names(condition: Callable[[], Any]) -> dict[str, Any]:
    """The names that a condition takes from the functions around it, and its default arguments."""
    found = {name: parameter.default for name, parameter in inspect.signature(condition).parameters.items()}
    code, cells = condition.__code__, condition.__closure__ or ()  # type: ignore[attr-defined]
    for name, cell in zip(code.co_freevars, cells, strict=True):
        with contextlib.suppress(ValueError):  # a name that is not bound yet
            found[name] = cell.cell_contents
    return found


def _parts(node: ast.expr) -> list[ast.expr]:
    """The interesting parts of an expression: the operands of comparisons, inside `and`, `or` and `not`."""
    if isinstance(node, ast.BoolOp):
        return [part for value in node.values for part in _parts(value)]
    if isinstance(node, ast.UnaryOp):
        return _parts(node.operand)
    operands = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node]
    return [operand for operand in operands if not isinstance(operand, ast.Constant)]


def _body(code: CodeType) -> ast.expr | None:
    """The expression of a lambda, found by its position in the source; None if the function is not a lambda."""
    positions = {(line, column, end_line, end) for line, end_line, column, end in code.co_positions()}
    for node in ast.walk(_tree(code.co_filename)):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            body = node.body
            if (body.lineno, body.col_offset, body.end_lineno, body.end_col_offset) in positions:
                return body
    return None


@functools.cache
def _tree(path: str) -> ast.AST:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return ast.Module([], [])
