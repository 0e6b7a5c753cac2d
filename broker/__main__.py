"""`python -m broker [server.properties] [--set name=value]…`: run a broker without the `ottla` command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from broker.main import run


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="Run one Ottla broker.")
    parser.add_argument("properties", nargs="?", type=Path, help="a server.properties file in Kafka's format")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting that overrides the file's"
    )
    parser.add_argument("--log-level", metavar="LEVEL", help="FATAL, ERROR, WARN, INFO, DEBUG or TRACE")
    arguments = parser.parse_args()
    overrides = {}
    for assignment in arguments.set:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            parser.error(f"--set takes name=value, not {assignment!r}")
        overrides[name] = value
    if arguments.log_level is not None:
        overrides["ottla.log.level"] = arguments.log_level
    return run(arguments.properties, overrides)


if __name__ == "__main__":
    sys.exit(main())
