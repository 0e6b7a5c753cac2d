"""A headless Chromium, driven by chromedriver over the W3C WebDriver protocol.

Asynchronous, so that the broker that it looks at can live in the same event loop: that is why this is not selenium.
"""

import asyncio
import base64
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.deadlines import DEADLINE_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
)


class BrowserError(Exception):
    """What chromedriver answered instead of a value."""


def require_browser() -> None:
    """Skip the test where there is no browser; with CI=true, fail it."""
    if CHROMIUM and CHROMEDRIVER:
        return
    reason = "chromium and chromedriver are needed (Debian: apt install chromium chromium-driver)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Browser:
    """One session of a browser."""

    def __init__(self, http: aiohttp.ClientSession, session_url: str) -> None:
        self._http = http
        self._session_url = session_url

    async def open(self, url: str) -> None:
        """Load a page."""
        await self._call("POST", "/url", {"url": url})

    async def run(self, script: str, *arguments: object) -> Any:
        """The value that the body of a JavaScript function returns."""
        return await self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    async def wait_for(self, script: str, *arguments: object) -> Any:
        """Run a script until it returns something true; AssertionError after a while."""
        deadline_s = asyncio.get_running_loop().time() + DEADLINE_S
        while not (value := await self.run(script, *arguments)):
            if asyncio.get_running_loop().time() > deadline_s:
                text = await self.run("return document.body.innerText")
                raise AssertionError(f"never true in {DEADLINE_S} s: {script}\nThe page says:\n{text}")
            await asyncio.sleep(0.05)
        return value

    async def view(self, width: int, height: int, scheme: str = "light") -> None:
        """Look from a device of this width, with `prefers-color-scheme` light or dark."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self._devtools("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self._devtools("Emulation.setEmulatedMedia", {"features": features})

    async def screenshot(self) -> bytes:
        """The whole page as PNG."""
        answer = await self._devtools("Page.captureScreenshot", {"captureBeyondViewport": True})
        return base64.b64decode(answer["data"])

    async def problems(self) -> list[str]:
        """What the browser logged as an error since the last call: uncaught exceptions, refused resources."""
        entries = await self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    async def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return await self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    async def _call(self, method: str, path: str, body: dict[str, Any]) -> Any:
        async with self._http.request(method, self._session_url + path, json=body) as response:
            value = (await response.json())["value"]
        if response.status != 200:
            raise BrowserError(f"{value['error']}: {value['message']}")
        return value


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Browser]:
    """A browser with a profile directory of its own."""
    assert CHROMIUM
    assert CHROMEDRIVER
    driver = await asyncio.create_subprocess_exec(
        CHROMEDRIVER, "--port=0", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert driver.stdout is not None
        port = 0
        while not port:
            line = (await driver.stdout.readline()).decode()
            assert line, "chromedriver ended"
            if "started successfully on port" in line:
                port = int(line.rstrip().rstrip(".").rsplit(" ", 1)[1])
        capabilities = {
            "goog:chromeOptions": {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        async with aiohttp.ClientSession() as http:
            base = f"http://127.0.0.1:{port}/session"
            async with http.post(base, json={"capabilities": {"alwaysMatch": capabilities}}) as response:
                answer = (await response.json())["value"]
            if response.status != 200:
                raise BrowserError(answer["message"])
            session_url = f"{base}/{answer['sessionId']}"
            try:
                yield Browser(http, session_url)
            finally:
                async with http.delete(session_url):
                    pass
    finally:
        driver.terminate()
        await driver.communicate()
