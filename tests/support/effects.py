"""Which tests show the effect of which settings: `@shows("log.dirs")` above a test, counted by a test of its own."""

from collections.abc import Callable
from typing import TypeVar

from broker.settings.catalog import ACTED_ON, TOPIC_ACTED_ON

F = TypeVar("F", bound=Callable[..., object])


def shows(*names: str) -> Callable[[F], F]:
    """Mark a test as one that shows the effect of these settings, of brokers or of topics."""
    strangers = set(names) - ACTED_ON - TOPIC_ACTED_ON
    assert not strangers, f"not acted on: {strangers}"
    return lambda test: test
