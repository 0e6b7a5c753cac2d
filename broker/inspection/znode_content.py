"""What a reader may see of the registry: which nodes, and which of their content.

Reading the tree needs Describe on the cluster. Nodes about a topic, a group or a token need the right to describe it,
nodes with settings the right to describe settings. Secrets are never shown: of users and addresses only settings that
are numbers (quotas) are, of brokers and topics only known settings that are no passwords. The content of nodes that are
not Kafka's is not shown: another program's secrets may be in it.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from broker.settings.described import is_sensitive, setting_of
from console.rights import Rights
from registry.znodes.tree import znode_class
from security.acls.binding import CLUSTER_NAME
from security.acls.types import Operation, ResourceType
from storage.log.config import TOPIC_SETTINGS
from storage.setting import HIDDEN

MAX_SHOWN: Final = 64 * 1024
"""Characters of a node's content in one answer."""


class Shown(NamedTuple):
    """Content of a node, and what is missing in it."""

    content: str | None
    note: str | None = None


def is_visible(path: str, rights: Rights) -> bool:
    """Return whether a reader, who may describe the cluster, may know that a node exists."""
    match path.split("/")[1:]:
        case ["brokers", "topics", topic, *_] | ["admin", "delete_topics", topic, *_]:
            return _sees_topic(topic, rights)
        case ["config", "topics", topic, *_]:
            return rights.sees(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic)
        case ["config", "brokers" | "clients" | "users" | "ips", _, *_]:
            return rights.sees(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
        case ["consumers", group, "offsets" | "owners", topic, *_]:
            return _sees_group(group, rights) and _sees_topic(topic, rights)
        case ["consumers", group, *_]:
            return _sees_group(group, rights)
        case ["delegation_token", "tokens", token, *_]:
            return rights.sees(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token)
    return True


def shown_content(path: str, data: bytes | None, rights: Rights) -> Shown:
    """Return what a reader may see of a visible node's content."""
    if not data:
        return Shown(None)
    if znode_class(path) is None or path == "/":
        return Shown(None, "Only the content of Kafka's nodes is shown.")
    if path.startswith("/delegation_token/token_changes/"):
        token = f"/delegation_token/tokens/{data.decode(errors='replace')}"
        if not is_visible(token, rights):
            return Shown(None, "You may not describe the token.")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return _cut(data.decode(errors="replace"), None)
    if isinstance(value, dict):
        if _is_hidden_change(value, rights):
            return Shown(None, "You may not describe what has changed.")
        hidden = _hide_secrets(path, value)
        left_out = _leave_out_topics(value, rights)
        notes = [
            "Values that may be secret are hidden." if hidden else "",
            "Topics that you may not describe are left out." if left_out else "",
        ]
        return _cut(json.dumps(value, indent=2, ensure_ascii=False), " ".join(filter(None, notes)) or None)
    return _cut(json.dumps(value), None)


def _cut(text: str, note: str | None) -> Shown:
    if len(text) <= MAX_SHOWN:
        return Shown(text, note)
    cut = f"Only the first {MAX_SHOWN} of {len(text)} characters are shown."
    return Shown(text[:MAX_SHOWN], f"{note} {cut}" if note else cut)


def _is_hidden_change(value: dict[str, Any], rights: Rights) -> bool:
    """Whether a notification is about settings of something that the reader may not see."""
    entity = value.get("entity_path")
    if entity is None and "entity_type" in value:
        entity = f"{value['entity_type']}/{value.get('entity_name')}"
    return entity is not None and not is_visible(f"/config/{entity}", rights)


def _hide_secrets(path: str, value: dict[str, Any]) -> bool:
    """Replace values that may be secret. Return whether there are any."""
    config = value.get("config")
    if not path.startswith("/config/") or not isinstance(config, dict):
        return False
    kind = path.split("/")[2]
    hidden = [name for name, one in config.items() if not _may_be_shown(kind, name, one)]
    for name in hidden:
        config[name] = HIDDEN
    return bool(hidden)


def _may_be_shown(kind: str, name: str, value: object) -> bool:
    if kind == "brokers":
        return not is_sensitive(setting_of(name))
    if kind == "topics":
        return name in TOPIC_SETTINGS
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _leave_out_topics(value: Any, rights: Rights) -> bool:
    """Remove what is about topics that the reader may not describe. Return whether anything was."""
    found = False
    if isinstance(value, dict):
        for name in ("topics", "subscription"):
            if isinstance(value.get(name), dict):
                hidden = [topic for topic in value[name] if not _sees_topic(topic, rights)]
                for topic in hidden:
                    del value[name][topic]
                found |= bool(hidden)
        inner = list(value.values())
    elif isinstance(value, list):
        kept = [one for one in value if not _is_hidden_topic(one, rights)]
        found = len(kept) < len(value)
        value[:] = inner = kept
    else:
        return False
    for one in inner:
        found |= _leave_out_topics(one, rights)
    return found


def _is_hidden_topic(value: object, rights: Rights) -> bool:
    return isinstance(value, dict) and isinstance(value.get("topic"), str) and not _sees_topic(value["topic"], rights)


def _sees_topic(name: str, rights: Rights) -> bool:
    return rights.sees(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _sees_group(name: str, rights: Rights) -> bool:
    return rights.sees(Operation.DESCRIBE, ResourceType.GROUP, name)
