"""Many seeds, each in its own child process, so that no state is left for the next one.

A child is a fork of a process that has run one seed already: what is compiled once (the codecs of messages) is there.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from support.memory_disk import memory_directory
from support.simulation.coordinator_run import CoordinatorRun
from support.simulation.run import Outcome, Run, run_seed
from support.simulation.virtual_loop import SimulationStuckError

_WARM_UP = 0

LONGEST_CPU_S = 60.0
"""Nothing ordinary takes so long: somebody goes round in circles within one callback."""


KINDS = {"replicas": Run, "coordinators": CoordinatorRun}


def replay_command(seed: int, mutation: str | None = None, kind: str = "replicas") -> str:
    """The command that repeats a seed."""
    of_kind = "" if kind == "replicas" else f" KIND={kind}"
    return f"make simulate SEED={seed}{of_kind}" + (f" MUTATION={mutation}" if mutation else "")


def run_seeds(
    seeds: Iterable[int],
    *,
    kind: str = "replicas",
    prepare: Callable[[], None] = lambda: None,
    trace_path: Path | None = None,
    log_level: int = logging.WARNING,
) -> Iterator[Outcome]:
    """Run seeds one after the other. kind: one of KINDS. prepare: called in each child, for example to plant a bug."""
    _in_a_child(lambda directory: run_seed(_WARM_UP, directory, new_run=KINDS[kind]), in_here=True)
    for seed in seeds:

        def work(directory: Path, seed: int = seed) -> Outcome:
            prepare()
            return run_seed(seed, directory, new_run=KINDS[kind], trace_path=trace_path, log_level=log_level)

        yield _in_a_child(work)


def _in_a_child(work: Callable[[Path], Outcome], *, in_here: bool = False) -> Outcome:
    """Run `work` in a fork with its own directory (in memory if the system has a tmpfs)."""
    with memory_directory("simulation") as directory:
        if in_here:
            return work(directory)
        return _forked(lambda: work(directory))


def _forked(work: Callable[[], Outcome]) -> Outcome:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            gc.disable()  # it would bury the dead, whose `finally` blocks must not run
            signal.signal(signal.SIGVTALRM, _is_stuck)
            signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_CPU_S)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(work(), pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not data:
        raise RuntimeError(f"the simulation's process ended with status {status}")
    outcome: Outcome = pickle.loads(data)
    return outcome


def _is_stuck(number: int, frame: FrameType | None) -> NoReturn:
    where = "".join(traceback.format_stack(frame, 6))
    raise SimulationStuckError(f"{LONGEST_CPU_S:.0f} s of CPU are gone, and it is still at:\n{where}")
