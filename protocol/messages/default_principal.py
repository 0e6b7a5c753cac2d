"""The client's principal as a broker passes it on in an Envelope, with its version in front."""

from __future__ import annotations

from protocol.fields import boolean, string
from protocol.message import Message


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: str = string("0+")
    name: str = string("0+")
    token_authenticated: bool = boolean("0+")
