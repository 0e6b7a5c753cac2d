"""Set or remove client quotas (KIP-546)."""

from __future__ import annotations

from protocol.fields import array, boolean, float64, int16, int32, string
from protocol.message import Message


class EntityData(Message):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class OpData(Message):
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class EntryData(Message):
    entity: list[EntityData] = array(EntityData, "0+")
    ops: list[OpData] = array(OpData, "0+")


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    entries: list[EntryData] = array(EntryData, "0+")
    validate_only: bool = boolean("0+")


class ResponseEntityData(Message):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class ResponseEntryData(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entity: list[ResponseEntityData] = array(ResponseEntityData, "0+")


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32("0+")
    entries: list[ResponseEntryData] = array(ResponseEntryData, "0+")
