"""What the ZooKeeper server of one session knows. It may lag behind the others, as a follower of ZooKeeper does.

It never lags behind what its session has seen: the session's own writes, what a watch has told it, and a sync.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

from registry.embedded.store import EmbeddedStore
from registry.embedded.tree import ChangeKind, Draft, NodeChange, Tree
from registry.paths import parent_of

_LAGS_AT = 0.1
"""The part of the commits at which a server begins to lag."""
_LAG_S = (0.01, 1.0)


class RegistryServer:
    """A copy of the store's tree that gets its changes late."""

    def __init__(self, store: EmbeddedStore, rng: random.Random, now_s: Callable[[], float]) -> None:
        self._store = store
        self._random = rng
        self._now_s = now_s
        self._lags_until_s = 0.0
        self.begin()

    def begin(self) -> None:
        """A session begins: what was committed before is known."""
        self._tree = Tree(dict(self._store.tree.nodes), self._store.tree.zxid)
        self._unknown: deque[tuple[float, Draft]] = deque()

    def changed(self, changes: Sequence[NodeChange]) -> None:
        """Note what was committed: it becomes known at once, or when the server does not lag any more."""
        now = self._now_s()
        if now > self._lags_until_s and self._random.random() < _LAGS_AT:
            self._lags_until_s = now + self._random.uniform(*_LAG_S)
        tree = self._store.tree
        draft = Draft(tree.get, tree.zxid, 0)
        for kind, path in changes:
            draft.changes[path] = tree.get(path)
            if kind is not ChangeKind.SET:  # the parent's number of children has changed, too
                draft.changes[parent_of(path)] = tree.get(parent_of(path))
        self._unknown.append((max(self._lags_until_s, now), draft))

    def catch_up(self) -> None:
        """Know everything."""
        self._learn(float("inf"))

    def tree(self) -> Tree:
        """What the server knows now."""
        self._learn(self._now_s())
        return self._tree

    def _learn(self, until_s: float) -> None:
        while self._unknown and self._unknown[0][0] <= until_s:
            self._tree.merge(self._unknown.popleft()[1])
