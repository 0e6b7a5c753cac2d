"""Coordinators that move in the middle of every step of a group and of a transaction: seeds, and planted bugs."""

import os
import re
from pathlib import Path

import pytest

from support.counts import count, full_only
from support.simulation.coordinator_mutations import COORDINATOR_MUTATIONS
from support.simulation.group_ledger import GroupLedger
from support.simulation.ledger import BrokenPromiseError
from support.simulation.run_command import failure, first_failure, simulate
from support.simulation.transaction_ledger import End, TransactionLedger

RARE = {
    "forgotten-end": "tests/broker/test_offsets.py",
    "unverified-batches": "tests/replication/test_transaction_verification.py",
}
"""Bugs that are not found within 100 seeds, and the tests that show them directly."""
PLANTED = {
    "early-coordinator": 1,
    "forgotten-prepare": 10,
    "half-of-the-markers": 2,
    "generation-not-stored": 1,
    "offsets-before-the-end": 5,
    "offsets-before-the-log": 1,
    "unfenced-producer": 27,
    "fence-without-epoch": 27,
    "open-transactions-are-read": 1,
}
"""The bugs that are found within 100 seeds, each with a seed that does."""
KIND = ("--kind", "coordinators")


@pytest.mark.counted
@pytest.mark.timeout(1800)
def test_promises_are_kept():
    seeds = os.environ.get("OTTLA_SEEDS", count(3, 100))
    code, printed = simulate(*KIND, "--count", seeds, "--quiet")
    assert code == 0, printed
    assert f"{seeds} seeds, 0 failed" in printed


@pytest.mark.timeout(300)
def test_a_seed_determines_a_run():
    runs = [simulate(*KIND, "--seed", 3, hash_seed=hash_seed)[1] for hash_seed in ("1", "random")]
    traces = [re.findall(r"seed 3: trace ([0-9a-f]{8}), (\d+) events", printed) for printed in runs]
    assert traces[0]
    assert traces[0] == traces[1]


@pytest.mark.timeout(300)
def test_a_failure_names_the_command_that_repeats_it():
    mutation = "early-coordinator"
    printed = first_failure(*KIND, "--mutation", mutation, known=PLANTED[mutation], count=40)
    again = re.search(r"again: make simulate SEED=(\d+) KIND=coordinators MUTATION=(\S+)", printed)
    assert again is not None, printed
    code, repeated = simulate(*KIND, "--seed", again[1], "--mutation", again[2])
    assert (code, failure(repeated)) == (1, failure(printed))


@full_only
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutation", PLANTED)
def test_a_planted_bug_is_found(mutation):
    first_failure(*KIND, "--mutation", mutation, known=PLANTED[mutation], count=100)


def test_every_planted_bug_is_looked_for():
    assert sorted(COORDINATOR_MUTATIONS) == sorted({**PLANTED, **RARE})


@pytest.mark.parametrize("mutation", RARE)
def test_a_rare_bug_has_a_test_of_its_own(mutation):
    assert (Path(__file__).parents[2] / RARE[mutation]).is_file()


# -- what the ledgers find -------------------------------------------------------------------------------------------


class Clock:
    """Goes on by one each time it is read."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture
def group():
    return GroupLedger("g", Clock())


def answered(group, commit):
    commit.answered_s = group.now_s()
    commit.is_acknowledged = True


def test_an_acknowledged_commit_is_not_undone(group):
    first = group.commit(0, 1)
    answered(group, first)
    second = group.commit(0, 1)
    group.read(0, 2, before_s=group.now_s())  # it may be there already
    answered(group, second)
    group.read(0, 2, before_s=group.now_s())
    with pytest.raises(BrokenPromiseError, match=r"2 was acknowledged .* the answer is 1"):
        group.read(0, 1, before_s=group.now_s())
    with pytest.raises(BrokenPromiseError, match="the answer is -1"):
        group.read(0, -1, before_s=group.now_s())
    group.read(0, 1, before_s=second.answered_s)


def test_an_unanswered_commit_may_apply_late_but_not_in_a_later_generation(group):
    lost, later = group.commit(0, 1), group.commit(0, 1)
    answered(group, later)
    group.read(0, lost.offset, before_s=group.now_s())
    fenced = group.commit(0, 2)
    answered(group, fenced)
    with pytest.raises(BrokenPromiseError):
        group.read(0, lost.offset, before_s=group.now_s())


@pytest.mark.parametrize("offset", [0, 2])
def test_offsets_that_were_never_committed(group, offset):
    group.commit(0, 1)
    with pytest.raises(BrokenPromiseError, match="nobody has committed"):
        group.read(0, offset, before_s=0)


def test_a_refused_commit_is_not_visible(group):
    group.commit(0, 1).is_refused = True
    with pytest.raises(BrokenPromiseError, match="nobody has committed"):
        group.read(0, 1, before_s=0)


def test_members_of_a_generation_get_the_assignment_of_one_leader(group):
    shares = group.send(1, {"a": [0], "b": [1]})
    assert group.give(1, "a", shares["a"])[1] == [0]
    for member, share in (("a", shares["b"]), ("b", b"")):
        with pytest.raises(BrokenPromiseError, match="it was given"):
            group.give(1, member, share)
    other = group.send(1, {"b": [0]})
    with pytest.raises(BrokenPromiseError, match="others what was sent in 0"):
        group.give(1, "b", other["b"])


def test_generations_do_not_go_back(group):
    early = group.send(2, {"a": [0]})
    group.give(5, "a", group.send(5, {"a": [0]})["a"])
    group.give(2, "a", early["a"])  # it was sent, and written, before
    late = group.send(3, {"a": [0]})
    with pytest.raises(BrokenPromiseError, match="there was generation 5 already"):
        group.give(3, "a", late["a"])


def ended(end, offset_sent=True):
    ledger = TransactionLedger()
    transaction = ledger.begin("p", 1, [0, 1])
    transaction.end, transaction.offset_sent = end, offset_sent
    return ledger, transaction.value


@pytest.mark.parametrize(
    ("end", "where", "offset", "what"),
    [
        (End.COMMITTED, [0, 1], 1, None),
        (End.UNKNOWN, [0, 1], 1, None),
        (End.UNKNOWN, [], -1, None),
        (End.NOT_ASKED, [], -1, None),
        (End.COMMITTED, [0], 1, "visible in {0} only"),
        (End.COMMITTED, [], -1, "visible nowhere"),
        (End.COMMITTED, [0, 1], -1, "the offset of p is -1 and has to be 1"),
        (End.UNKNOWN, [], 1, "the offset of p is 1 and has to be -1"),
        (End.UNKNOWN, [1], 1, "visible in {1} only"),
        (End.NOT_ASKED, [0, 1], 1, "is visible in partitions"),
    ],
)
def test_transactions_are_all_or_nothing(end, where, offset, what):
    ledger, value = ended(end)
    content = {partition: [value] if partition in where else [] for partition in (0, 1)}
    if what is None:
        ledger.check(content, {"p": offset}.__getitem__)
        return
    with pytest.raises(BrokenPromiseError, match=re.escape(what)):
        ledger.check(content, {"p": offset}.__getitem__)


def test_readers_get_committed_records_once_and_in_order():
    ledger, value = ended(End.NOT_ASKED)
    with pytest.raises(BrokenPromiseError, match="is read as committed"):
        ledger.see(0, value)
    ledger, value = ended(End.COMMITTED)
    with pytest.raises(BrokenPromiseError, match="twice"):
        ledger.check({0: [value, value], 1: [value]}, lambda name: 1)
    ledger.see(0, value)
    with pytest.raises(BrokenPromiseError, match="readers were given"):
        ledger.check({0: [], 1: []}, lambda name: -1)
