"""What a broker process does for the cluster that has started it: it applies faults within itself, and answers.

The cluster asks by a channel. `do` says what is meant:

    apply       apply a fault: `fault` as in `RemoteFault.as_json`; the result is what `Engine.apply` returns
    heal        end the fault `id`; it may be over
    is_waiting  tell whether a use of the fault `id` has not ended
    operation   run one of `OPERATIONS`: `name`, `arguments`
    requests    list captured requests: `chosen`

The agent asks for the faults in effect before its broker starts (`begin`), and tells when one is used up (`over`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from ottla.testing.faults.broker_operations import OPERATIONS
from ottla.testing.faults.engine import Engine
from ottla.testing.faults.errors import FaultError, UnknownFaultError
from ottla.testing.faults.options import from_json
from ottla.testing.faults.scene import BrokerScene, seen_as_json
from ottla.testing.faults.verbs import VERBS
from ottla.testing.member import Environment
from ottla.testing.processes.channel import Channel
from ottla.testing.processes.remote_fault import RemoteFault
from ottla.testing.processes.shared_openers import NotedNetwork, SharedOpeners

_LOCAL = {name: verb._replace(recover=None) for name, verb in VERBS.items() if verb.targets is not None}
"""The verbs that act within a broker; the cluster starts brokers again."""


class OwnBroker:
    """The broker of this process. See `HasBroker`."""

    def __init__(self, config: BrokerConfig) -> None:
        self.id = config.broker_id
        self.log_dirs = [str(path) for path in config.log_dirs]
        self.broker: Broker | None = None


class BrokerAgent:
    """Applies faults within the broker of this process."""

    def __init__(self, config: BrokerConfig, end: socket.socket, directory: Path) -> None:
        """end: the channel to the cluster. directory: shared by the brokers of the cluster."""
        self.own = OwnBroker(config)
        self.openers = SharedOpeners(directory)
        self._scene = BrokerScene({self.own.id: self.own}, _no_other_thread, self.openers)
        self.environment = Environment(network=NotedNetwork(self.own.id, self.openers))
        self._scene.prepare(self.own.id, self.environment)
        self._engine = Engine(self._scene, _LOCAL, on_used_up=self._used_up)
        self._channel = Channel(end, self._do)
        self._known: set[int] = set()

    async def begin(self) -> list[asyncio.Task[None]]:
        """Apply the faults that are in effect. Return the tasks that go on."""
        tasks = [await self._channel.open(), asyncio.create_task(self.openers.prune())]
        told = await self._channel.ask(do="begin")
        self._scene.known = told["brokers"]
        for fault in told["faults"]:
            await self._apply(fault)
        return tasks

    async def _do(self, frame: dict[str, Any]) -> Any:
        match frame["do"]:
            case "apply":
                return await self._apply(frame["fault"])
            case "heal":
                with contextlib.suppress(UnknownFaultError):
                    await self._engine.heal(frame["id"])
                return None
            case "is_waiting":
                return self._engine.is_waiting(frame["id"])
            case "operation":
                if self.own.broker is None:
                    raise FaultError("the broker does not run")
                return await OPERATIONS[frame["name"]](self.own.broker, *frame["arguments"])
            case "requests":
                return await seen_as_json(self._scene.captured, frame["chosen"])
        raise FaultError(f"{frame['do']}: unknown")

    async def _apply(self, values: dict[str, Any]) -> dict[str, Any] | None:
        """Apply a fault; return None if that was done before: it began while the broker started."""
        fault = RemoteFault.from_json(values)
        if fault.id in self._known:
            return None
        self._known.add(fault.id)
        self._scene.known = fault.brokers
        description = from_json(_LOCAL, fault.description)
        return await self._engine.apply(description, fault.id, fault.counter)

    def _used_up(self, fault_id: int) -> None:
        self._channel.tell(do="over", id=fault_id)


class AgentBroker(Broker):
    """A broker with the faults of its cluster."""

    def __init__(self, config: BrokerConfig, end: socket.socket, directory: Path) -> None:
        self._agent = agent = BrokerAgent(config, end, directory)
        environment = agent.environment
        super().__init__(
            config,
            network=environment.network,
            fs=environment.fs(),
            now_ms=environment.now_ms,
            wrap_handler=environment.wrap_handler,
        )
        agent.own.broker = self

    async def run(self, on_ready: Callable[[Broker], None] = lambda broker: None) -> None:
        """See `Broker.run`. The faults in effect apply from the beginning."""
        tasks = await self._agent.begin()
        try:
            await super().run(on_ready)
        finally:
            for task in tasks:
                task.cancel()


def _no_other_thread(*arguments: Any) -> Any:
    raise RuntimeError("the broker of this process has no other thread")
