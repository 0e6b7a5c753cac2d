"""Delegation tokens in the registry: `/delegation_token/tokens/<id>`. A notification tells every broker of a change."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection

from broker.change_notifications import ChangeNotifications
from client.wire.backoff import Backoff
from registry.errors import NodeExistsError, NoNodeError, ZnodeFormatError
from registry.interface import Registry
from registry.pipeline import read_all
from registry.repeated_writes import RepeatedWrites
from registry.znodes.delegation_tokens import (
    DelegationTokenChangesZnode,
    DelegationTokenChangeZnode,
    DelegationTokensZnode,
    DelegationTokenZnode,
)
from security.principal import Principal

logger = logging.getLogger(__name__)


class TokenStore:
    """The tokens that this broker has read. `start` before anything else; `run` until the broker stops."""

    def __init__(
        self, registry: Registry, now_ms: Callable[[], int], backoff: Backoff, removed: Callable[[str], None]
    ) -> None:
        """removed: called with the id of a token that is no longer there."""
        self._registry = registry
        self._writes = RepeatedWrites(registry)
        self._removed = removed
        self._tokens: dict[str, DelegationTokenZnode] = {}
        self._notifications = ChangeNotifications(
            registry,
            {DelegationTokenChangesZnode.TEMPLATE: self._load_changed},
            "delegation tokens",
            now_ms,
            backoff,
        )

    def find(self, token_id: str) -> DelegationTokenZnode | None:
        """Return the token with an id; None if there is none."""
        return self._tokens.get(token_id)

    def all(self) -> Collection[DelegationTokenZnode]:
        """Return all tokens. A change of a token changes the collection."""
        return self._tokens.values()

    # -- reading -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Create the parents of tokens, and read all tokens."""
        for path in (DelegationTokenChangesZnode.TEMPLATE, DelegationTokensZnode.TEMPLATE):
            with contextlib.suppress(NodeExistsError):
                await self._registry.create(path, make_parents=True)
        await self.reload()

    async def reload(self) -> None:
        """Read all tokens: without a session, this broker may have missed notifications."""
        await self._notifications.skip()
        found = await self._registry.children(DelegationTokensZnode.TEMPLATE)
        await read_all(self._load, [*found, *(self._tokens.keys() - set(found))])

    async def run(self) -> None:
        """Follow the changes of other brokers until cancelled."""
        await self._notifications.run()

    async def _load_changed(self, data: bytes | None, path: str) -> None:
        """Read what a notification names."""
        await self._load(DelegationTokenChangeZnode.decode(data, path).token_id)

    async def _load(self, token_id: str) -> None:
        path = DelegationTokenZnode.path(token_id)
        try:
            data, _ = await self._registry.get(path)
            token = DelegationTokenZnode.decode(data, path)
            Principal.parse(token.owner)
            Principal.parse(token.token_requester)
        except NoNodeError:
            self._apply(token_id, None)
        except (ZnodeFormatError, ValueError) as error:
            logger.error("a delegation token is ignored: %s", error)
            self._apply(token_id, None)
        else:
            self._apply(token_id, token)

    def _apply(self, token_id: str, token: DelegationTokenZnode | None) -> None:
        if token is not None:
            self._tokens[token_id] = token
        elif self._tokens.pop(token_id, None) is not None:
            self._removed(token_id)

    # -- writing -------------------------------------------------------------------------------------------------------

    async def create(self, token: DelegationTokenZnode) -> None:
        """Write a new token, and notify every broker."""
        await self._writes.create(DelegationTokenZnode.path(token.token_id), token.encode(), make_parents=True)
        await self._changed(token.token_id, token)

    async def replace(self, token: DelegationTokenZnode) -> None:
        """Write a token that exists, and notify every broker. Raises NoNodeError if it has been removed."""
        await self._writes.set(DelegationTokenZnode.path(token.token_id), token.encode())
        await self._changed(token.token_id, token)

    async def remove(self, token_id: str) -> None:
        """Remove a token, and notify every broker."""
        with contextlib.suppress(NoNodeError):  # another broker has removed it
            await self._writes.delete(DelegationTokenZnode.path(token_id))
        await self._changed(token_id, None)

    async def _changed(self, token_id: str, token: DelegationTokenZnode | None) -> None:
        self._apply(token_id, token)
        change = DelegationTokenChangeZnode(token_id=token_id)
        await self._writes.append(DelegationTokenChangeZnode.path(), change.encode())
