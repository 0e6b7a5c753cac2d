"""`ottla cluster`, or another command that runs brokers, as a process."""

import os
import re
import signal
import subprocess
import sys
import threading

from broker.first_commands import TRY
from support.broker import ROOT
from support.deadlines import DEADLINE_S
from support.polling import until_blocking

ANY_PORTS = ("--port", "0", "--zookeeper-port", "0", "--console-port", "0")


class Running:
    """The command as a process; its output is collected."""

    def __init__(self, *words, ports=ANY_PORTS, name="cluster", paths=()):
        """name: the command. ports: its options for ports that the system picks. paths: of modules besides Ottla's."""
        env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [ROOT, *paths]))}
        command = [sys.executable, "-m", "ottla", name, *ports, *map(str, words)]
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.out, self.err = [], []
        self._readers = [
            threading.Thread(target=self._collect, args=pair)
            for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _collect(stream, lines):
        with stream:
            lines += iter(stream.readline, "")

    def ready(self):
        until_blocking(lambda: self.process.poll() is not None or f"{TRY}\n" in self.out, "the cluster is ready")
        until_blocking(lambda: self.process.poll() is not None or self.out[-1] == "\n", "the cluster is ready")
        assert self.process.poll() is None, self.errors
        return self

    @property
    def text(self):
        return "".join(self.out)

    @property
    def errors(self):
        return "".join(self.err)

    def value(self, name):
        return re.search(rf"^  {name} +(.*?)( \(temporary\))?$", self.text, flags=re.MULTILINE)[1]

    def pid(self, name):
        return int(re.search(r"pid (\d+)$", self.value(name))[1])

    def stop(self, number=signal.SIGINT):
        """Send a signal to the process group, as a terminal does."""
        os.killpg(self.process.pid, number)
        return self.ended()

    def ended(self):
        try:
            code = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the command does not end: {self.text[-5000:]}{self.errors[-20_000:]}") from None
        for reader in self._readers:
            reader.join()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.ended()
