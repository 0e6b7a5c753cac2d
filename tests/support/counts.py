"""How often a counted test (fuzzing, kills, seeds) repeats: a few times in `make test`, all in `make test-full`."""

import os

FULL = os.environ.get("OTTLA_FULL") == "1"


def count(reduced: int, full: int) -> int:
    """The number of repetitions for this run: `full` when OTTLA_FULL=1 is set, else `reduced`."""
    return full if FULL else reduced
