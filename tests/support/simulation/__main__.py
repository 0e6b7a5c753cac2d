"""`python -m support.simulation --seed 17 --count 100`: runs seeds and reports those that broke a guarantee.

The order in which Python goes through sets of strings differs from process to process unless PYTHONHASHSEED says
otherwise: it is set, and the process is started again.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from pathlib import Path

HASH_SEED = "0"


def main() -> int:
    """Run what the command line asks for. Returns the exit code: 1 where a seed failed."""
    options = _options()
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "support.simulation", *sys.argv[1:]])

    from support.simulation.coordinator_mutations import COORDINATOR_MUTATIONS
    from support.simulation.many import replay_command, run_seeds
    from support.simulation.mutations import MUTATIONS

    begun = time.process_time()
    prepare = (MUTATIONS | COORDINATOR_MUTATIONS)[options.mutation] if options.mutation else lambda: None
    seeds = range(options.seed, options.seed + options.count)
    is_one = options.count == 1
    level = logging.INFO if options.verbose else logging.WARNING
    failed = done = 0
    for outcome in run_seeds(seeds, kind=options.kind, prepare=prepare, trace_path=options.trace, log_level=level):
        done += 1
        line = (
            f"seed {outcome.seed}: trace {outcome.trace_hash:08x}, {outcome.events} events, {outcome.virtual_s:.1f} s,"
            f" {outcome.faults} faults, {outcome.acknowledged} acknowledged, {outcome.failed} not,"
            f" {outcome.consumed} consumed"
        )
        if outcome.failure is not None:
            failed += 1
            again = replay_command(outcome.seed, options.mutation, options.kind)
            print("\n".join(outcome.story))
            print(
                f"{line}\nFAILED {outcome.failure}\nagain: {again}",
                flush=True,
            )
            if options.stop:
                break
        elif is_one and options.verbose:
            print("\n".join(outcome.story))
            print(line, flush=True)
        elif not options.quiet:
            print(line, flush=True)
    print(f"{done} seeds, {failed} failed, {time.process_time() - begun + _children_s():.0f} s of CPU", flush=True)
    return 1 if failed else 0


def _children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="support.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many")
    parser.add_argument("--kind", choices=("replicas", "coordinators"), default="replicas", help="what it is about")
    parser.add_argument("--mutation", help="plant a bug, by its name")
    parser.add_argument("--trace", type=Path, help="write every event to this file (of the last seed)")
    parser.add_argument("--stop", action="store_true", help="stop at the first that fails")
    parser.add_argument("--quiet", action="store_true", help="say nothing of seeds that keep their promises")
    parser.add_argument("--verbose", action="store_true", help="what brokers log, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
