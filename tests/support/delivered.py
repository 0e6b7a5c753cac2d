"""The offsets that librdkafka reports for acknowledged records."""

from __future__ import annotations

from confluent_kafka import Message


class Delivered:
    """Of one producer. Brokers give -1 as the offset of a batch that was there already (DUPLICATE_SEQUENCE_NUMBER);
    librdkafka takes that for the first record's and counts on: None, 0, 1, … of which none is true.
    """

    def __init__(self) -> None:
        self._counted: dict[tuple[str | None, int | None], int] = {}

    def offset(self, message: Message) -> int | None:
        """The offset; None if it is not known."""
        where = message.topic(), message.partition()
        told = message.offset()
        offset = -1 if told is None else told
        counted = self._counted.pop(where, None)
        if offset < 0 or (counted is not None and offset == counted + 1):
            self._counted[where] = offset
            return None
        return offset
