"""`ssl.cipher.suites`: Java's names (those of the standards) as OpenSSL's.

Python's ssl cannot choose among the cipher suites of TLS 1.3 (before 3.15): a list contains all of them, or none, which
disables TLS 1.3. A list that OpenSSL would apply only in part is refused, because it would only look strict.
"""

from __future__ import annotations

from security.tls.errors import TlsConfigError

SETTING = "ssl.cipher.suites"
DEFAULT_CIPHERS = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:DHE+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"
"""Python's own default. Debian's Python has OpenSSL's instead, with suites that have no forward secrecy."""
TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_CIPHERS = (("AES_128", "AES128"), ("AES_256", "AES256"), ("_CBC_SHA", "_SHA"), ("POLY1305_SHA256", "POLY1305"))


def openssl_ciphers(suites: tuple[str, ...]) -> tuple[bool, str | None]:
    """Return whether the suites contain those of TLS 1.3, and the others as OpenSSL writes them (None: no others).

    Raises TlsConfigError.
    """
    newer = [suite for suite in suites if suite in TLS_1_3]
    if newer and len(newer) < len(TLS_1_3):
        rule = f"Python's ssl cannot choose among those of TLS 1.3: name all of {', '.join(TLS_1_3)}, or none"
        raise TlsConfigError(SETTING, rule)
    older = [_openssl_name(suite) for suite in suites if suite not in TLS_1_3]
    return bool(newer), ":".join(older) or None


def _openssl_name(suite: str) -> str:
    if not suite.replace("_", "").replace("-", "").isalnum():  # OpenSSL's lists have operators
        raise TlsConfigError(SETTING, f"{suite!r} is no cipher suite")
    if not suite.startswith("TLS_"):
        return suite
    exchange, with_, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not with_:
        raise TlsConfigError(SETTING, f"{suite} is unknown")
    for java, openssl in _CIPHERS:
        cipher = cipher.replace(java, openssl)
    name = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return name.replace("_", "-")
