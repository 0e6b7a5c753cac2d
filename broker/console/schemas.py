"""The schema registry of the console, from its settings. This module imports aiohttp."""

from __future__ import annotations

from broker.settings.config import BrokerConfig
from console.decoding.schema_cache import SchemaCache


def schema_cache(config: BrokerConfig) -> SchemaCache:
    """Return the schemas that the console may use."""
    user_info = config.ottla_console_schema_registry_basic_auth_user_info
    return SchemaCache(config.ottla_console_schema_registry_url, user_info or None)
