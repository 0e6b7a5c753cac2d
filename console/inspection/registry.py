"""The registry tree: what is shown of a znode."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from console.rest.models import Answer
from console.rights import Rights


class ZnodeAcl(Answer):
    """One entry of a znode's access control list. `id` never has the hash of a password."""

    permissions: list[str]
    scheme: str
    id: str


class ZnodeChild(Answer):
    """A child of a znode."""

    name: str
    path: str
    children: int
    is_ephemeral: bool


class Znode(Answer):
    """A znode. Zxids and session ids are text: numbers of JavaScript are too small for them."""

    path: str
    meaning: str
    """What the node is for, in a sentence."""
    content: str | None
    """Indented JSON, or text. None: no content, or none that may be shown."""
    note: str | None
    """What is not shown, and why."""
    data_length: int
    version: int
    """Number of changes of the data."""
    child_version: int
    acl_version: int
    czxid: str
    mzxid: str
    created_ms: int
    changed_ms: int
    ephemeral_owner: str | None
    """The session that the node ends with."""
    owner_broker: int | None
    """The broker of that session."""
    acl: list[ZnodeAcl]
    children: list[ZnodeChild]
    """The first ones by name, as many as one answer has."""
    children_found: int
    """How many children match, of those that the user may see."""


class ZnodeWatch(Protocol):
    """Watches on some znodes."""

    def close(self) -> None:
        """Remove the watches."""


class RegistryInspection(Protocol):
    """The registry of a broker."""

    async def node(self, path: str, rights: Rights, contains: str) -> Znode | None:
        """Return a znode as far as its reader may see it; None if there is none. contains: part of children's names.

        Raises InspectionError.
        """

    def watch(self, paths: Iterable[str], rights: Rights, changed: Callable[[str], None]) -> ZnodeWatch:
        """Call `changed` with a path after the node, its data or its children may have changed.

        Nodes that the reader may not see are left out.

        Raises InspectionError.
        """
