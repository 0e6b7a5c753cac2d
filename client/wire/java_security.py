"""Security settings of Java's clients that Ottla's do not have because they change nothing here.

They choose parts of Java, tune its Kerberos and its token refresh, or name a class of Kafka that does what Ottla does
by itself. Everything else that is unknown must be refused: the user may believe that it makes the client safer.
"""

from typing import Final

SECURITY: Final = ("sasl.", "security.", "ssl.")
"""How the names of settings of TLS and SASL begin."""

_BEGINNINGS: Final = (
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.",
    "sasl.login.retry.",
    "ssl.keymanager.algorithm",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
_HANDLERS: Final = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class")
_KAFKAS_OWN: Final = "org.apache.kafka.common.security."


def changes_nothing(name: str, text: str) -> bool:
    """Return whether a setting with this value may be ignored."""
    if name in _HANDLERS:
        return text.strip().startswith(_KAFKAS_OWN)
    return name.startswith(_BEGINNINGS)
