"""The connections that brokers of one process have opened."""

from __future__ import annotations

import asyncio

from ottla.testing.faults.openers import LocalOpeners

HOST = "127.0.0.1"


class Opened(asyncio.Transport):
    """The opener's end of a connection."""

    def __init__(self, port: int, to_port: int) -> None:
        super().__init__({"sockname": (HOST, port), "peername": (HOST, to_port)})
        self.is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed


def test_a_client_may_have_the_local_port_of_a_broker() -> None:
    openers = LocalOpeners()
    openers.opened(1, Opened(4000, 9092))
    assert openers.find(HOST, 4000, 9092) == 1
    assert openers.find(HOST, 4000, 9093) is None  # a client that is connected to another broker
    openers.opened(2, Opened(4000, 9094))  # and so is another broker
    assert [openers.find(HOST, 4000, port) for port in (9092, 9093, 9094)] == [1, None, 2]


def test_a_connection_that_is_closed_is_nobodys() -> None:
    openers, opened = LocalOpeners(), Opened(4000, 9092)
    openers.opened(1, opened)
    opened.is_closed = True
    assert openers.find(HOST, 4000, 9092) is None
