"""A headless Chromium, driven through the pipe of its DevTools protocol: no driver program, no port, no package.

    with Browser() as browser:
        page = browser.open(path, width=1280, dark=False)
        page.evaluate("document.title")
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-headless-shell", "google-chrome", "chromium-browser")


def find():
    """The browser's path; None where there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class PageError(Exception):
    pass


class Browser:
    def __init__(self, program=None):
        self.folder = tempfile.mkdtemp(prefix="opwright-browser-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def connect():  # the protocol's fixed numbers; copied first, for one pipe may have the other's number
            low, high = os.dup(to_browser), os.dup(from_browser)
            os.dup2(low, 3)
            os.dup2(high, 4)

        flags = ["--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--mute-audio"]
        flags += ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
        self.process = subprocess.Popen(
            [program or find(), *flags, f"--user-data-dir={self.folder}", "about:blank"],
            preexec_fn=connect,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.pending, self.listeners = 0, b"", {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close", {}, None, timeout=5)
        except (PageError, OSError):
            pass
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, timeout):
        """The next message, or None after `timeout` seconds."""
        while b"\0" not in self.pending:
            if not select.select([self.read_end], [], [], max(0, timeout))[0]:
                return None
            piece = os.read(self.read_end, 1 << 20)
            if not piece:
                raise PageError("the browser ended")
            self.pending += piece
        text, self.pending = self.pending.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, parameters, session, timeout=60):
        self.number += 1
        number, end = self.number, time.monotonic() + timeout
        text = {"id": number, "method": method, "params": parameters}
        if session:
            text["sessionId"] = session
        os.write(self.write_end, json.dumps(text).encode() + b"\0")
        while (left := end - time.monotonic()) > 0:
            m = self.message(left)
            if m is None:
                break
            if m.get("id") == number:
                if "error" in m:
                    raise PageError(f"{method}: {m['error']['message']}")
                return m["result"]
            self.hear(m)
        raise PageError(f"{method}: no answer within {timeout} s")

    def hear(self, m):
        if "method" in m and (listener := self.listeners.get(m.get("sessionId"))):
            listener(m["method"], m["params"])

    def open(self, path, width=1280, height=900, dark=False, scale=1):
        return Page(self, path, width, height, dark, scale)


class Page:
    """An open page. `problems`: what it wrote to the console or threw; `requests`: addresses that it asked for."""

    def __init__(self, browser, path, width, height, dark, scale):
        self.browser, self.problems, self.requests, self.loaded = browser, [], [], False
        target = browser.call("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", {"targetId": target, "flatten": True}, None)["sessionId"]
        browser.listeners[self.session] = self.heard
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.size(width, height, scale)
        self.colours(dark)
        self.call("Page.navigate", {"url": f"file://{path}"})
        end = time.monotonic() + 60
        while not self.loaded and time.monotonic() < end:
            if m := browser.message(end - time.monotonic()):
                browser.hear(m)

    def heard(self, method, p):
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(p["exceptionDetails"].get("exception", {}).get("description", p["exceptionDetails"]["text"]))
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            self.problems.append(f"console.{p['type']}: {p['args']}")
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.problems.append(p["entry"]["text"])

    def call(self, method, parameters=None, timeout=60):
        return self.browser.call(method, parameters or {}, self.session, timeout)

    def size(self, width, height, scale=1):
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", metrics)

    def colours(self, dark):
        value = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": value}]})

    def evaluate(self, expression, timeout=60):
        """The value of a JavaScript expression, of a promise when it has one."""
        r = self.call(
            "Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True}, timeout
        )
        if "exceptionDetails" in r:
            raise PageError(r["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return r["result"].get("value")

    def wait(self, expression, timeout=60):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.evaluate(expression):
                return
            time.sleep(0.05)
        raise PageError(f"after {timeout} s it does not hold: {expression}")

    def settle(self):
        """Waits until two frames have been drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def key(self, key, text=None):
        event = {"key": key, **({"text": text} if text else {})}
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", **event})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", "key": key})

    def write(self, text):
        self.call("Input.insertText", {"text": text})

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1})

    def click_on(self, selector):
        """Clicks the middle of an element once it stands still (a page that changes its layout moves or replaces it)
        and fails where something else lies over that point."""
        places = (
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null; e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2, top = document.elementFromPoint(x, y);"
            " return [x, y, e === top || e.contains(top), top ? `${top.tagName}.${top.getAttribute('class')}` : 'nothing']; })()"
        )
        end, before, now = time.monotonic() + 10, None, self.evaluate(places)
        while now is None or now != before or not now[2]:
            if time.monotonic() > end:
                raise PageError(f"{selector} cannot be clicked: " + (f"{now[3]} lies over it, or it moves" if now else "it is not there"))
            self.settle()
            before, now = now, self.evaluate(places)
        self.click(now[0], now[1])

    def screenshot(self, path, whole=False):
        """A PNG of what is in view, or of the whole page."""
        parameters = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            height = self.evaluate("document.documentElement.scrollHeight")
            width = self.evaluate("innerWidth")
            parameters["clip"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", parameters)["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", {"targetId": self.target}, None)
        self.browser.listeners.pop(self.session, None)
