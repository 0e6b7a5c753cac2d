"""Settings that are refused because Ottla does not implement the safety that they promise.

A broker that accepted a check of revoked certificates in its file, and then worked without it, would be worse than a
broker that does not start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from storage.setting import Setting, SettingValue

_REVOCATION: Final = "checks of revoked certificates are not supported"
_REASONS: Final[dict[str, str]] = {
    "client.quota.callback.class": "Java classes that decide quotas are not supported: leave it empty",
    "controller.listener.names": "KRaft is not supported: Ottla is a broker of the ZooKeeper era",
    "principal.builder.class": "only Kafka's own principals are supported",
    "process.roles": "KRaft is not supported: Ottla is a broker of the ZooKeeper era",
    "security.providers": "Java's security providers cannot be used: leave it empty",
    "remote.log.storage.system.enable": "tiered storage is not supported",
    "zookeeper.metadata.migration.enable": "KRaft is not supported: Ottla is a broker of the ZooKeeper era",
    "zookeeper.ssl.crl.enable": _REVOCATION,
    "zookeeper.ssl.ocsp.enable": _REVOCATION,
}

_LOGINS: Final = "org.apache.kafka.common.security"
_KAFKAS_OWN: Final[dict[str, tuple[str, ...]]] = {
    "sasl.client.callback.handler.class": (
        f"{_LOGINS}.authenticator.SaslClientCallbackHandler",
        f"{_LOGINS}.oauthbearer.internals.OAuthBearerSaslClientCallbackHandler",
    ),
    "sasl.login.callback.handler.class": (
        f"{_LOGINS}.authenticator.AbstractLogin$DefaultLoginCallbackHandler",
        f"{_LOGINS}.oauthbearer.OAuthBearerLoginCallbackHandler",
        f"{_LOGINS}.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
        f"{_LOGINS}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    ),
    "sasl.login.class": (
        f"{_LOGINS}.authenticator.DefaultLogin",
        f"{_LOGINS}.kerberos.KerberosLogin",
        f"{_LOGINS}.oauthbearer.internals.OAuthBearerRefreshingLogin",
    ),
}
"""Classes that Kafka contains, of settings for logins: Ottla does what they do. Others would be Java code."""


def refusal(setting: Setting, value: SettingValue) -> str | None:
    """Return why this value of a setting is refused; None if it is not. Defaults and empty values are never refused."""
    if value in (setting.default, "", ()):
        return None
    own = _KAFKAS_OWN.get(setting.name)
    if own is not None:
        return None if value in own else f"other classes than Kafka's own are not supported: {', '.join(own)}"
    return _REASONS.get(setting.name)


def refused_settings(settings: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the settings that have refused values, with the reason."""
    for name in settings:
        if name in _REASONS:
            yield name, _REASONS[name]
