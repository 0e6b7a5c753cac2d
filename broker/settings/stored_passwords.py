"""Passwords among the dynamic settings of a broker: encrypted in the registry, in plain text in memory."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from broker.settings.config import BrokerConfig
from broker.settings.described import setting_of
from security.password_encoder import KEY_FACTORY, PasswordEncoder, PasswordError

logger = logging.getLogger(__name__)


class StoredPasswords:
    """Encrypts and decrypts with `password.encoder.secret`; decrypts also with `password.encoder.old.secret`."""

    __slots__ = ("_encoders",)

    def __init__(self, config: BrokerConfig) -> None:
        secrets = [config.password_encoder_secret, config.password_encoder_old_secret]
        self._encoders = [
            PasswordEncoder(
                secret,
                key_factory=config.password_encoder_keyfactory_algorithm or KEY_FACTORY,
                key_bits=config.password_encoder_key_length,
                iterations=config.password_encoder_iterations,
            )
            for secret in (secrets if secrets[0] else [])
            if secret
        ]

    @property
    def has_old_secret(self) -> bool:
        """Whether stored passwords may have to be encrypted with a new secret."""
        return len(self._encoders) > 1

    def encrypted(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings as they are stored. Raises PasswordError if there is a password and no secret."""
        return {name: self._encode(text) if _is_password(name) else text for name, text in settings.items()}

    def decrypted(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return the settings without those passwords that cannot be decrypted, which are logged."""
        settings: dict[str, str] = {}
        for name, text in stored.items():
            try:
                settings[name] = self._decode(text)[0] if _is_password(name) else text
            except PasswordError as error:
                logger.error("dynamic setting %s is ignored: %s", name, error)
        return settings

    def with_new_secret(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return the stored settings; the passwords of the old secret are encrypted with the new one."""
        changed = dict(stored)
        for name, text in stored.items():
            if _is_password(name):
                try:
                    password, is_new = self._decode(text)
                except PasswordError:
                    continue  # `decrypted` logs it
                changed[name] = text if is_new else self._encode(password)
        return changed

    def _encode(self, password: str) -> str:
        if not self._encoders:
            raise PasswordError("password.encoder.secret is not set")
        return self._encoders[0].encode(password)

    def _decode(self, text: str) -> tuple[str, bool]:
        """Return the password, and whether it was encrypted with the new secret. Raises PasswordError."""
        failure = PasswordError("password.encoder.secret is not set")
        for encoder in self._encoders:
            try:
                return encoder.decode(text), encoder is self._encoders[0]
            except PasswordError as error:
                failure = error
        raise failure


def _is_password(name: str) -> bool:
    setting = setting_of(name)
    return setting is not None and setting.is_sensitive
