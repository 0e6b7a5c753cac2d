"""The process of a broker whose cluster has a control API: `python -m … FD DIRECTORY FILE`.

FD is the number of the inherited socket to the cluster, DIRECTORY is shared by the brokers, FILE has the settings.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from broker.main import run
from ottla.testing.processes.broker_agent import AgentBroker


def main(words: list[str]) -> int:
    """Run the broker; return its exit code."""
    number, directory, properties = words
    end = socket.socket(fileno=int(number))
    end.setblocking(False)
    return run(Path(properties), new_broker=lambda config: AgentBroker(config, end, Path(directory)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
