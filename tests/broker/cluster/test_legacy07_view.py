"""The view of Kafka 0.7's tree when there is no session, and in place of what others wrote there."""

import asyncio
from contextlib import suppress

from broker.cluster.legacy07_view import Legacy07View
from broker.cluster.metadata_cache import MetadataCache
from client.wire.backoff import Backoff
from registry.embedded.session import EmbeddedRegistry
from registry.embedded.store import EmbeddedStore
from registry.errors import SessionExpiredError
from support.polling import until


def view_with(registry: EmbeddedRegistry) -> Legacy07View:
    return Legacy07View(
        3,
        chroot="/old",
        host="h",
        port=9092,
        registry=registry,
        metadata=MetadataCache(),
        now_ms=lambda: 1,
        backoff=Backoff(1, 5),
    )


async def test_the_view_is_published_in_the_next_session_and_replaces_existing_nodes(caplog):
    caplog.set_level("INFO", "broker.cluster.legacy07_view")
    store = await EmbeddedStore.open()
    registry, other = store.session(), store.session()
    await registry.start()
    await other.start()
    await other.create("/old/brokers/ids/3", b"somebody's mistake", make_parents=True)
    await registry.expire()
    view = view_with(registry)
    publishing = asyncio.create_task(view.run())
    await until(lambda: "is not up to date" in caplog.text, "it has tried")
    await registry.start()
    await until(
        lambda: (node := store.tree.nodes.get("/old/brokers/ids/3")) and node.data == b"h-1:h:9092", "it is published"
    )
    await registry.expire()
    await until(lambda: "/old/brokers/ids/3" not in store.tree.nodes, "it goes with its session")
    await registry.start()
    await until(lambda: "/old/brokers/ids/3" in store.tree.nodes, "and comes back with the next")
    publishing.cancel()
    await asyncio.gather(publishing, return_exceptions=True)
    await store.close()


async def test_a_session_begins_during_the_first_attempt():
    """The folders are missing then, and the next session finds the view at work."""
    store = await EmbeddedStore.open()
    registry = store.session()
    await registry.start()
    await registry.expire()
    view = view_with(registry)
    publishing = asyncio.create_task(view.publish(view._metadata.snapshot))
    await asyncio.sleep(0)
    await registry.start()
    with suppress(SessionExpiredError):
        await publishing
    await view.publish(view._metadata.snapshot)
    assert store.tree.nodes["/old/brokers/ids/3"].data == b"h-1:h:9092"
    await store.close()


async def test_a_persistent_node_is_never_mistaken_for_a_node_of_this_broker():
    """A session may begin while a part of the view is about to be written that was begun without one."""
    store = await EmbeddedStore.open()
    registry = store.session()
    view = view_with(registry)
    await registry.start()
    path = "/old/brokers/ids/3"
    await registry.create(path, b"somebody's mistake", make_parents=True)
    await view._put(path, b"ours")
    node = store.tree.nodes[path]
    assert (node.data, node.ephemeral_owner) == (b"ours", registry.session_id)
    await store.close()
