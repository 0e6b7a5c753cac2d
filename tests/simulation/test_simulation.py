"""Whole clusters from seeds: what was promised is kept, a seed is a run, and planted bugs are found.

Seeds are run by a process of their own (`python -m support.simulation`), as `make simulate` does.
"""

import os
import re
from pathlib import Path

import pytest

from support.counts import FULL, count
from support.simulation.mutations import MUTATIONS
from support.simulation.run_command import failure, simulate

QUICK = {"early-acknowledgement"}
"""The bugs that the reduced run looks for, too."""
RARE = {
    "no-epoch-check": "tests/broker/test_fetch.py",
    "joining-replica": "tests/replication/test_in_sync_replicas.py",
}
"""Bugs that are not found within 500 seeds, and the tests that show them directly."""
PLANTED = [name for name in MUTATIONS if name not in RARE]


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


@pytest.mark.counted
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutation", [name for name in PLANTED if name in QUICK or FULL])
def test_a_planted_bug_is_found(mutation):
    code, printed = simulate("--count", count(40, 500), "--mutation", mutation, "--stop", "--quiet")
    assert code == 1, printed
    again = re.search(r"again: make simulate SEED=(\d+) MUTATION=(\S+)", printed)
    assert again is not None, printed
    assert again[2] == mutation
    code, repeated = simulate("--seed", again[1], "--mutation", mutation)
    assert code == 1
    assert failure(repeated) == failure(printed)


@pytest.mark.parametrize("mutation", RARE)
def test_a_rare_bug_has_a_test_of_its_own(mutation):
    assert mutation in MUTATIONS
    assert (Path(__file__).parents[2] / RARE[mutation]).is_file()
