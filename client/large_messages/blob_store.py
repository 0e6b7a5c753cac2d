"""A store of large values, in anything that fsspec supports: `file:///var/large`, `s3://bucket/large`, `memory://…`.

Needs the extra `claim-check` (fsspec), and for s3 and others the package that fsspec names. Values are never deleted
here: configure the store to expire them, some time after the topic's retention.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from client.errors import BlobMissingError
from client.large_messages.claim import Claim
from client.options import refuse


class BlobStore:
    """`url`: the folder of all names. Calls run in threads. Raises InvalidOptionError for a URL that fsspec does not
    support, ModuleNotFoundError if fsspec is not installed.
    """

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs  # optional
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "claim checks need fsspec: pip install 'ottla[claim-check]'", name=error.name
            ) from error
        self.url = url.rstrip("/")
        options: dict[str, Any] = {"auto_mkdir": True} if "://" not in url or url.startswith("file:") else {}
        try:
            self._files, self._root = url_to_fs(self.url, **options)
        except (ValueError, ImportError) as error:
            raise refuse("store", url, str(error)) from error

    async def put(self, name: str, value: bytes) -> Claim:
        """Write a whole value and return its claim. Raises OSError."""
        await self._call(self._files.pipe_file, name, value)
        return Claim.of(self.url, name, value)

    async def get(self, claim: Claim) -> bytes:
        """Read a claim's value and check it. Raises BlobMissingError, ClaimError, OSError."""
        try:
            value = await self._call(self._files.cat_file, claim.name)
        except FileNotFoundError as error:
            raise BlobMissingError(f"{self.url}/{claim.name} is missing: {claim.size} bytes were stored") from error
        assert isinstance(value, bytes)
        claim.check(value)
        return value

    async def _call(self, method: Callable[..., object], name: str, *arguments: object) -> object:
        try:
            return await asyncio.to_thread(method, f"{self._root}/{name}", *arguments)
        except OSError:
            raise
        except Exception as error:  # libraries of remote stores raise exceptions of their own
            raise OSError(f"{self.url}/{name}: {error}") from error
