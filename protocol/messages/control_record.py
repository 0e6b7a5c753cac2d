"""Key and value of control records, as they stand in a batch with the control bit; the version is the
first field.

The key's type is 0 for abort, 1 for commit; the value is written by the transaction coordinator.
"""

from __future__ import annotations

from protocol.fields import int16, int32
from protocol.message import Message


class ControlRecordKey(Message, versions="0"):
    version: int = int16("0+")
    type: int = int16("0+")


class EndTxnMarker(Message, versions="0"):
    version: int = int16("0+")
    coordinator_epoch: int = int32("0+")
