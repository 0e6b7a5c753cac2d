"""Files of users: their format, what is refused, and changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.console.credential_file import MAX_BYTES, CredentialFile
from security.password_hash import ScryptHash, parse_token_digest, token_digest
from storage.setting import ConfigError
from support.polling import until

NAME = "ottla.console.token.file"
DIGITS = token_digest("one").hex()


def token_file(path: Path) -> CredentialFile[bytes]:
    return CredentialFile(NAME, str(path), parse_token_digest)


def line(user: str, token: str) -> str:
    return f"{user}:$sha256${token_digest(token).hex()}\n"


def test_comments_empty_lines_and_several_tokens_of_a_user(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# a comment\r\n\n  " + line("a", "1") + line("b c", "2") + line("a", "3"))
    found = token_file(path)
    found.read()
    assert found.hashes == {"a": [token_digest("1"), token_digest("3")], "b c": [token_digest("2")]}


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"a", "line 1 must be user:hash"),
        (f"\n:$sha256${DIGITS}".encode(), "line 2 must be user:hash"),
        (f"\u00a0a:$sha256${DIGITS}".encode(), "line 1 must be user:hash"),
        (f"a\x1b:$sha256${DIGITS}".encode(), "line 1 must be user:hash"),
        (b"a:planted", "line 1: the hash must be $sha256$"),
        (b"a:\xff", "must be UTF-8"),
        (b"#" * (MAX_BYTES + 1), f"must be at most {MAX_BYTES} bytes"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: bytes, rule: str) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        token_file(path).read()
    assert str(caught.value).startswith(f"{NAME}={path}: {rule}")
    assert "planted" not in caught.value.rule


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        token_file(tmp_path / "missing").read()
    with pytest.raises(ConfigError, match="cannot be read"):
        CredentialFile(NAME, "a\0b", ScryptHash.parse).read()


@asynccontextmanager
async def watched(path: Path) -> AsyncIterator[CredentialFile[bytes]]:
    found = token_file(path)
    found.read()
    watching = asyncio.create_task(found.watch(0.001))
    yield found
    watching.cancel()
    await asyncio.wait([watching])


async def test_changes_count_and_a_wrong_or_missing_file_leaves_the_users_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "tokens"
    path.write_text(line("a", "1"))
    async with watched(path) as found:
        path.write_text(line("b", "2") + line("c", "3"))
        await until(lambda: list(found.hashes) == ["b", "c"], "the file is read again")
        path.unlink()
        await until(lambda: "cannot be read" in caplog.text, "the missing file is reported")
        path.write_text("planted-secret")
        await until(lambda: "must be user:hash" in caplog.text, "the wrong file is reported")
        assert list(found.hashes) == ["b", "c"]
        path.write_text(line("d", "4"))
        await until(lambda: list(found.hashes) == ["d"], "the corrected file is read")
    errors = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(errors) <= 3  # once for each state of the file
    assert "planted" not in caplog.text


async def test_a_file_that_is_completed_while_it_is_refused_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(line("a", "1"))

    def parse(text: str) -> bytes:
        if text == "$sha":  # the writer has not finished
            path.write_text(line("b", "2"))
        return parse_token_digest(text)

    found = CredentialFile(NAME, str(path), parse)
    found.read()
    watching = asyncio.create_task(found.watch(0.001))
    path.write_text("b:$sha")
    try:
        await until(lambda: list(found.hashes) == ["b"], "the complete file is read")
    finally:
        watching.cancel()
        await asyncio.wait([watching])
