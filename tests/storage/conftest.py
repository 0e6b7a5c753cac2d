"""What tests of moves between log directories begin with, and quiet for those that recover logs by the thousand."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.log_move import Move, let_go


@pytest.fixture
def quiet_storage() -> Iterator[None]:
    """Nothing of what storage logs: pytest would keep every line."""
    logging.getLogger("storage").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("storage").setLevel(logging.NOTSET)


@pytest.fixture
async def move(tmp_path: Path) -> AsyncIterator[Move]:
    """A log whose copy the test begins."""
    made = await Move(tmp_path).start()
    yield made
    let_go(made.logs)
