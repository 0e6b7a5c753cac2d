"""Ottla: a Kafka broker in asyncio Python, and the client that goes with it.

    from ottla import Admin, Broker, BrokerConfig, Producer, Reader

`__init__.pyi` lists the public names for type checkers and editors. This file reads the same list, and imports a module
when a name of it is first used: all modules together take 0.2 s and 26 MB, those of a `Producer` a third of that. The
exceptions are in `ottla.errors`, brokers for tests in `ottla.testing`.
"""

import ast
from importlib import import_module
from typing import Any, Final

from ottla.guard import check_packages

__version__: Final = "0.1.0"


def _read_homes() -> dict[str, str]:
    """Return the module of each public name: each `from module import name` of `__init__.pyi`."""
    # The file may be in a zip archive, which knows it by exactly this path: ./ottla.zip/… on Spark's executors.
    stub = ast.parse(__loader__.get_data(f"{__file__}i"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports if node.module for alias in node.names}


_HOMES: Final = _read_homes()

_MODULES: Final = ("errors", "testing")

__all__ = [*_HOMES, *_MODULES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(f"{__name__}.{name}")
    elif name in _HOMES:
        check_packages()
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
