"""The error of data that does not have the format of a decoder."""

from __future__ import annotations


class DecodingError(Exception):
    """The data does not have this format, or breaks a limit. The message is a predicate: it follows "the value"."""
