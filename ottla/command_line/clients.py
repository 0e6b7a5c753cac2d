"""The clients that commands open: those of `client`, with the client settings of the chosen profile.

Commands import them from here (import-linter checks it), so that every connection of a command has the settings of the
profile. An argument that a command passes wins over the profile: the command has a reason, or the user gave an option.
Only a `client.id` of the profile replaces the name that the command passes.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Unpack

from client.admin import admin
from client.admin.options import AdminKeywords, AdminOptions
from client.consumer import consumer, reader
from client.consumer.options import ConsumerKeywords, ConsumerOptions, ReaderKeywords, ReaderOptions
from client.producer import producer
from client.producer.options import ProducerKeywords, ProducerOptions
from client.wire.cluster_options import ClusterOptions
from ottla.command_line.client_settings import keywords
from ottla.command_line.profiles import NO_PROFILE, Profile

CHOSEN_PROFILE: Final[ContextVar[Profile]] = ContextVar("profile of this command line", default=NO_PROFILE)
"""The profile whose settings the clients get; `command_line.global_options` sets it."""


class Admin(admin.Admin):
    """An admin client with the settings of the profile."""

    def __init__(self, **given: Unpack[AdminKeywords]) -> None:
        super().__init__(**_with_profile(given, AdminOptions))


class Producer(producer.Producer):
    """A producer with the settings of the profile."""

    def __init__(self, **given: Unpack[ProducerKeywords]) -> None:
        super().__init__(**_with_profile(given, ProducerOptions))


class Reader(reader.Reader):
    """A consumer without a group, with the settings of the profile."""

    def __init__(self, **given: Unpack[ReaderKeywords]) -> None:
        super().__init__(**_with_profile(given, ReaderOptions))


class Consumer(consumer.Consumer):
    """A member of a consumer group, with the settings of the profile."""

    def __init__(self, *topics: str, **given: Unpack[ConsumerKeywords]) -> None:
        super().__init__(*topics, **_with_profile(given, ConsumerOptions))


def _with_profile(given: Mapping[str, Any], options: type[ClusterOptions]) -> Any:
    own = keywords(CHOSEN_PROFILE.get().settings, options)
    return own | dict(given) | {name: own[name] for name in ("client_id",) if name in own}
