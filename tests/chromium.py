"""A headless chromium that is spoken to through a pipe: what a page asks for, what it complains about, how it lies."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One tab. `requests`: the addresses that were asked for; `complaints`: all that the console shows."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM is not None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._count = 0
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        # The protocol's ends are the descriptors 3 and 4; a shell can place them without racing with other descriptors.
        words = [PROGRAM, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        script = f'exec 8<&{theirs_in} 9>&{theirs_out}; exec "$@" 3<&8 4>&9 8<&- 9>&-'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "browser", *words],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(profile)},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._left = b""
        self._events: list[dict[str, Any]] = []
        (target,) = [one for one in self._send("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self._send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = str(attached["sessionId"])
        for domain in ("Page", "Network", "Log", "Runtime", "Audits", "Accessibility"):
            self(f"{domain}.enable")

    _session = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._to)
        self._process.kill()
        self._process.wait()
        os.close(self._from)

    def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for one thing of the protocol."""
        return self._send(method, **parameters)

    def open(self, page: Path, *, width: int = 1200, is_dark: bool = False, media: str = "screen") -> None:
        """Show a file, and wait until all of it is there."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._events.clear()
        self("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._read()

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript comes to on the page."""
        return self("Runtime.evaluate", expression=expression, returnByValue=True)["result"]["value"]

    def picture(self, target: Path) -> None:
        """The whole page as a PNG."""
        shot = self("Page.captureScreenshot", captureBeyondViewport=True)
        target.write_bytes(base64.b64decode(shot["data"]))

    def print(self, target: Path) -> None:
        """The page as it is printed, as a PDF."""
        target.write_bytes(base64.b64decode(self("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"]))

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        number = self._count
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            piece = os.read(self._from, 1 << 20)
            assert piece, "the browser has ended"
            self._left += piece
        text, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._note(message["method"], message["params"])
            self._events.append(message)
        return message

    def _note(self, method: str, what: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
        elif method in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Audits.issueAdded"):
            self.complaints.append(json.dumps(what)[:600])
