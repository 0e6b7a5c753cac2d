"""The record for a value in a store, with the header `ottla-claim-check` and this small JSON value.

{"store": "s3://bucket/large", "name": "orders/2026-11-21/6f…", "size": 31457280, "sha256": "9f86d0…"}
"""

import hashlib
import json
import re
from typing import Final, NamedTuple, Self

from client.errors import ClaimError

HEADER: Final = "ottla-claim-check"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


class Claim(NamedTuple):
    """`name` is within the store; `size` in bytes; `sha256` in hexadecimal digits."""

    store: str
    name: str
    size: int
    sha256: str

    @classmethod
    def of(cls, store: str, name: str, value: bytes) -> Self:
        """The claim for a stored value."""
        return cls(store, name, len(value), hashlib.sha256(value).hexdigest())

    def encode(self) -> bytes:
        """The value of the claim's record."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def decode(cls, value: object) -> Self:
        """Decode a claim. Raises ClaimError if the value is not a claim, or names a file outside the store."""
        try:
            assert isinstance(value, (bytes, str))
            found = json.loads(value)
            claim = cls(str(found["store"]), str(found["name"]), int(found["size"]), str(found["sha256"]))
        except (AssertionError, ValueError, KeyError, TypeError) as error:
            raise ClaimError(f"not a claim: {value!r:.100}: {error}") from error
        if not _NAME.fullmatch(claim.name):
            raise ClaimError(f"name={claim.name!r}: must be names separated by /, none of which begins with a dot")
        return claim

    def check(self, value: bytes) -> None:
        """Raise ClaimError unless `value` is the value that was stored."""
        if len(value) != self.size or hashlib.sha256(value).hexdigest() != self.sha256:
            raise ClaimError(f"{self.store}/{self.name}: its {len(value)} bytes are not the {self.size} stored")
