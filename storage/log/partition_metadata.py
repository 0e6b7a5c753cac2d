"""`partition.metadata`: the topic id of a partition's directory.

version: 0
topic_id: FCEBfPnCRh2V5r_ZBfuOsg        (no line end after it)

The log's first flush syncs it. A power cut before that may leave it empty, cut or full of zeros.
"""

from __future__ import annotations

import logging

from protocol.uuid import uuid_from_string, uuid_to_string
from storage.errors import CorruptFileError
from storage.file_system import FileSystem

PARTITION_METADATA = "partition.metadata"

_BEGIN = "version: 0\ntopic_id: "
_SIZE = len(_BEGIN) + 22

logger = logging.getLogger(__name__)


def read_topic_id(fs: FileSystem, directory: str) -> bytes | None:
    """The 16-byte topic id; None without a file, or if a power cut left it torn. Raises CorruptFileError."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        text = fs.read_file(path).decode(errors="replace")
    except FileNotFoundError:
        return None
    if (len(text) < _SIZE and text[: len(_BEGIN)] == _BEGIN[: len(text)]) or "\0" in text:
        if text:
            logger.warning("%s was not written completely: the topic id is unknown", path)
        return None
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if not colon:
            raise CorruptFileError(path, f"malformed line {line!r}")
        fields[name.strip()] = value.strip()
    if fields.get("version") != "0":
        raise CorruptFileError(path, f"unrecognized version {fields.get('version')!r}, only 0 is known")
    try:
        topic_id = uuid_from_string(fields["topic_id"])
    except (KeyError, ValueError):
        raise CorruptFileError(path, "no valid topic_id") from None
    if not any(topic_id):
        raise CorruptFileError(path, "the topic id is zero")
    return topic_id


def write_topic_id(fs: FileSystem, directory: str, topic_id: bytes, *, sync: bool = False) -> None:
    """Write the file atomically. Raises LogDirIOError."""
    text = f"version: 0\ntopic_id: {uuid_to_string(topic_id)}"
    fs.replace_file(f"{directory}/{PARTITION_METADATA}", text.encode(), sync=sync)
