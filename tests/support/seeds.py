"""The seed of a test's random choices: fixed in `make test`, new in each `make test-full`."""

import os
import random

from support.counts import FULL


def chosen_seed(reduced: int) -> int:
    """`OTTLA_SEED` where it is set; else a new one in a full run, and `reduced` in the others.

    It is printed as what to set to make the same choices again: pytest shows it where the test fails.
    """
    seed = int(os.environ.get("OTTLA_SEED") or (random.SystemRandom().randrange(1 << 32) if FULL else reduced))
    print(f"OTTLA_SEED={seed}")
    return seed
