"""What a follower does with the leader's answer for one partition: append, truncate, start at another offset, or retry.

An answer counts only if it matches what the fetcher requests now: meanwhile the controller may have named another
leader, or another answer may have changed the end of the log. While a log changes over several turns of the event loop
(truncation syncs), its state is busy. Code that takes the partition away waits until the state is no longer busy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum

from client.errors import KafkaError
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.fetch import PartitionData
from protocol.messages.offset_for_leader_epoch import EpochEndOffset
from replication import follower_log
from replication.fetch_state import FetchState
from replication.leader_endpoint import EARLIEST, LATEST, LeaderEndpoint
from replication.replication_quota import ReplicationQuota
from replication.truncation import Truncation, truncation_for
from storage.errors import LogDirIOError
from storage.log.leader_epoch_cache import UNDEFINED_EPOCH
from storage.log_manager import LogManager

logger = logging.getLogger(__name__)

NOT_YET = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The leader does not know yet that it is the leader, or of the topic: common for a moment after an election."""


class Outcome(Enum):
    """What happens next with the partition."""

    DONE = 0
    RETRY = 1
    FAILED = 2
    """Not fetched until the controller sends a new state."""


class FetchAnswers:
    """Processes the leader's answers."""

    def __init__(
        self,
        logs: LogManager,
        quota: ReplicationQuota,
        on_progress: Callable[[tuple[str, int]], None],
    ) -> None:
        """on_progress: called with a partition whose high watermark or log start offset has changed."""
        self._logs = logs
        self._quota = quota
        self._on_progress = on_progress

    def can_append(self, state: FetchState) -> bool:
        """Whether the log directory of the partition has room.

        A follower without room must not fetch: at the end of the log it would seem to be caught up, and rejoin the ISR.
        """
        return not self._logs.dirs.is_full(str(state.log.directory))

    async def take(
        self, state: FetchState, data: PartitionData, endpoint: LeaderEndpoint, is_current: Callable[[], bool]
    ) -> Outcome:
        """Process one answer. is_current: whether the state still applies; called after each wait."""
        code = data.error_code
        topic, partition = state.key
        try:
            if code == ErrorCode.NONE:
                diverging = data.diverging_epoch
                if diverging.epoch >= 0:
                    return await self._truncate(state, truncation_for(state.log, diverging.epoch, diverging.end_offset))
                return await self._append(state, data)
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return await self._start_elsewhere(state, endpoint, is_current)
        except ProtocolError as error:
            logger.error("%s-%d: the leader's records from %d on are bad: %s", topic, partition, state.offset, error)
            return Outcome.RETRY
        except LogDirIOError as error:
            logger.error("%s-%d cannot be written: %s", topic, partition, error)
            return Outcome.FAILED if error.is_fatal else Outcome.RETRY
        except Exception:
            logger.exception("%s-%d: the leader's answer could not be processed", topic, partition)
            return Outcome.FAILED
        return _outcome_of(state, code)

    async def truncate(self, state: FetchState, answer: EpochEndOffset | None) -> Outcome:
        """Truncate by the answer to OffsetForLeaderEpoch; None (the log has no epochs): to the high watermark."""
        log = state.log
        if answer is not None and answer.error_code:
            return _outcome_of(state, answer.error_code)
        truncation = (
            Truncation(log.high_watermark, True)
            if answer is None
            else truncation_for(log, answer.leader_epoch, answer.end_offset)
        )
        try:
            outcome = await self._truncate(state, truncation)
        except LogDirIOError as error:
            logger.error("%s-%d cannot be truncated: %s", *state.key, error)
            return Outcome.FAILED if error.is_fatal else Outcome.RETRY
        except Exception:
            logger.exception("%s-%d could not be truncated", *state.key)
            return Outcome.FAILED
        state.truncation_epoch = state.log.leader_epochs.latest_epoch
        state.is_truncating = not truncation.is_final and state.truncation_epoch != UNDEFINED_EPOCH
        return outcome

    async def _append(self, state: FetchState, data: PartitionData) -> Outcome:
        records = data.records
        if records:
            assert isinstance(records, bytes | bytearray | memoryview)
            state.begin_change()
            try:
                await follower_log.append(self._logs, state.log, records)
            finally:
                state.end_change()
                state.moved()
            size = len(records)
            state.partition.replicated_bytes_in += size
            if self._quota.applies_to(state.partition):
                self._quota.record(size)
        state.lag = max(0, data.high_watermark - state.offset)
        if follower_log.take_over(state.log, data.high_watermark, data.log_start_offset):
            self._on_progress(state.key)
        return Outcome.DONE

    async def _truncate(self, state: FetchState, truncation: Truncation) -> Outcome:
        log = state.log
        if truncation.offset < log.log_end_offset:
            logger.info(
                "%s-%d is truncated from %d to %d (epoch %d, high watermark %d)",
                *state.key,
                log.log_end_offset,
                truncation.offset,
                log.leader_epochs.latest_epoch,
                log.high_watermark,
            )
        if truncation.offset < log.high_watermark:
            logger.warning("%s-%d: the truncation removes committed records (unclean election?)", *state.key)
        state.begin_change()
        try:
            await self._logs.truncate_to(log, truncation.offset)
        finally:
            state.end_change()
            state.moved()
        return Outcome.DONE

    async def _start_elsewhere(
        self, state: FetchState, endpoint: LeaderEndpoint, is_current: Callable[[], bool]
    ) -> Outcome:
        """The follower's log end offset is not in the leader's log.

        If the follower's log is longer, truncate it: the leader was elected uncleanly, or has lost its log. If the
        leader has deleted the records that come next, start an empty log at the leader's log start offset.
        """
        try:
            leaders_end = await endpoint.offset(state.key, state.leader_epoch, LATEST)
            leaders_start = await endpoint.offset(state.key, state.leader_epoch, EARLIEST)
        except KafkaError as error:
            logger.info("%s-%d: the leader does not give its offsets yet: %s", *state.key, error)
            return Outcome.FAILED if error.code == ErrorCode.FENCED_LEADER_EPOCH else Outcome.RETRY
        if not is_current() or state.is_busy:
            return Outcome.DONE
        log = state.log
        end = log.log_end_offset
        logger.warning("%s-%d ends at %d, the leader has %d to %d", *state.key, end, leaders_start, leaders_end)
        if leaders_end < end:
            return await self._truncate(state, Truncation(leaders_end, True))
        if leaders_start > end:
            state.begin_change()
            try:
                await self._logs.truncate_fully_and_start_at(log, leaders_start)
            finally:
                state.end_change()
                state.moved()
        return Outcome.DONE


def _outcome_of(state: FetchState, code: int) -> Outcome:
    topic, partition = state.key
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        logger.info("%s-%d: leader epoch %d is fenced", topic, partition, state.leader_epoch)
        return Outcome.FAILED
    level = logging.DEBUG if code in NOT_YET else logging.INFO
    logger.log(level, "%s-%d: the leader refuses with error code %d", topic, partition, code)
    return Outcome.RETRY
