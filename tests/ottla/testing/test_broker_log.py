"""The log of the brokers of `ottla.testing`: what it takes from the loggers, and how it leaves them."""

import logging

import pytest

from ottla.testing.broker_log import PACKAGES, BrokerLog
from ottla.testing.servers import ServerOptions, Servers
from storage.setting import ConfigError

LOGGER = logging.getLogger(PACKAGES[0])


def state():
    return LOGGER.level, LOGGER.propagate, LOGGER.handlers.copy(), "addHandler" in vars(LOGGER)


def test_a_log_that_ends_leaves_the_one_that_was_attached_before():
    """A shared broker of the session, and `ottla testing run` in the same process."""
    at_first = state()
    outer, inner = BrokerLog(), BrokerLog(logging.CRITICAL)
    outer.attach()
    attached = state()
    inner.attach()
    LOGGER.critical("both have this")
    LOGGER.warning("only the outer one may have this, and its level is that of the inner one")
    inner.detach()
    assert state() == attached
    LOGGER.info("the outer one has this")
    outer.detach()
    assert state() == at_first
    assert "both have this" in inner.text()
    assert [line.split(": ")[1] for line in outer.text().splitlines()] == ["both have this", "the outer one has this"]


def test_handlers_that_are_added_meanwhile_get_nothing():
    log, handler = BrokerLog(), logging.NullHandler()
    log.attach()
    LOGGER.addHandler(handler)
    assert handler not in LOGGER.handlers
    log.detach()


def test_servers_that_do_not_start_leave_the_loggers_as_they_were():
    at_first = state()
    servers = Servers(ServerOptions(settings={"num.partitions": "x"}))
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"num\.partitions"):
            servers.broker()
    servers.close()
    assert state() == at_first
