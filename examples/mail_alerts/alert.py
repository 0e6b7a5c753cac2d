"""An alert: a record whose value is JSON, such as {"to": "ops@example.org", "subject": "Disk full", "text": "…"}."""

import json
from email.message import EmailMessage
from typing import NamedTuple

from ottla import ConsumerRecord, TopicPartition


class Alert(NamedTuple):
    """What is to be mailed. `topic`, `partition` and `offset` name it: no two alerts have the same."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes

    @classmethod
    def of(cls, record: ConsumerRecord) -> "Alert":
        """The alert of a record."""
        return cls(record.topic, record.partition, record.offset, record.timestamp, record.value or b"")

    @property
    def source(self) -> TopicPartition:
        """Where it comes from."""
        return TopicPartition(self.topic, self.partition)

    @property
    def id(self) -> str:
        """Its name."""
        return f"{self.topic}-{self.partition}-{self.offset}"

    def mail(self, sender: str) -> EmailMessage:
        """The mail; its Message-ID is the same whenever it is sent. Raises ValueError where it cannot be made."""
        try:
            fields = json.loads(self.value)
            to, subject, text = (str(fields[name]) for name in ("to", "subject", "text"))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"no alert: {self.value[:100]!r}: {error!r}") from error
        message = EmailMessage()
        message["From"] = sender
        message["To"] = to
        message["Subject"] = f"[{self.topic}] {subject}"
        message["Message-ID"] = f"<{self.id}@mail-alerts>"
        message.set_content(text)
        return message
