"""Key stores and trust stores of the shared certificates (support.certificates), of every type."""

from __future__ import annotations

from pathlib import Path

from support.certificates import authority, server_certificate
from support.keytool import keytool


def write_stores(folder: Path) -> None:
    """Write server.p12, server.pem, encrypted.pem (keysecret), ca.p12, ca.pem, and garbage, which is no store."""
    server = server_certificate()
    server.write(folder / "server.p12")
    server.write(folder / "server.pem")
    server.write(folder / "encrypted.pem", "keysecret")
    authority().write(folder / "ca.p12")
    authority().write(folder / "ca.pem")
    (folder / "garbage").write_bytes(b"garbage" * 100)


def write_java_stores(folder: Path, key_password: str = "secret") -> None:
    """Let Java write server.jks and ca.jks, with the password secret, from the files of `write_stores`."""
    to_jks = ["-deststoretype", "JKS", "-deststorepass", "secret", "-destkeypass", key_password]
    from_p12 = ["-srckeystore", folder / "server.p12", "-srcstorepass", "secret", "-srcalias", "kafka"]
    keytool("-importkeystore", *from_p12, "-destkeystore", folder / "server.jks", *to_jks, "-noprompt")
    trusting = ["-storetype", "JKS", "-storepass", "secret", "-noprompt", "-alias", "ca"]
    keytool("-importcert", "-file", folder / "ca.pem", "-keystore", folder / "ca.jks", *trusting)
