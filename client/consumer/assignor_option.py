"""The option `partition_assignment_strategy`: from names, classes or objects to assignors."""

from collections.abc import Sequence
from typing import Any

from client.consumer.assignors import Assignor, RangeAssignor, RoundRobinAssignor
from client.consumer.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
from client.options import refuse


def make_assignors(option: object) -> tuple[Assignor, ...]:
    """Make the assignors of the option `partition_assignment_strategy`: names, classes or objects, preferred first.

    Raises InvalidOptionError.
    """
    name = "partition_assignment_strategy"
    known: dict[str, type[Assignor]] = {
        kind.name: kind for kind in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
    }
    wanted: list[Any] = [option] if isinstance(option, str) or not isinstance(option, Sequence) else list(option)
    made: list[Assignor] = []
    for one in wanted:
        if isinstance(one, str):
            if one not in known:
                raise refuse(name, one, "must be an assignor or one of " + ", ".join(known))
            made.append(known[one]())
        elif isinstance(one, type):
            made.append(one())
        elif hasattr(one, "assign"):
            made.append(one)
        else:
            raise refuse(name, one, "must be an assignor or one of " + ", ".join(known))
    if not made:
        raise refuse(name, option, "must name at least one assignor")
    return tuple(made)
