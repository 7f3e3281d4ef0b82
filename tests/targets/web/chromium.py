"""A headless Chromium that a test drives, over the pipe of the DevTools protocol: JSON with a zero byte behind it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

TIMEOUT = 60.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root has none
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
)

# The browser reads 3 and writes 4. Copies far away come first, since either pipe may be one of the two.
LAUNCH = """
import fcntl, os, sys
for end, to in [(fcntl.fcntl(int(end), fcntl.F_DUPFD, 64), to) for end, to in zip(sys.argv[1:3], (3, 4))]:
    os.dup2(end, to)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Chromium:
    """One page. What it logs and what it asks the network for is kept in `problems` and `requests`."""

    def __init__(self, width: int = 1200, height: int = 900) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="blrc-chromium-", ignore_cleanup_errors=True)
        self._log = Path(self._profile.name) / "log"
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-c", LAUNCH, str(to_browser), str(from_browser), "chromium", *FLAGS),
                    *(f"--user-data-dir={self._profile.name}", f"--window-size={width},{height}", "about:blank"),
                ],
                pass_fds=(to_browser, from_browser),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._id = 0
        self._session: str | None = None
        self._loaded = False
        self.problems: list[str] = []
        self.requests: list[str] = []
        try:
            self._open_page()
        except BaseException:
            self.close()
            raise

    def _open_page(self) -> None:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its result."""
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        deadline = time.monotonic() + TIMEOUT
        while True:
            reply = self._receive(deadline, method)
            if reply.get("id") == self._id:
                if "error" in reply:
                    raise AssertionError(f"{method}: {reply['error']}")
                return reply["result"]

    def load(self, url: str) -> None:
        """Open a page and wait until it says that it is ready."""
        self._loaded = False
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + TIMEOUT
        while not self._loaded:
            self._receive(deadline, f"loading {url}")
        self.wait_for("document.documentElement.dataset.ready === 'true'")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page, as plain data; a promise is waited for."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise AssertionError(f"{expression}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Until the expression is true."""
        deadline = time.monotonic() + TIMEOUT
        while not self.evaluate(condition):
            if time.monotonic() > deadline:
                raise AssertionError(f"not true after {TIMEOUT:.0f} s: {condition}; {self.problems}")
            time.sleep(0.02)

    def settle(self) -> None:
        """Two frames: what a test has set off has been shown, and what it caused has been reported."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def click(self, selector: str) -> None:
        """A press and release of the mouse in the middle of an element."""
        x, y, width, height = self.box(selector)
        self.drag([(x + width / 2, y + height / 2)])

    def drag(self, points: list[tuple[float, float]]) -> None:
        """Move the mouse along points (pixels of the page) with its button down."""
        kinds = ["mousePressed", *["mouseMoved"] * (len(points) - 1), "mouseReleased"]
        for kind, (x, y) in zip(kinds, [*points, points[-1]], strict=True):
            moved = kind == "mouseMoved"
            count = {} if moved else {"clickCount": 1, "button": "left"}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, buttons=1 if moved else 0, **count)

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element, scrolled into view."""
        found = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect();"
            "return [b.left, b.top, b.width, b.height]; })()"
        )
        return tuple(found)  # type: ignore[return-value]

    def give_file(self, selector: str, path: Path) -> None:
        """Choose a file in a file input."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def _receive(self, deadline: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError(f"{what}: Chromium did not answer in {TIMEOUT:.0f} s")
            data = os.read(self._in, 1 << 16)
            if not data:
                raise AssertionError(f"{what}: Chromium has ended: {self._log.read_text(errors='replace')[-2000:]}")
            self._buffer += data
        one, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(one)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, event: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(event["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.problems.append(f"{event['entry']['level']}: {event['entry']['text']}")
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(f"{event['type']}: {event['args']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])

    def close(self) -> None:
        """End the browser and remove its profile."""
        self._session = None
        os.close(self._out)  # it ends when the pipe does
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        self._profile.cleanup()

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
