"""Znodes for display: their content, decoded by Kafka's rules for their paths."""

import base64
import json
from contextlib import suppress
from typing import Any

from ottla.zookeeper.legacy07_format import legacy_document
from registry.errors import ZnodeFormatError
from registry.interface import Stat
from registry.znodes.controller import ProducerIdBlockZnode
from registry.znodes.tree import LEGACY_07, TODAY, znode_class


class ShownZnode:
    """One znode, prepared for display."""

    def __init__(self, path: str, data: bytes | None, stat: Stat, layout: str = TODAY) -> None:
        """`layout` is the layout of the znode's tree (registry.znodes.tree.LAYOUTS)."""
        self.path = path
        self.data = data
        self.stat = stat
        self._layout = layout

    @property
    def kind(self) -> str | None:
        """The kind of znode at this path ("Topic", "PartitionState"); None if Kafka does not use the path."""
        znode = znode_class(self.path, self._layout)
        return None if znode is None else znode.__name__.removesuffix("Znode")

    @property
    def fault(self) -> str | None:
        """The rule that the content breaks; None if it is valid."""
        try:
            check_content(self.path, self.data, self._layout)
        except ZnodeFormatError as error:
            return error.rule
        return None

    @property
    def value(self) -> Any:
        """The content: a JSON document, else text, else {"base64": …}; None for no data."""
        if self.data is None:
            return None
        try:
            text = self.data.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(self.data).decode()}
        if self._layout == LEGACY_07:
            with suppress(ZnodeFormatError):
                if (fields := legacy_document(self.path, self.data)) is not None:
                    return fields
        try:
            document = json.loads(text)
        except ValueError:
            return text
        return document if isinstance(document, (dict, list)) else text

    @property
    def line(self) -> str:
        """The content in one line."""
        if self.data is None:
            return ""
        value = self.value
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    @property
    def owner(self) -> str | None:
        """The session id of an ephemeral znode's owner, in hexadecimal; None for other znodes."""
        owner = self.stat.ephemeral_owner
        return f"0x{owner & (1 << 64) - 1:x}" if owner else None

    def document(self) -> dict[str, Any]:
        """Return all of the znode's properties, for `--json`."""
        return {
            "path": self.path,
            "kind": self.kind,
            "value": self.value,
            "fault": self.fault,
            "stat": {**self.stat._asdict(), "ephemeral_owner": self.owner},
        }


def check_content(path: str, data: bytes | None, layout: str = TODAY) -> None:
    """Raise ZnodeFormatError if the content breaks Kafka's rule for the path."""
    znode = znode_class(path, layout)
    if znode is None or (data is None and path == ProducerIdBlockZnode.TEMPLATE):  # empty until its first use
        return
    znode.decode(data, path)
