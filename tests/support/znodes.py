"""Dumps of a registry's tree in the form of the recorded ones, without values that differ between runs."""

import json
import re

from registry.errors import NoNodeError
from support.reference import REFERENCE

FOLDER = REFERENCE / "zookeeper"
_VARYING = [
    (r'"timestamp":"\d+"', '"timestamp":"T"'),
    (r'"id":"[\w-]{22}"', '"id":"ID"'),
    (r'"topic_id":"[\w-]{22}"', '"topic_id":"ID"'),
    (r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT"),
    (r'"port":\d+', '"port":PORT'),
]


def recorded_bytes(entry):
    """The znode's data: `value` is text, or JSON whose compact form is the data."""
    if "raw" in entry:
        return entry["raw"].encode()
    value = entry["value"]
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def without_varying(data):
    """Data with placeholders for times, ids and ports."""
    if data is None:
        return None
    text = data.decode()
    for pattern, placeholder in _VARYING:
        text = re.sub(pattern, placeholder, text)
    return text


def recorded_tree(name):
    """A recorded dump: its comparable part, by path."""
    return {
        entry["path"]: (entry["ephemeral"], entry["version"], entry["cversion"], without_varying(recorded_bytes(entry)))
        for entry in json.loads((FOLDER / name).read_text())
        if entry["path"] != "/"
    }


def recorded_order(name):
    """The paths of a recorded dump in the order of their creation."""
    entries = [entry for entry in json.loads((FOLDER / name).read_text()) if entry["path"] != "/"]
    return [entry["path"] for entry in sorted(entries, key=lambda entry: entry["czxid"])]


async def _or_nothing(reading):
    try:
        return await reading
    except NoNodeError:
        return None


async def walk(registry, path="/"):
    """All paths below one, with data and stat; nodes that are deleted meanwhile are omitted."""
    for name in sorted(await _or_nothing(registry.children(path)) or ()):
        child = f"{path.rstrip('/')}/{name}"
        found = await _or_nothing(registry.get(child)) if child != "/zookeeper" else None
        if found is not None:
            yield child, *found
            async for below in walk(registry, child):
                yield below


async def live_tree(registry):
    """The tree of a registry: its comparable part, by path."""
    return {
        path: (bool(stat.ephemeral_owner), stat.version, stat.cversion, without_varying(data))
        async for path, data, stat in walk(registry)
    }


async def live_order(registry):
    """The paths of a registry in the order of their creation."""
    nodes = [(stat.czxid, path) async for path, _, stat in walk(registry)]
    return [path for _, path in sorted(nodes)]
