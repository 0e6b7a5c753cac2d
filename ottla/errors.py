"""The exceptions: `from ottla.errors import UnknownTopicOrPartitionError`. What they are stands in `client.errors`."""

from client import errors
from client.errors import *  # noqa: F403


def __getattr__(name: str) -> type[errors.KafkaError]:
    """The class of a broker's error, made when it is first asked for."""
    return errors.__getattr__(name)
