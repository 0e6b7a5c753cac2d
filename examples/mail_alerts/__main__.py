"""`python -m examples.mail_alerts --help`."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import time
from pathlib import Path

from aiosmtplib import SMTP

from examples.mail_alerts.alert import Alert
from examples.mail_alerts.alert_queue import AlertQueue
from examples.mail_alerts.alert_store import AlertStore
from examples.mail_alerts.mailer import Mailer
from ottla import AckMode, Acknowledgment, Consumer, ConsumerRecord, ListenerContainer, RateLimit

logger = logging.getLogger("mail_alerts")

THREE_DAYS_MS = 3 * 24 * 3600 * 1000
PURGE_EVERY_S = 3600.0


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser("mail_alerts", description="Send the alerts of Kafka topics as mails.")
    parser.add_argument("topics", nargs="+", help="topics whose records are alerts")
    parser.add_argument(
        "--bootstrap-server",
        "-b",
        default=os.environ.get("OTTLA_BOOTSTRAP_SERVER", "127.0.0.1:9092"),
        metavar="HOST:PORT",
        help="a broker of the cluster; separate several with commas (default: OTTLA_BOOTSTRAP_SERVER, or %(default)s)",
    )
    parser.add_argument("--group", default="mail-alerts", help="consumer group")
    parser.add_argument("--instance", help="name of this process in the group: a restart then goes on at once")
    parser.add_argument("--smtp", default="127.0.0.1:25", help="mail server, host:port")
    parser.add_argument("--smtp-user", help="user there; the password is in the environment, MAIL_ALERTS_PASSWORD")
    parser.add_argument("--sender", default="alerts@localhost", help="who the mails are from")
    parser.add_argument("--database", type=Path, default=Path("alerts.sqlite"), help="file of the rows")
    parser.add_argument("--queue", type=int, default=100_000, help="alerts that wait at most")
    parser.add_argument("--workers", type=int, default=20, help="mails under way at once")
    parser.add_argument("--rate", type=float, default=200, help="mails a second at most")
    return parser.parse_args()


async def main(options: argparse.Namespace) -> None:
    """Run until SIGINT or SIGTERM."""
    host, _, port = options.smtp.rpartition(":")

    def connect() -> SMTP:
        return SMTP(
            hostname=host,
            port=int(port),
            username=options.smtp_user,
            password=os.environ.get("MAIL_ALERTS_PASSWORD"),
        )

    store = AlertStore(options.database, lambda: time.time_ns() // 1_000_000)
    queue = AlertQueue(options.queue)
    mailer = Mailer(
        queue,
        store,
        connect=connect,
        sender=options.sender,
        workers=options.workers,
        # A bucket of one token: mails leave evenly, and no second sees more of them than the rate.
        limit=RateLimit(records=options.rate, burst=1),
    )

    async def on_message(record: ConsumerRecord, acknowledgment: Acknowledgment) -> None:
        await queue.put(Alert.of(record), acknowledgment)

    consumer = Consumer(
        *options.topics,
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        group_instance_id=options.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    consumer.rebalance_listener = queue
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with consumer:
        container = ListenerContainer(
            consumer, on_message, ack_mode=AckMode.MANUAL, queue_size=options.queue, drain_timeout_s=5
        )
        await run_until(stopping, container, mailer, store)
    await store.close()


async def run_until(stopping: asyncio.Event, container: ListenerContainer, mailer: Mailer, store: AlertStore) -> None:
    """Run all parts until one of them fails or `stopping` is set; what is under way ends first."""
    parts = {
        asyncio.create_task(container.run(), name="container"),
        asyncio.create_task(mailer.run(), name="mailer"),
        asyncio.create_task(purge_now_and_then(store), name="purge"),
        asyncio.create_task(stopping.wait(), name="stopping"),
    }
    done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    mailer.stop()
    for part in parts - done:
        if part.get_name() == "mailer":
            await asyncio.wait({part})
    with contextlib.suppress(Exception):  # it is in its task, too
        await container.stop()
    for part in parts:
        part.cancel()
    await asyncio.wait(parts)
    for part in done:
        part.result()


async def purge_now_and_then(store: AlertStore) -> None:
    """Rows are kept for three days."""
    while True:
        logger.info("%d old rows deleted", await store.purge(THREE_DAYS_MS))
        await asyncio.sleep(PURGE_EVERY_S)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(main(arguments()))
