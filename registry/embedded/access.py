"""Who may do what with a node: ZooKeeper's access control lists.

Every session has the identity world:anyone. Sessions of this process have no other one; clients of the registry's
server (registry/server/) have their IP address and those of their `auth` packets.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from registry.errors import InvalidAclError, NoAuthError
from registry.interface import OPEN_ACL, Acl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SCHEMES = frozenset({"world", "digest", "sasl", "ip", "x509"})
_MAX_ENTRIES = 100  # every request checks them; ZooKeeper's limit is the size of a request


class Identity(NamedTuple):
    """A name that entries of an ACL can have: scheme and id."""

    scheme: str
    id: str


class Caller(NamedTuple):
    """The session that a request comes from, with its identities besides world:anyone."""

    session_id: int
    identities: tuple[Identity, ...] = ()


def checked_acl(acl: Sequence[Acl] | None, path: str, caller: Caller) -> tuple[Acl, ...]:
    """Return the ACL to store; entries of the scheme `auth` become the caller's identities. Raises InvalidAclError."""
    if acl is None:
        return OPEN_ACL
    if len(acl) > _MAX_ENTRIES:
        raise InvalidAclError(f"{path}: the ACL has {len(acl)} entries, at most {_MAX_ENTRIES} are allowed", path)
    checked = tuple(dict.fromkeys(stored for entry in acl for stored in _stored(Acl(*entry), path, caller)))
    if not checked:
        raise InvalidAclError(f"{path}: the ACL is empty", path)
    return OPEN_ACL if checked == OPEN_ACL else checked


def require(acl: tuple[Acl, ...], permission: int, path: str, caller: Caller) -> None:
    """Raise NoAuthError unless the ACL gives the caller the permission (several bits: one of them)."""
    if acl is OPEN_ACL:
        return
    if not any(entry.permissions & permission and _matches(entry, caller) for entry in acl):
        raise NoAuthError(f"{path}: the ACL does not allow it", path)


def _stored(entry: Acl, path: str, caller: Caller) -> Iterator[Acl]:
    entries = [entry]
    if entry.scheme == "auth":
        entries = [Acl(entry.permissions, *identity) for identity in caller.identities if identity.scheme != "ip"]
        if not entries:
            raise InvalidAclError(f"{path}: the scheme auth needs a session that has authenticated", path)
    for one in entries:
        if not _is_valid(one):
            raise InvalidAclError(f"{path}: {one.scheme}:{one.id!r} is not possible in an ACL here", path)
        yield one


def _is_valid(entry: Acl) -> bool:
    if "\n" in entry.id or entry.scheme not in _SCHEMES:
        return False
    if entry.scheme == "world":
        return entry.id == "anyone"
    if entry.scheme == "digest":
        return entry.id.count(":") == 1
    if entry.scheme == "ip":
        try:
            ip_network(entry.id, strict=False)
        except ValueError:
            return False
    return True


def _matches(entry: Acl, caller: Caller) -> bool:
    if entry.scheme == "world":
        return True
    if entry.scheme == "ip":
        network = _network(entry.id)
        return any(identity.scheme == "ip" and ip_address(identity.id) in network for identity in caller.identities)
    return Identity(entry.scheme, entry.id) in caller.identities


@lru_cache(maxsize=1024)
def _network(name: str) -> IPv4Network | IPv6Network:
    return ip_network(name, strict=False)
