"""Planted bugs."""

from __future__ import annotations

from collections.abc import Callable

MUTATIONS: dict[str, Callable[[], None]] = {}
