"""Whole clusters from seeds: what was promised is kept, a seed is a run, and planted bugs are found.

Seeds are run by a process of their own (`python -m support.simulation`), as `make simulate` does.
"""

import os
import re
from pathlib import Path

import pytest

from support.counts import count, full_only
from support.simulation.mutations import MUTATIONS
from support.simulation.run_command import failure, first_failure, simulate

PLANTED = {
    "hw-too-high": 4,
    "skipped-truncation": 5,
    "stale-isr-write": 6,
    "stale-isr-write-to-the-registry": 2,
    "early-acknowledgement": 1,
    "unclean-election": 6,
    "early-join": 11,
    "same-epoch": 1,
    "hw-goes-back": 7,
    "all-committed": 2,
    "sent-is-received": 2,
    "followers-without-epochs": 1,
    "repeated-batches": 1,
    "forgotten-producers": 1,
    "acknowledged-before-flush": 74,
    "settings-without-sync": 74,
}
"""The bugs that are found within 500 seeds, each with a seed that does."""
RARE = {
    "no-epoch-check": "tests/broker/test_fetch.py",
    "joining-replica": "tests/replication/test_in_sync_replicas.py",
}
"""Bugs that are not found within 500 seeds, and the tests that show them directly."""


@pytest.mark.counted
@pytest.mark.timeout(1800)
def test_promises_are_kept():
    seeds = count(6, 500)
    code, printed = simulate("--count", os.environ.get("OTTLA_SEEDS", seeds), "--quiet")
    assert code == 0, printed
    assert f"{os.environ.get('OTTLA_SEEDS', seeds)} seeds, 0 failed" in printed


@pytest.mark.timeout(300)
def test_a_seed_determines_a_run():
    # Two processes, whatever the hashes of strings and the addresses of objects are in them.
    runs = [simulate("--seed", 3, "--count", 2, hash_seed=hash_seed)[1] for hash_seed in ("1", "random")]
    traces = [re.findall(r"seed (\d+): trace ([0-9a-f]{8}), (\d+) events", printed) for printed in runs]
    assert [seed for seed, _, _ in traces[0]] == ["3", "4"], runs[0]
    assert traces[0] == traces[1]
    assert traces[0][0][1] != traces[0][1][1]


@pytest.mark.timeout(300)
def test_a_failure_names_the_command_that_repeats_it():
    mutation = "early-acknowledgement"
    printed = first_failure("--mutation", mutation, known=PLANTED[mutation], count=40)
    again = re.search(r"again: make simulate SEED=(\d+) MUTATION=(\S+)", printed)
    assert again is not None, printed
    code, repeated = simulate("--seed", again[1], "--mutation", again[2])
    assert (code, failure(repeated)) == (1, failure(printed))


@full_only
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutation", PLANTED)
def test_a_planted_bug_is_found(mutation):
    first_failure("--mutation", mutation, known=PLANTED[mutation], count=500)


def test_every_planted_bug_is_looked_for():
    assert sorted(MUTATIONS) == sorted({**PLANTED, **RARE})


@pytest.mark.parametrize("mutation", RARE)
def test_a_rare_bug_has_a_test_of_its_own(mutation):
    assert (Path(__file__).parents[2] / RARE[mutation]).is_file()
