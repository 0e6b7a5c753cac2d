"""Settings that would look safe without being so: refused until what they promise is there.

A broker that took an authorizer, encryption or another registry from its file and then served everyone in the
clear would be worse than one that does not start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from storage.setting import Setting, SettingValue

_REASONS: Final[dict[str, str]] = {
    "authorizer.class.name": "authorization is not there yet: everyone may do everything, so leave it empty",
    "controller.listener.names": "KRaft is not there: Ottla is a broker of the ZooKeeper era",
    "delegation.token.master.key": "delegation tokens are not there yet",
    "delegation.token.secret.key": "delegation tokens are not there yet",
    "principal.builder.class": "only Kafka's own principals are there",
    "process.roles": "KRaft is not there: Ottla is a broker of the ZooKeeper era",
    "remote.log.storage.system.enable": "tiered storage is not there",
    "security.inter.broker.protocol": "TLS and SASL are not there yet, only PLAINTEXT",
    "zookeeper.metadata.migration.enable": "KRaft is not there: Ottla is a broker of the ZooKeeper era",
    "zookeeper.set.acl": "ACLs in ZooKeeper are not there yet",
}
_ZOOKEEPER_TLS = "TLS to ZooKeeper is not there yet"


def refusal(setting: Setting, value: SettingValue) -> str | None:
    """Why this value of a setting is refused, or None; what changes nothing (default, empty) never is."""
    reason = _REASONS.get(setting.name)
    if reason is None and setting.name.startswith("zookeeper.ssl."):
        reason = _ZOOKEEPER_TLS
    if reason is None or value in (setting.default, "", ()):
        return None
    return reason


def refused_settings(settings: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The settings of which some value is refused, with the reason."""
    for name in settings:
        if name in _REASONS:
            yield name, _REASONS[name]
        elif name.startswith("zookeeper.ssl."):
            yield name, _ZOOKEEPER_TLS
