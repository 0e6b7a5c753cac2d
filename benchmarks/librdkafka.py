"""The smallest ctypes view of librdkafka that can load a broker at C speed.

confluent-kafka's Python calls cost about a microsecond a message: the load generator would be the limit. The
wheel carries librdkafka itself, so the loops that touch every message run in there: `rd_kafka_produce_batch`
takes 100,000 messages a call, and `rd_kafka_consume_callback_queue` calls a C function (libc's `labs`, which
does nothing with its one integer argument) for every message. No compiler, no system package is needed.
"""

from __future__ import annotations

import ctypes
import json
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka

FLAG_BLOCK = 0x4
FLAG_PARTITION = 0x8
PRODUCER, CONSUMER = 0, 1
# struct rd_kafka_message_s: err, topic, partition, payload, length, key, key length, offset, private
MESSAGE = struct.Struct("@iPiPnPnqP")

_ERROR_TEXT = 512
_stats_callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_void_p
)
_delivery_callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p)


def _load() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    places = [package.parent / "confluent_kafka.libs", package / ".dylibs"]
    found = [path for place in places if place.is_dir() for path in sorted(place.glob("librdkafka*"))]
    if not found:
        raise SystemExit("benchmarks: the installed confluent-kafka carries no librdkafka (is it a wheel?)")
    library = ctypes.CDLL(str(found[0]))
    pointer, text, integer = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "version_str": (text, []),
        "conf_new": (pointer, []),
        "conf_set": (integer, [pointer, text, text, ctypes.c_char_p, ctypes.c_size_t]),
        "conf_set_stats_cb": (None, [pointer, _stats_callback]),
        "conf_set_dr_msg_cb": (None, [pointer, _delivery_callback]),
        "new": (pointer, [integer, pointer, ctypes.c_char_p, ctypes.c_size_t]),
        "destroy": (None, [pointer]),
        "topic_new": (pointer, [pointer, text, pointer]),
        "topic_destroy": (None, [pointer]),
        "produce_batch": (integer, [pointer, ctypes.c_int32, integer, pointer, integer]),
        "flush": (integer, [pointer, integer]),
        "poll": (integer, [pointer, integer]),
        "outq_len": (integer, [pointer]),
        "queue_new": (pointer, [pointer]),
        "queue_destroy": (None, [pointer]),
        "consume_start_queue": (integer, [pointer, ctypes.c_int32, ctypes.c_int64, pointer]),
        "consume_stop": (integer, [pointer, ctypes.c_int32]),
        "consume_callback_queue": (integer, [pointer, integer, pointer, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()
_libc = ctypes.CDLL(None)
VERSION: str = _library.rd_kafka_version_str().decode()


class Handle:
    """One librdkafka instance and one topic of it; `statistics` is its newest report (see STATISTICS.md)."""

    def __init__(self, kind: int, topic: str, settings: Mapping[str, str | int | float]) -> None:
        self.statistics: dict[str, Any] = {}
        self.failed = 0
        error = ctypes.create_string_buffer(_ERROR_TEXT)
        conf = _library.rd_kafka_conf_new()
        for name, value in {"statistics.interval.ms": 200, **settings}.items():
            if _library.rd_kafka_conf_set(conf, name.encode(), str(value).encode(), error, _ERROR_TEXT):
                raise ValueError(f"{name}={value}: {error.value.decode()}")
        # Kept as attributes: librdkafka holds the bare pointers.
        self._on_stats = _stats_callback(self._statistics_arrived)
        _library.rd_kafka_conf_set_stats_cb(conf, self._on_stats)
        self._on_delivery = _delivery_callback(self._delivery_failed)
        if kind == PRODUCER:
            _library.rd_kafka_conf_set(conf, b"delivery.report.only.error", b"true", error, _ERROR_TEXT)
            _library.rd_kafka_conf_set_dr_msg_cb(conf, self._on_delivery)
        self._handle = _library.rd_kafka_new(kind, conf, error, _ERROR_TEXT)
        if not self._handle:
            raise RuntimeError(error.value.decode())
        self._topic = _library.rd_kafka_topic_new(self._handle, topic.encode(), None)

    def _statistics_arrived(self, _handle: int, text: Any, length: int, _opaque: int) -> int:
        self.statistics = json.loads(ctypes.string_at(text, length))
        return 0

    def _delivery_failed(self, _handle: int, _message: Any, _opaque: int) -> None:
        self.failed += 1

    def poll(self, timeout_ms: int = 0) -> None:
        _library.rd_kafka_poll(self._handle, timeout_ms)

    def fresh_statistics(self, complete: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first report for which `complete` holds, or the newest one after two seconds."""
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            self.poll(50)
            if self.statistics and complete(self.statistics):
                break
        return self.statistics

    def close(self) -> None:
        _library.rd_kafka_topic_destroy(self._topic)
        _library.rd_kafka_destroy(self._handle)


class Producer(Handle):
    """Hands whole arrays to librdkafka; payloads are not copied, so `Messages` must outlive the flush."""

    def __init__(self, topic: str, settings: Mapping[str, str | int | float]) -> None:
        super().__init__(PRODUCER, topic, settings)

    def produce(self, messages: Messages, count: int) -> None:
        """Blocks while the queue is full. The first `count` messages of the array are sent."""
        sent = _library.rd_kafka_produce_batch(self._topic, 0, FLAG_BLOCK | FLAG_PARTITION, messages.address, count)
        if sent != count:
            raise RuntimeError(f"librdkafka took {sent} of {count} messages")
        self.poll()

    def flush(self, timeout_ms: int = 120_000) -> None:
        if _library.rd_kafka_flush(self._handle, timeout_ms):
            raise TimeoutError(f"{_library.rd_kafka_outq_len(self._handle)} messages were not delivered")
        if self.failed:
            raise RuntimeError(f"{self.failed} messages failed")


class Consumer(Handle):
    """Reads partitions from offset 0 without a group and drops the messages inside librdkafka."""

    def __init__(self, topic: str, partitions: int, settings: Mapping[str, str | int | float]) -> None:
        super().__init__(CONSUMER, topic, settings)
        self._queue = _library.rd_kafka_queue_new(self._handle)
        self._partitions = partitions
        for partition in range(partitions):
            _library.rd_kafka_consume_start_queue(self._topic, partition, 0, self._queue)

    def consume(self, count: int, timeout_s: float) -> float:
        """Returns when `count` messages arrived: the monotonic time at which the first ones had."""
        ignore = ctypes.cast(_libc.labs, ctypes.c_void_p)
        deadline = time.monotonic() + timeout_s
        seen, first = 0, 0.0
        while seen < count:
            seen += _library.rd_kafka_consume_callback_queue(self._queue, 100, ignore, None)
            if seen and not first:
                first = time.monotonic()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{seen} of {count} messages arrived in {timeout_s:.0f} s")
        return first

    def close(self) -> None:
        for partition in range(self._partitions):
            _library.rd_kafka_consume_stop(self._topic, partition)
        _library.rd_kafka_queue_destroy(self._queue)
        super().close()


class Messages:
    """An array of rd_kafka_message_t over one payload buffer, partitions taking turns."""

    def __init__(self, payload: bytes, size: int, count: int, partitions: int) -> None:
        self._payload = ctypes.create_string_buffer(payload, len(payload))
        start = ctypes.addressof(self._payload)
        slots = len(payload) // size
        self._array = bytearray(MESSAGE.size * count)
        for index in range(count):
            MESSAGE.pack_into(
                self._array,
                index * MESSAGE.size,
                *(0, 0, index % partitions, start + index % slots * size, size, 0, 0, 0, 0),
            )
        self._pinned = (ctypes.c_char * len(self._array)).from_buffer(self._array)
        self.address = ctypes.addressof(self._pinned)
