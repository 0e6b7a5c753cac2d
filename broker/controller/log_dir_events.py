"""Failed log directories: what brokers report, and which replicas are offline because of it.

A broker with a failed log directory creates a znode under /log_dir_event_notification. The controller then sends it the
states of all its partitions again, and the broker answers KAFKA_STORAGE_ERROR for those that it has lost (KIP-112). The
broker does so for any LeaderAndIsr, for example for the first one after a start with an unusable directory. A replica
is offline until the broker answers without that error, or registers again. Brokers with a full log directory use the
same way to hand leadership over (`broker.full_log_dirs`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from broker.controller.context import ControllerContext, TopicPartition
from protocol.error_codes import ErrorCode
from protocol.message import Message
from protocol.messages.leader_and_isr import LeaderAndIsrResponse
from registry.errors import NoNodeError, ZnodeFormatError
from registry.interface import Delete, Registry
from registry.znodes.notifications import LogDirEventNotificationsZnode, LogDirEventNotificationZnode

logger = logging.getLogger(__name__)


class LogDirEvents:
    """Reads the notifications and maintains `context.offline_dirs`."""

    def __init__(self, registry: Registry, context: ControllerContext, notice_answers: Callable[[], None]) -> None:
        """notice_answers: makes the controller call `take_answers`."""
        self._registry = registry
        self._context = context
        self._notice_answers = notice_answers
        self._answers: list[tuple[int, int, LeaderAndIsrResponse]] = []

    def clear(self) -> None:
        """Start another term: every broker is sent all states again."""
        self._answers.clear()

    # -- notifications ---------------------------------------------------------------------------------------------

    async def read(self) -> dict[str, int]:
        """Return the notifications: path, and the broker that created it (-1 if the znode is invalid)."""
        parent = LogDirEventNotificationsZnode.path()
        try:
            names = await self._registry.children(parent)
        except NoNodeError:
            return {}
        events = {}
        for name in sorted(names):
            path = f"{parent}/{name}"
            try:
                events[path] = LogDirEventNotificationZnode.decode((await self._registry.get(path))[0], path).broker
            except NoNodeError:
                continue
            except ZnodeFormatError as error:
                logger.error("an invalid notification is removed: %s", error)
                events[path] = -1
        return events

    async def remove(self, paths: Iterable[str]) -> None:
        """Delete handled notifications. Raises BadVersionError if another controller has been elected."""
        for path in paths:
            if await self._registry.exists(path) is not None:
                await self._registry.multi([self._context.epoch_check(), Delete(path)])

    # -- answers ---------------------------------------------------------------------------------------------------

    def answered(self, broker_id: int, broker_epoch: int, answer: Message) -> None:
        """Keep a broker's answer to LeaderAndIsr for `take_answers`."""
        assert isinstance(answer, LeaderAndIsrResponse)
        if answer.error_code == ErrorCode.NONE and (answer.topics or answer.partition_errors):
            self._answers.append((broker_id, broker_epoch, answer))
            self._notice_answers()

    def take_answers(self) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """Process the brokers' answers. Return the partitions that have lost a replica, and those with one back."""
        context = self._context
        lost: set[TopicPartition] = set()
        back: set[TopicPartition] = set()
        answers, self._answers = self._answers, []
        for broker_id, broker_epoch, answer in answers:
            broker = context.brokers.get(broker_id)
            if broker is None or broker.epoch != broker_epoch:
                continue
            offline = context.offline_dirs.get(broker_id, set())
            for key, code in self._codes(answer):
                if code == ErrorCode.KAFKA_STORAGE_ERROR and key not in offline:
                    offline.add(key)
                    lost.add(key)
                elif code == ErrorCode.NONE and key in offline:
                    offline.discard(key)
                    back.add(key)
            if offline:
                context.offline_dirs[broker_id] = offline
            else:
                context.offline_dirs.pop(broker_id, None)
        if lost:
            logger.warning("replicas are offline, their log directories have failed or are full: %s", sorted(lost))
        return lost, back

    def _codes(self, answer: LeaderAndIsrResponse) -> list[tuple[TopicPartition, int]]:
        by_id = [
            ((name, one.partition_index), one.error_code)
            for topic in answer.topics
            if (name := self._context.topic_name(topic.topic_id)) is not None
            for one in topic.partition_errors
        ]
        return by_id + [((one.topic_name, one.partition_index), one.error_code) for one in answer.partition_errors]
