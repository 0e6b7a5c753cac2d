"""A pool of workers that send mails over SMTP, each on a connection of its own."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from email.message import EmailMessage

from aiosmtplib import SMTP, SMTPDataError, SMTPException, SMTPNotSupported, SMTPRecipientsRefused

from examples.mail_alerts.alert_queue import AlertQueue, Waiting
from examples.mail_alerts.alert_store import AlertStore
from ottla import RateLimit

logger = logging.getLogger(__name__)

LONGEST_PAUSE_S = 30.0


class Mailer:
    """`run` takes alerts from the queue for ever. A row is there before a mail goes out, and says so afterwards; then
    the alert is acknowledged. Killed between any two of these steps, the next start goes on with it: at worst one mail
    more.

    `connect` makes an SMTP client that is not connected yet. `limit` is over mails, of all workers.
    """

    def __init__(
        self,
        queue: AlertQueue,
        store: AlertStore,
        *,
        connect: Callable[[], SMTP],
        sender: str,
        workers: int,
        limit: RateLimit,
    ) -> None:
        self._queue = queue
        self._store = store
        self._connect = connect
        self._sender = sender
        self._workers = workers
        self._limit = limit
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Have `run` return when the mails that are under way are sent."""
        self._stopping.set()

    async def run(self) -> None:
        """Send mails until `stop`."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        client = self._connect()
        try:
            while (waiting := await self._next()) is not None:
                await self._deal_with(client, waiting)
        finally:
            client.close()

    async def _next(self) -> Waiting | None:
        """None when it is time to stop."""
        taking = asyncio.create_task(self._queue.take())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((taking, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self._stopping.is_set():
            taking.cancel()
            return None  # what may just have been taken is not acknowledged, and comes again
        return taking.result()

    async def _deal_with(self, client: SMTP, waiting: Waiting) -> None:
        alert = waiting.alert
        if await self._store.begin(alert):
            try:
                message = alert.mail(self._sender)
                if not await self._send(client, message):
                    return  # stopping
            except (ValueError, SMTPException) as error:
                logger.error("%s refused: %s", alert.id, error)
                await self._store.end(alert, "refused", str(error))
            else:
                await self._store.end(alert, "sent")
        await waiting.acknowledgment.acknowledge()

    async def _send(self, client: SMTP, message: EmailMessage) -> bool:
        """Send it, however often the server is not there; False when it is time to stop. Raises what is final."""
        pause_s = 0.1
        while not self._stopping.is_set():
            await self._limit.take(1)
            try:
                if not client.is_connected:
                    await client.connect()
                await client.send_message(message)
            except SMTPException as error:
                if _is_final(error):
                    raise
                logger.warning("not sent, again in %.3g s: %s", pause_s, error)
                client.close()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            else:
                return True
        return False


def _is_final(error: SMTPException) -> bool:
    """Whether it is about this mail. A refused sender or password is about all of them, and is to be put right."""
    if isinstance(error, SMTPRecipientsRefused):
        return all(refused.code >= 500 for refused in error.recipients)
    return isinstance(error, SMTPNotSupported) or (isinstance(error, SMTPDataError) and error.code >= 500)
