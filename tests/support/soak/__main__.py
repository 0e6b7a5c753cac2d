"""`python -m support.soak --hours 2 --seed 17`: a long run under faults."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from support.soak.cluster import SoakCluster
from support.soak.hosts import HostedCluster
from support.soak.network import enter, why_not
from support.soak.proxies import ProxiedCluster
from support.soak.soak import SoakError, soak
from support.spark import start_session

PATIENT = {"spark_python_authenticate_socketTimeout": "5m"}
"""Rows come over a socket; 15 s are too short on a machine that is busy."""


def main() -> int:
    """Run what the command line asks for. Return the exit code: 1 where a promise is broken."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the cluster is ended, too
    directory = options.directory or Path(tempfile.mkdtemp(prefix="ottla-soak-"))
    print(f"seed {options.seed}; everything is in {directory}", flush=True)
    new_cluster: type[SoakCluster] = HostedCluster
    if options.proxies or (reason := why_not()):
        _say(f"faults of links by proxies: {'--proxies' if options.proxies else reason}")
        new_cluster = ProxiedCluster
    else:
        enter()  # before there are threads
    try:
        total = soak(
            directory,
            options.seed,
            count=options.rounds,
            hours=options.hours,
            faults=options.faults,
            spark=start_session(directory / "spark", **PATIENT) if options.spark else None,
            new_cluster=new_cluster,
            say=_say,
        )
    except SoakError as error:
        print(f"FAILED {error}", flush=True)
        return 1
    for name, number in sorted(total.items()):
        print(f"{number:10} {name}")
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="support.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each next one has the next seed")
    parser.add_argument("--hours", type=float, default=2.0, help="rounds begin for so long")
    parser.add_argument("--rounds", type=int, help="how many rounds, instead of --hours")
    parser.add_argument("--faults", type=int, default=12, help="in each round")
    parser.add_argument("--no-spark", dest="spark", action="store_false", help="without readers in Spark")
    parser.add_argument("--proxies", action="store_true", help="faults of links by proxies, and not in the kernel")
    parser.add_argument("--directory", type=Path, help="for data and journals; by default a temporary one that stays")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
