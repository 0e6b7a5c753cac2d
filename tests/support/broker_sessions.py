"""Ends a broker's ZooKeeper session as if it had timed out, without waiting for the timeout."""

from pathlib import Path

from broker.cluster.registry_access import SESSION_FILE, SessionToken
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.session import end_session


def session_of(log_dir: Path) -> tuple[int, bytes]:
    """Id and password of the session of the broker that has this log directory, from the token that it keeps there."""
    token = SessionToken.decode((log_dir / SESSION_FILE).read_bytes())
    assert token is not None
    return token


async def expire_session(connect: str, log_dir: Path) -> None:
    """End this session."""
    assert await end_session(ZooKeeperAddress.parse(connect), session_of(log_dir), 10_000)
