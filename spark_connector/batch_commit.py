"""The driver's part of exactly once: decide a batch, then end its transactions. The reasons are in
`spark_connector.transactional_delivery`.
"""

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from client.admin.admin import Admin
from client.admin.types import TransactionDescription
from client.errors import KafkaError, UnsupportedApiError
from client.producer.prepared_transaction import PreparedTransaction
from protocol.error_codes import ErrorCode
from spark_connector.commit_ledger import CommitLedger, Decision, shared_options
from spark_connector.errors import BatchError
from spark_connector.retry import retry

log = logging.getLogger(__name__)
_ONGOING: Final = "Ongoing"
_DELIVERY_TIMEOUT_MS: Final = 120_000  # a producer's default


async def commit_batch(
    client: Mapping[str, Any], prefix: str, query: str, batch: int, transactions: Sequence[PreparedTransaction]
) -> None:
    """Make a batch visible that its tasks have written in `transactions`, unless it was committed before.

    client: options of a producer. Raises BatchError, ProducerFencedError if another driver has taken over, and the
    cluster's errors: then the batch has to be run again.
    """
    decision = Decision(query, batch, tuple(transactions))
    timeout_s = client.get("delivery_timeout_ms", _DELIVERY_TIMEOUT_MS) / 1000
    await retry(lambda: _commit(client, prefix, decision), timeout_s=timeout_s)


async def _commit(client: Mapping[str, Any], prefix: str, wanted: Decision) -> None:
    """Make one attempt from the beginning; it detects what an earlier attempt has done."""
    async with Admin(**shared_options(client)) as admin, CommitLedger(client, prefix, admin) as ledger:
        last = await ledger.last()
        if last is not None and await _counts(admin, last, wanted):
            leftover = [one for one in wanted.transactions if one not in last.transactions]
            await admin.end_transactions(leftover, commit=False)
            return
        others = await _check_open(admin, prefix, wanted.transactions)
        if wanted.transactions:
            await ledger.write(wanted)
            if await _finish(admin, wanted):
                raise BatchError(f"all transactions of batch {wanted.batch} were aborted: the batch must be run again")
        await admin.end_transactions(others, commit=False)


async def abort_batch(client: Mapping[str, Any], prefix: str) -> None:
    """Abort open transactions without a decision. A failure is logged: a timeout or the next commit aborts them."""
    try:
        async with Admin(**shared_options(client)) as admin, CommitLedger(client, prefix, admin) as ledger:
            last = await ledger.last()
            decided = set() if last is None else set(last.transactions)
            found = await _open_transactions(admin, prefix)
            await admin.end_transactions([one for one in found if one not in decided], commit=False)
    except KafkaError as error:
        log.warning("transactions of %s are not aborted yet: %s", prefix, error)


async def _counts(admin: Admin, last: Decision, wanted: Decision) -> bool:
    """Whether the batch was decided before. A decision that may be unfinished is finished."""
    if last.query != wanted.query:
        # Of another checkpoint or another job, which will not check it again.
        try:
            await _finish(admin, last)
        except BatchError as error:
            log.info("%s", error)
        return False
    if last.batch == wanted.batch:
        return not await _finish(admin, last)
    return last.batch > wanted.batch


async def _finish(admin: Admin, decision: Decision) -> bool:
    """Commit a decision's transactions. Return True if all were aborted, so that nothing is visible. Raises BatchError
    if some were aborted, or if the outcome is unknown.
    """
    results = await admin.end_transactions(decision.transactions, commit=True)
    failed = {one: error for one, error in results.items() if error is not None}
    if not failed:
        return False
    aborted = all(error.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE) for error in failed.values())
    if aborted and len(failed) == len(results):
        return True
    reasons = "; ".join(f"{one.transactional_id}: {error}" for one, error in list(failed.items())[:3])
    raise BatchError(
        f"batch {decision.batch} of query {decision.query} is visible in part: {len(failed)} of its {len(results)} "
        f"transactions could not be committed after the decision, most likely because they timed out ({reasons}). With "
        "another transactionalIdPrefix the whole batch is written again; its visible part is then there twice"
    )


async def _check_open(
    admin: Admin, prefix: str, transactions: Collection[PreparedTransaction]
) -> list[PreparedTransaction]:
    """Other open transactions of this prefix. Raises BatchError unless all of `transactions` are open."""
    try:
        found = await _open_transactions(admin, prefix, [one.transactional_id for one in transactions])
    except UnsupportedApiError:
        return []  # before Kafka 3.0 the end of a transaction reports the error
    missing = [one for one in transactions if one not in found]
    if missing:
        names = ", ".join(one.transactional_id for one in missing[:3])
        raise BatchError(
            f"{len(missing)} of {len(transactions)} transactions of the batch are no longer open ({names}): the batch "
            "took longer than kafka.transaction.timeout.ms, or another query has the same transactionalIdPrefix. "
            "Nothing of the batch is visible"
        )
    own = set(transactions)
    return [one for one in found if one not in own]


async def _open_transactions(admin: Admin, prefix: str, names: Iterable[str] = ()) -> set[PreparedTransaction]:
    """The open transactions of a prefix's tasks, and those of `names`."""
    of_task = re.compile(re.escape(prefix) + r"-[0-9a-f]{12}-\d+-\d+")
    listed = await admin.list_transactions(states=[_ONGOING])
    ids = {one.transactional_id for one in listed if of_task.fullmatch(one.transactional_id)}
    described = await admin.describe_transactions(sorted(ids | set(names)))
    return {
        PreparedTransaction(one.transactional_id, one.producer_id, one.producer_epoch)
        for one in described.values()
        if isinstance(one, TransactionDescription) and one.state == _ONGOING
    }
