"""A verb: the name of a kind of fault, the options that describe one, and what injects it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from ottla.testing.faults.active_fault import ActiveFault, Heal
from ottla.testing.faults.description import Description
from ottla.testing.faults.scene import ClusterScene


class Applied(NamedTuple):
    """What the work of a verb returns."""

    did: Mapping[str, Any]
    """What was done at once, as JSON: the ids of brokers, the number of connections, …."""
    heal: Heal | None
    """Ends the fault; None if it is over at once."""
    is_over: Callable[[], bool] | None = None
    """Tells whether something else has ended the fault, for example the start of a broker that was stopped."""


class Verb(NamedTuple):
    """A row of `VERBS`."""

    name: str
    description: type[Description]
    apply: Callable[[Any, Any, ActiveFault], Awaitable[Applied]]
    """Does what the description says, in the event loop of the brokers. Raises FaultError if it is not possible.

    It gets a `ClusterScene`, or with `targets` a `BrokerScene`."""
    example: Description
    """For the documentation, and for a test on a cluster of the brokers 1, 2 and 3 with the topic `orders`."""

    targets: Callable[[ClusterScene, Any], list[int]] | None = None
    """The ids of the brokers in which the verb acts, if it acts within brokers. Raises FaultError for unknown ones."""
    recover: Callable[[ClusterScene, Any], Awaitable[None]] | None = None
    """What follows when the fault is healed."""

    @property
    def summary(self) -> str:
        """One sentence: the docstring of the description."""
        return (self.description.__doc__ or "").partition("\n")[0]
