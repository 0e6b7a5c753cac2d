"""Change notifications: which are processed, in which order, and what happens if one cannot be."""

import asyncio
import contextlib
import random

import pytest

from broker.change_notifications import NOTIFICATION_LIFETIME_MS, ChangeNotifications
from client.wire.backoff import Backoff
from registry.embedded.store import EmbeddedStore
from registry.errors import BadArgumentsError, ConnectionLossError, NoAuthError, ZnodeFormatError
from support.polling import until

FOLDERS = ("/one", "/two")


class Changes:
    """A registry with two folders of notifications, and what a follower has read from them."""

    def __init__(self):
        self.now_ms = 1_000_000
        self.loaded = []
        self.failures = {}

    @contextlib.asynccontextmanager
    async def open(self):
        store = await EmbeddedStore.open(now_ms=lambda: self.now_ms)
        self.registry = store.session()
        await self.registry.start()
        for folder in FOLDERS:
            await self.registry.create(folder)
        folders = dict.fromkeys(FOLDERS, self.load)
        backoff = Backoff(1, 1, random.Random(1))
        self.notifications = ChangeNotifications(self.registry, folders, "tests", lambda: self.now_ms, backoff)
        yield self
        await self.registry.close()
        await store.close()

    @contextlib.asynccontextmanager
    async def followed(self):
        running = asyncio.create_task(self.notifications.run())
        yield
        assert not running.done()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    async def load(self, data, path):
        failures = self.failures.get(data, [])
        if failures:
            raise failures.pop(0)
        self.loaded.append(data)

    async def add(self, data, folder="/one"):
        return await self.registry.create(f"{folder}/change_", data, sequence=True)


@pytest.fixture
async def changes():
    async with Changes().open() as opened:
        yield opened


async def test_each_folder_is_followed_in_order_and_each_notification_is_processed_once(changes):
    await changes.add(b"1")
    await changes.add(b"2")
    async with changes.followed():
        await until(lambda: changes.loaded == [b"1", b"2"], "both are processed")
        await changes.add(b"3", "/two")
        await until(lambda: changes.loaded == [b"1", b"2", b"3"], "that of the other folder, and none again")


async def test_skipped_notifications_are_not_processed(changes):
    await changes.add(b"1")
    await changes.notifications.skip()
    await changes.add(b"2")
    async with changes.followed():
        await until(lambda: changes.loaded == [b"2"], "only the later one is processed")


async def test_old_notifications_are_deleted(changes):
    old = await changes.add(b"old")
    await changes.notifications.skip()
    changes.now_ms += 1
    young = await changes.add(b"young")
    changes.now_ms += NOTIFICATION_LIFETIME_MS
    async with changes.followed():
        await until(lambda: changes.loaded == [b"young"], "the young one is processed")
    assert await changes.registry.exists(old) is None
    assert await changes.registry.exists(young) is not None


@pytest.mark.parametrize(
    "error", [ZnodeFormatError("/one/change", "it is not valid"), BadArgumentsError("no such path")], ids=repr
)
async def test_a_notification_that_is_not_valid_is_ignored(changes, caplog, error):
    changes.failures[b"bad"] = [error]
    await changes.add(b"bad")
    await changes.add(b"good")
    async with changes.followed():
        await until(lambda: changes.loaded == [b"good"], "the next one is processed")
    assert caplog.text.count("a change of tests is ignored, the state before it stays in force") == 1


async def test_a_notification_is_processed_again_after_a_failure_of_the_registry(changes, caplog):
    changes.failures[b"1"] = [ConnectionLossError("the connection is lost")] * 2
    await changes.add(b"1")
    await changes.add(b"2")
    async with changes.followed():
        await until(lambda: changes.loaded == [b"1", b"2"], "both are processed")
    assert caplog.text.count("changes of tests cannot be read: the connection is lost") == 2


async def test_a_change_that_may_not_be_read_does_not_stop_the_others(changes, caplog):
    changes.failures[b"secret"] = [NoAuthError("no permission")] * 9
    await changes.add(b"secret")
    await changes.add(b"open")
    async with changes.followed():
        await until(lambda: changes.loaded == [b"open"], "the next one is processed")
    assert caplog.text.count("no permission; give this broker the login to ZooKeeper") == 1


async def test_notifications_that_may_not_be_deleted_do_not_stop_changes(changes, caplog, monkeypatch):
    async def delete(path):
        raise NoAuthError("no permission")

    monkeypatch.setattr(changes.registry, "delete", delete)
    for data in (b"1", b"2"):
        await changes.add(data)
    changes.now_ms += NOTIFICATION_LIFETIME_MS + 1
    async with changes.followed():
        await until(lambda: changes.loaded == [b"1", b"2"], "expired ones are processed, too")
        await changes.add(b"3")
        await until(lambda: changes.loaded == [b"1", b"2", b"3"], "a later one is processed")
    assert caplog.text.count("expired changes of tests cannot be deleted: no permission") == 1
