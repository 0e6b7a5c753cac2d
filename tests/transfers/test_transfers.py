"""Transactions under fire, in the style of Jepsen's workload for Kafka; what is looked for is in the checker's text.

A run takes a few seconds, most of which clients spend waiting after a kill, so some go on at the same time, each with
a broker of its own. A failure prints its seed: OTTLA_SEED makes the same random choices, OTTLA_RUNS times.

That it finds something was tried by breaking the broker by hand. Until a run failed, and what it was told:

    the aborted transactions left out of Fetch answers           4 runs   aborted read
    the last stable offset is the high watermark                 4        precommitted read
    one partition of a transaction gets no marker                4        lost write
    the coordinator does not look at the producer epoch          6        zombie
    the offsets of aborted transactions are committed            4        lost transfer
    neither sequences nor duplicates are looked at               7        duplicate
    EndTxn is answered 20 ms before its decision is written      8        lost write

Four are at work at a time, so four is the first. Not found in 60 runs: OffsetFetch that ignores require_stable,
TxnOffsetCommit that does not look at the generation, appends that are not verified (KIP-890): these need a member that
sleeps, loses its partitions and wakes within one transaction, or a batch that comes after its transaction's end. Tests
of their own hold them (tests/broker/test_offsets.py, tests/broker/test_transactions.py).
"""

from __future__ import annotations

import functools
import itertools
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pytest

from support.broker import BrokerProcess
from support.counts import count
from support.seeds import chosen_seed
from support.transfers.checker import check
from support.transfers.history import Outcome
from support.transfers.nemesis import BrokerNemesis
from support.transfers.report import report
from support.transfers.run import BROKER, Run, Scene

RUNS = int(os.environ.get("OTTLA_RUNS") or count(4, 200))
AT_A_TIME = count(2, 4)
RUNS_A_BROKER = 20  # then the next one begins with an empty disk


def seeds() -> Iterator[int]:
    """One for each run; always the one that is given."""
    first = chosen_seed(1)
    return itertools.repeat(first, RUNS) if "OTTLA_SEED" in os.environ else iter(range(first, first + RUNS))


def run_some(left: Iterator[int], directory: Path) -> Counter[str]:
    """Run with the seeds that are left, on brokers of our own. What there was of everything."""
    directory.mkdir()
    seen: Counter[str] = Counter()
    for first in left:
        with BrokerProcess(directory / f"data-{seen['runs']}", BROKER) as broker:
            for seed in itertools.chain([first], itertools.islice(left, RUNS_A_BROKER - 1)):
                seen += run_once(seed, broker, directory / f"run-{seen['runs']}")
                seen["runs"] += 1
            assert "Traceback" not in broker.log_text()
            assert broker.stop() == 0
    return seen


def run_once(seed: int, broker: BrokerProcess, directory: Path) -> Counter[str]:
    run = Run(seed, Scene(broker.bootstrap, functools.partial(BrokerNemesis, [broker])), directory)
    try:
        history = run.history()
        found = check(history)
    except Exception as error:
        raise AssertionError(f"OTTLA_SEED={seed}: {run.done}, journals in {directory}") from error
    assert not found, f"OTTLA_SEED={seed}: {run.done}, journals in {directory}, {report(directory, history, found)}"
    seen = Counter(f"transactions {each.outcome.value}" for each in history.transactions if each.writes)
    seen.update(run.done)
    seen["transfers"] += sum(len(each.inputs) for each in history.transactions if each.outcome is Outcome.OK)
    return seen


@pytest.mark.counted
@pytest.mark.timeout(1800)
def test_transfers_keep_what_transactions_promise(tmp_path):
    left = seeds()
    everything: Counter[str] = Counter()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        workers = [pool.submit(run_some, left, tmp_path / str(number)) for number in range(AT_A_TIME)]
        try:
            for worker in as_completed(workers):
                everything += worker.result()
        finally:
            for _ in left:  # the others end after what they are at
                pass
    print(dict(everything))
    assert everything["runs"] == RUNS
    assert everything["transfers"] > RUNS
