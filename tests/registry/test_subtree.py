"""Nodes are deleted with everything below them."""

from registry.subtree import delete_subtree


async def test_only_this_subtree_is_deleted(registry):
    for path in ("/a", "/a/b", "/a/b/c", "/a/d", "/ab"):
        await registry.create(path, b"")
    await registry.create("/a/e", b"", ephemeral=True)
    await delete_subtree(registry, "/a")
    assert await registry.exists("/a") is None
    assert await registry.exists("/ab") is not None


async def test_a_node_that_does_not_exist(registry):
    await delete_subtree(registry, "/none")
