"""A consumer's pulse needs no broker, and stops with the main thread of librdkafka."""

from confluent_kafka import Consumer

from support.polling import until_blocking
from support.pulse import STOPPED_S, Pulse, give_up


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def test_a_consumer_without_a_broker_has_a_pulse():
    clock = Clock()
    pulse = Pulse(clock)
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, **pulse.settings})
    clock.now_s += STOPPED_S + 1
    assert pulse.has_stopped

    def beats():
        consumer.poll(0.1)
        return not pulse.has_stopped

    until_blocking(beats, "librdkafka tells its statistics")
    consumer.close()


def test_a_consumer_that_tells_nothing_has_no_pulse():
    clock = Clock()
    pulse = Pulse(clock)
    clock.now_s += STOPPED_S
    assert not pulse.has_stopped
    clock.now_s += 0.1
    assert pulse.has_stopped


def test_a_consumer_that_is_given_up_is_not_freed():
    freed = []

    class Kept(Consumer):
        def __del__(self):
            freed.append(True)

    for gives_up in (True, False):
        consumer = Kept({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
        if gives_up:
            consumer.close()
            give_up(consumer)
        del consumer
        assert len(freed) == (0 if gives_up else 1)
