"""The addresses that a broker tells others to use."""

import socket
import threading

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from support.broker import settings


async def test_the_host_name_is_looked_up_once_and_off_the_event_loop(tmp_path, monkeypatch):
    asked = []

    def getfqdn():
        asked.append(threading.current_thread())
        return "localhost"

    monkeypatch.setattr(socket, "getfqdn", getfqdn)
    overrides = {"listeners": "PLAINTEXT://:0", "advertised.listeners": "PLAINTEXT://:0"}
    async with Broker(BrokerConfig.load(None, settings(tmp_path / "data") | overrides)) as broker:
        for _ in range(3):
            assert broker.bootstrap_servers == f"localhost:{broker.acceptors['PLAINTEXT'].port}"
    assert len(asked) == 1
    assert threading.main_thread() not in asked
