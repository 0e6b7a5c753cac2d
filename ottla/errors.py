"""The exceptions: `from ottla.errors import UnknownTopicOrPartitionError`. `client.errors` documents them."""

from client import errors
from client.errors import *  # noqa: F403


def __getattr__(name: str) -> type[errors.KafkaError]:
    """Return the class of a broker's error; it is created on first use."""
    return errors.__getattr__(name)
