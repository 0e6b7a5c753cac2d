"""The faults of a run: brokers (also as coordinators) and clients are killed, stopped and resumed.

`support.soak.cluster_nemesis` has those of a whole cluster.

A client that is killed or stopped gets a successor with the same transactional id, at once, later or never; never means
that its transaction has to time out. One that is resumed after that is a zombie, and does not know it.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from support.broker import BrokerProcess
from support.transfers.client_process import ClientProcess

PATIENCE_S = 3.0


class Nemesis:
    """One run's, with the faults of clients.

    `restart` adds another process of a client to `clients`; `transactions` counts those committed.
    """

    def __init__(
        self,
        rng: random.Random,
        clients: Sequence[ClientProcess],
        restart: Callable[[ClientProcess], object],
        transactions: Callable[[], int],
    ) -> None:
        self.done: list[str] = []
        self._rng = rng
        self._clients = clients
        self._restart = restart
        self._transactions = transactions

    def let_go_on(self, most: int) -> None:
        """Wait until that many more transactions are committed, or fewer; not for ever, as all clients may be dead."""
        wanted = self._transactions() + self._rng.randint(1, most)
        deadline = time.monotonic() + PATIENCE_S
        while self._transactions() < wanted and time.monotonic() < deadline:
            for client in self._deserted():
                self.done.append("end_of_client")
                client.has_successor = True
                self._restart(client)
            threading.Event().wait(0.02)

    def _deserted(self) -> list[ClientProcess]:
        """Those that have ended and get a successor now."""
        return [each for each in self._clients if each.needs_successor]

    def pause(self, longest_s: float) -> None:
        """Wait for a random time, at most `longest_s`."""
        threading.Event().wait(self._rng.random() * longest_s)

    def strike(self, times: int) -> None:
        """Inject a number of faults. Each is undone, except for clients that stay dead."""
        ways = self.ways()
        for _ in range(times):
            self.let_go_on(20)
            self.pause(0.05)
            way = self._rng.choices([*ways], [*ways.values()])[0]
            self.done.append(way.__name__)
            way()
        self.let_go_on(20)

    def ways(self) -> dict[Callable[[], None], int]:
        """The faults, and how often each is chosen in comparison with the others."""
        return {self.kill_client: 5, self.freeze_client: 4}

    def _victim(self) -> ClientProcess | None:
        alive = [client for client in self._clients if client.lives]
        return self._rng.choice(alive) if alive else None

    def kill_client(self) -> None:
        """SIGKILL at any time."""
        victim = self._victim()
        if victim is not None:
            victim.kill()
            self._succeed(victim)

    def freeze_client(self) -> None:
        """SIGSTOP; a successor may begin meanwhile; SIGCONT."""
        victim = self._victim()
        if victim is not None:
            victim.stop()
            self._succeed(victim)
            self.pause(self._rng.choice((0.3, 0.6, 2.0)))  # the last one outlasts sessions and transactions
            victim.resume()

    def _succeed(self, victim: ClientProcess) -> None:
        if self._rng.random() < 0.8:
            self.pause(0.1)
            victim.has_successor = True
            self._restart(victim)


class BrokerNemesis(Nemesis):
    """Strikes single brokers, too."""

    def __init__(self, brokers: Sequence[BrokerProcess], *parts: Any) -> None:
        """parts: see Nemesis."""
        super().__init__(*parts)
        self._brokers = brokers

    def ways(self) -> dict[Callable[[], None], int]:
        """See Nemesis."""
        return {self.kill_broker: 5, self.stop_broker: 1, self.freeze_broker: 2} | super().ways()

    def kill_broker(self) -> None:
        """SIGKILL; sometimes once more while it starts."""
        broker = self._rng.choice(self._brokers)
        broker.kill()
        while self._rng.random() < 0.2:
            broker.launch()
            self.pause(0.6)
            broker.kill()
        broker.start()

    def stop_broker(self) -> None:
        """SIGTERM."""
        broker = self._rng.choice(self._brokers)
        assert broker.stop() == 0
        broker.start()

    def freeze_broker(self) -> None:
        """SIGSTOP, and SIGCONT."""
        broker = self._rng.choice(self._brokers)
        assert broker.process is not None
        broker.process.send_signal(signal.SIGSTOP)
        self.pause(0.5)
        broker.process.send_signal(signal.SIGCONT)
