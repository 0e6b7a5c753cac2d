"""The whole tree: the class of each path, and the paths that a broker creates at its start."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from registry.errors import NodeExistsError
from registry.paths import parent_of
from registry.znodes.znode import Znode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from re import Pattern

    from registry.interface import Registry

# The paths that a broker creates at its start if missing, in Kafka's order. Missing parents are created, too.
PERSISTENT_PATHS: tuple[str, ...] = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)


async def ensure_persistent_paths(registry: Registry) -> None:
    """Create the persistent paths that are missing, in Kafka's order."""
    paths: list[str] = []
    for path in PERSISTENT_PATHS:
        if (parent := parent_of(path)) != "/" and parent not in paths:
            paths.append(parent)
        paths.append(path)
    # The writes of a registry are applied in the order of the calls, so the calls need not wait for each other.
    await asyncio.gather(*(_ensure(registry, path) for path in paths))


async def _ensure(registry: Registry, path: str) -> None:
    with suppress(NodeExistsError):
        await registry.create(path)


TODAY = "today"
LEGACY_07 = "0.7"

_MODULES = {
    TODAY: (
        "controller",
        "brokers",
        "topics",
        "configs",
        "admin",
        "notifications",
        "acls",
        "delegation_tokens",
        "consumers",
    ),
    LEGACY_07: ("legacy07",),
}
LAYOUTS: tuple[str, ...] = tuple(_MODULES)
"""The known layouts: the tree of Kafka 0.8 to 3.9, and that of 0.7."""

_patterns: dict[str, list[tuple[Pattern[str], type[Znode]]]] = {}


def znode_class(path: str, layout: str = TODAY) -> type[Znode] | None:
    """Return the class of the znode at a path of a layout; None for a path that is not Kafka's.

    If several templates match, the one with the fewest variable elements is used, then the longest one.
    """
    if layout not in _patterns:
        _patterns[layout] = _compiled(_MODULES[layout])
    for pattern, znode in _patterns[layout]:
        if pattern.fullmatch(path):
            return znode
    return None


def is_ours(path: str) -> bool:
    """Whether a path is in the current tree of Kafka, or ZooKeeper's own, by its first element."""
    top = "/" + path.split("/")[1]
    tops = {"/" + other.split("/")[1] for other in PERSISTENT_PATHS}
    return top in tops or top == "/zookeeper" or znode_class(top) is not None


def _compiled(modules: Sequence[str]) -> list[tuple[Pattern[str], type[Znode]]]:
    """Compile the templates of some modules. Used by tools and tests only: a broker knows the classes."""
    found: dict[str, type[Znode]] = {}
    for module in modules:
        for value in vars(import_module(f"{__package__}.{module}")).values():
            if isinstance(value, type) and issubclass(value, Znode) and value.TEMPLATE:
                found.setdefault(value.TEMPLATE, value)
    compiled = []
    for template in sorted(found, key=lambda text: (text.count("{"), -len(text))):
        escaped = re.escape(template)
        escaped = escaped.replace(r"\{sequence\}", r"\d{10}")
        compiled.append((re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", escaped)), found[template]))
    return compiled
