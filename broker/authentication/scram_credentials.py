"""The SCRAM credentials of all users, as this broker knows them: a view of the registry's /config/users.

A config of a user has a credential for each mechanism under the mechanism's name, beside the quotas of the user.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from broker.settings.entities import USERS, EntityConfigs
from registry.znodes.configs import DEFAULT_ENTITY
from registry.znodes.sanitizer import desanitize, sanitize
from security.sasl.errors import SaslMessageError
from security.sasl.scram import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from security.sasl.scram_server import FindCredential

logger = logging.getLogger(__name__)


class ScramCredentials:
    """The credentials by mechanism and user. They follow the changes of all brokers."""

    def __init__(self, entities: EntityConfigs) -> None:
        self._credentials: dict[str, dict[str, ScramCredential]] = {name: {} for name in SCRAM_MECHANISMS}
        entities.subscribe(self._changed)

    def of(self, mechanism: ScramMechanism) -> FindCredential:
        """Return the search for a user's credential."""
        return self._credentials[mechanism.name].get

    def _changed(self, path: str, config: Mapping[str, str]) -> None:
        user = user_of(path)
        if user is None:
            return
        found = credentials_in(config, user)
        for name, credentials in self._credentials.items():
            if name in found:
                credentials[user] = found[name]
            else:
                credentials.pop(user, None)


def user_path(user: str) -> str:
    """Return the path of a user's config below /config."""
    return f"{USERS}/{sanitize(user)}"


def user_of(path: str) -> str | None:
    """Return the user whose config has this path; None for a client, an address or the default of all users."""
    kind, _, name = path.partition("/")
    if kind != USERS or "/" in name or name == DEFAULT_ENTITY:
        return None
    return desanitize(name)


def credentials_in(config: Mapping[str, str], user: str) -> dict[str, ScramCredential]:
    """Return the credentials in a user's config by mechanism. One that cannot be read is left out."""
    found = {}
    for name in SCRAM_MECHANISMS:
        if name not in config:
            continue
        try:
            found[name] = ScramCredential.parse(config[name])
        except SaslMessageError:
            logger.error("the %s credential of user %r cannot be read: the user cannot log in with it", name, user)
    return found
