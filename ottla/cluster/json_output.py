"""The output of several processes as JSON lines (`ottla.log.format=json`): each has the field `process`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from broker.log_lines import json_line


class JsonOutput:
    """Prints the lines of processes on standard error. See `Output`."""

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        """now_s: seconds since 1970."""
        self._now_s = now_s

    def said(self, name: str, line: str) -> None:
        """Print a line of a process's output. A line that is no JSON, such as a traceback, becomes a message."""
        try:
            fields = json.loads(line)
        except ValueError:
            fields = None
        if isinstance(fields, dict):
            print(json.dumps(fields | {"process": name}), file=sys.stderr, flush=True)
        else:
            self.tell(name, line)

    def tell(self, name: str, line: str) -> None:
        """Print a line about a process."""
        print(json_line(__name__, line, {"process": name}, self._now_s()), file=sys.stderr, flush=True)
