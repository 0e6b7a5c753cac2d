"""The error of this package."""


class TlsConfigError(Exception):
    """A TLS setting has no usable value: `setting` (Kafka's name, without a listener's prefix) and broken `rule`.

    The text never contains a value: values may be passwords or keys.
    """

    def __init__(self, setting: str, rule: str) -> None:
        super().__init__(f"{setting}: {rule}")
        self.setting = setting
        self.rule = rule
