"""The error of this package, and a name for two of Python's ssl."""

import ssl

PEER_LEFT = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""What a handshake raises when the other side closes the connection without an alert: the first, or with Python 3.11.2
the second."""


class TlsConfigError(Exception):
    """A TLS setting has no usable value: `setting` (Kafka's name, without a listener's prefix) and broken `rule`.

    The text never contains a value: values may be passwords or keys.
    """

    def __init__(self, setting: str, rule: str) -> None:
        super().__init__(f"{setting}: {rule}")
        self.setting = setting
        self.rule = rule
