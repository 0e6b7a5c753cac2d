"""The iteration order of Kafka's maps, so that Ottla's znodes have the same bytes as Kafka's.

Kafka passes hash maps to its JSON writer. The order of keys has no meaning in JSON, but tests compare the bytes of
znodes, so the order of the three maps with variable keys is reproduced. All three are ordered by bits of
String.hashCode; the recorded znodes confirm each. (Fixed sets of keys are in the recorded order in the znode classes.)
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


MAX_CACHED: Final = 4096
MAX_CACHED_LENGTH: Final = 64
"""The length of the longest text whose hash is cached. Clients choose the names of groups: a cache must stay small."""


def java_hash(text: str) -> int:
    """Return Java's String.hashCode as an unsigned 32-bit number."""
    return _cached_hash(text) if len(text) <= MAX_CACHED_LENGTH else _hash(text)


def _hash(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value


_cached_hash = lru_cache(MAX_CACHED)(_hash)  # every request of a member, and a commit twice, asks for that of its group


def properties_order(keys: Iterable[str]) -> list[str]:
    """Return the keys in the order of java.util.Properties: by bucket; 16 buckets, doubled at three quarters full."""
    names = list(keys)
    buckets = 16
    while len(names) >= buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _folded(name) & 0x7FFFFFFF & (buckets - 1))


def mutable_map_order(keys: Iterable[str]) -> list[str]:
    """Return the keys in the order of a Scala 2.13 mutable.HashMap filled one by one: by bucket, then signed hash."""
    names = list(keys)
    buckets = 16
    while len(names) >= buckets * 3 // 4:
        buckets *= 2

    def position(name: str) -> tuple[int, int]:
        folded = _folded(name)
        return folded & (buckets - 1), folded - (folded >> 31 << 32)

    return sorted(names, key=position)


def immutable_map_order(keys: Iterable[str]) -> list[str]:
    """Return the keys in the order of a Scala 2.13 immutable Map: up to four as inserted, more as in a hash trie."""
    names = list(keys)
    if len(names) <= 4:
        return names
    return _trie_order([(_improved(name), name) for name in names], 0)


def _trie_order(entries: list[tuple[int, str]], shift: int) -> list[str]:
    """Order one trie node, which has a slot for each value of five bits of the hash: its keys, then its sub-nodes."""
    if len(entries) == 1 or shift > 31:
        return [name for _hash, name in entries]
    slots: dict[int, list[tuple[int, str]]] = {}
    for entry in entries:
        slots.setdefault(entry[0] >> shift & 31, []).append(entry)
    own = [slots[slot][0][1] for slot in sorted(slots) if len(slots[slot]) == 1]
    below = [_trie_order(slots[slot], shift + 5) for slot in sorted(slots) if len(slots[slot]) > 1]
    return own + [name for names in below for name in names]


def _folded(name: str) -> int:
    """Return the hash with its upper half folded in, as in both HashMaps."""
    value = java_hash(name)
    return value ^ value >> 16


def _improved(name: str) -> int:
    """Return the hash as mixed by Scala's immutable HashMap."""
    value = java_hash(name)
    value = (value + ~(value << 9)) & 0xFFFFFFFF
    value ^= value >> 14
    value = (value + (value << 4)) & 0xFFFFFFFF
    return value ^ value >> 10
