"""The API keys, and the request and response class of each.

A class is imported at its first use, so that unused APIs do not slow down the start.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from protocol.errors import UnsupportedVersionError
from protocol.fields import ALWAYS as NEVER

if TYPE_CHECKING:
    from protocol.message import Message


class ApiKey(IntEnum):
    """The first 16 bits of a request."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69


FLEXIBLE_FROM: dict[int, int] = {
    0: 9,
    1: 12,
    2: 6,
    3: 9,
    4: 4,
    5: 2,
    6: 6,
    7: 3,
    8: 8,
    9: 6,
    10: 3,
    11: 6,
    12: 4,
    13: 4,
    14: 4,
    15: 5,
    16: 3,
    17: NEVER,
    18: 3,
    19: 5,
    20: 4,
    21: 2,
    22: 2,
    23: 4,
    24: 3,
    25: 3,
    26: 3,
    27: 1,
    28: 3,
    29: 2,
    30: 2,
    31: 2,
    32: 4,
    33: 2,
    34: 2,
    35: 2,
    36: 2,
    37: 2,
    38: 2,
    39: 2,
    40: 2,
    41: 2,
    42: 2,
    43: 2,
    44: 1,
    45: 0,
    46: 0,
    47: NEVER,
    48: 1,
    49: 1,
    50: 0,
    51: 0,
    56: 0,
    57: 0,
    58: 0,
    60: 0,
    61: 0,
    65: 0,
    66: 0,
    67: 0,
    68: 0,
    69: 0,
}
"""First flexible version of each API; decides the header versions. NEVER is above every version."""


@cache
def request_class(api_key: int) -> type[Message]:
    """Return the request's class; raises UnsupportedVersionError for an unknown key."""
    return _load(api_key, "Request")


@cache
def response_class(api_key: int) -> type[Message]:
    """Return the response's class; raises UnsupportedVersionError for an unknown key."""
    return _load(api_key, "Response")


def api_name(api_key: int) -> str:
    """Return Kafka's name, such as "AddOffsetsToTxn", or "unknown API 99"."""
    try:
        return "".join(map(str.capitalize, ApiKey(api_key).name.split("_")))
    except ValueError:
        return f"unknown API {api_key}"


def _load(api_key: int, suffix: str) -> type[Message]:
    try:
        key = ApiKey(api_key)
    except ValueError:
        raise UnsupportedVersionError(f"unknown API key {api_key}") from None
    module = import_module(f"{__package__}.messages.{key.name.lower()}")
    found: type[Message] = getattr(module, api_name(api_key) + suffix)
    return found
