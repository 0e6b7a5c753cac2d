"""docs/security.md: the settings of a console with TLS, and the commands that make a token for it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from support.broker import ROOT
from support.certificates import server_certificate
from support.console import ask, console_broker
from support.deadlines import DEADLINE_S
from support.tls_listening import client_tls

TEXT = (ROOT / "docs" / "security.md").read_text()


def examples(language: str) -> str:
    """The example of the section in this language."""
    (text,) = re.findall(r"^## The console and HTTP\n(.*?)(?=^## )", TEXT, flags=re.MULTILINE | re.DOTALL)
    (found,) = re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)
    return str(found)


def make_token(folder: Path) -> str:
    subprocess.run(["sh", "-ec", examples("sh")], cwd=folder, check=True, timeout=DEADLINE_S)
    return (folder / "token").read_text()


async def test_a_token_for_the_console(tmp_path: Path) -> None:
    token = make_token(tmp_path)
    (tmp_path / "tls").mkdir()
    server_certificate().write(tmp_path / "tls" / "broker.pem")
    values = dict(line.split("=", 1) for line in examples("properties").splitlines())
    values["ottla.console.listener"] = "https://127.0.0.1:0"
    for name in ("ottla.console.ssl.keystore.location", "ottla.console.token.file"):
        values[name] = str(tmp_path / values[name])
    host = {"Host": values["ottla.console.hosts"]}
    async with console_broker(tmp_path, values) as broker:
        for secret, status in ((token, 200), (token[:-1], 401)):
            answer = await ask(broker, "/metrics", headers=host, ssl=client_tls(), auth=f"Bearer {secret}")
            assert answer.status == status
