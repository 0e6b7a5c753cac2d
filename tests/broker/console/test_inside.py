"""What a broker tells its own console."""

from __future__ import annotations

import json
from pathlib import Path

from support.console import ask, console_broker


async def test_the_session_names_the_broker_that_serves_the_console(tmp_path: Path) -> None:
    async with console_broker(tmp_path, {"broker.id": "7"}) as broker:
        assert json.loads((await ask(broker, "/api/v1/session")).text)["broker_id"] == 7
