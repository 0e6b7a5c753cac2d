"""`zookeeper.connect`: hosts, ports, chroot."""

import pytest

from registry.errors import BadArgumentsError
from registry.zookeeper.address import ZooKeeperAddress


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("localhost", (("localhost", 2181),), ""),
        ("zk:2182", (("zk", 2182),), ""),
        ("a:1,b,c:3", (("a", 1), ("b", 2181), ("c", 3)), ""),
        ("a:1, b:2 /kafka", (("a", 1), ("b", 2)), "/kafka"),
        ("a:1,b:2/kafka/east", (("a", 1), ("b", 2)), "/kafka/east"),
        ("a:1/", (("a", 1),), ""),
        ("[::1]:2181,[fe80::2]", (("::1", 2181), ("fe80::2", 2181)), ""),
        ("10.0.0.1:2181", (("10.0.0.1", 2181),), ""),
    ],
)
def test_parse(text, servers, chroot):
    address = ZooKeeperAddress.parse(text)
    assert address == ZooKeeperAddress(servers, chroot)
    assert ZooKeeperAddress.parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "a,",
        "a:b",
        "a:1:2",
        "a:70000",
        "a:0",
        ":2181",
        "a:1/x/",
        "a:1//x",
        "a:1/x,b:2/x",
        "/kafka",
        "me@a",
        "a?b",
    ],
)
def test_invalid_addresses(text):
    with pytest.raises(BadArgumentsError):
        ZooKeeperAddress.parse(text)


def test_paths_under_a_chroot():
    address = ZooKeeperAddress.parse("a/kafka/east")
    assert [address.full(path) for path in ("/", "/a", "/a/b")] == ["/kafka/east", "/kafka/east/a", "/kafka/east/a/b"]
    assert [address.local(path) for path in ("/kafka/east", "/kafka/east/a")] == ["/", "/a"]
    plain = ZooKeeperAddress.parse("a")
    assert (plain.full("/"), plain.full("/a"), plain.local("/a")) == ("/", "/a", "/a")
