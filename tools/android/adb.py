"""A device over adb: a real one, an emulator, or anything else that adb lists.

    with AdbDevice("emulator-5554") as device:
        device.tap(540, 1200)
        device.settle()
        print(device.dump().find("Settings"))

A request that was not sent is repeated after the device came back; one that may have had its effect is not, unless it
only reads. A device at HOST:PORT is connected again when it is lost.
"""

from __future__ import annotations

import io
import re
import shlex
import time
from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from turncredit.installation import MissingPackage, needs
from turncredit.tools.android.device import DeviceError, DeviceLost
from turncredit.tools.android.node import BadDump, Node, parse_xml
from turncredit.tools.android.smart_socket import AdbServerClient, CommandOutput, ServiceRefused

__all__ = ["AdbDevice"]

T = TypeVar("T")
_NETWORK: Final = re.compile(r"[\w.\-\[\]:]+:\d{1,5}")
_PAUSE: Final = 0.2  # seconds between attempts to find a lost device
_ATTEMPTS: Final = 3
_RECORD: Final = re.compile(r"(?:topResumedActivity=|mResumedActivity: )\s*ActivityRecord\{\S+ \S+ (\S+/\S+?)[ }]")
_HINTS: Final = {
    "unauthorized": "accept the question about debugging on its screen",
    "offline": "it is connected and does not answer: reconnect it",
    "not found": "`adb devices` lists what is there",
}


class AdbDevice:
    """A `Device` behind adb."""

    def __init__(
        self,
        serial: str,
        server: AdbServerClient | None = None,
        *,
        recovery: float = 15.0,
        settle_limit: float = 6.0,
        settle_pause: float = 0.3,
        settle_equal: int = 2,
    ) -> None:
        """Find a device.

        Args:
            serial: as `adb devices` lists it; HOST:PORT is connected if it is not there.
            server: the adb server; default: the one that the environment names.
            recovery: seconds that a lost device is waited for.
            settle_limit: seconds after which a screen that still moves is taken as it is.
            settle_pause: seconds between the dumps that are compared.
            settle_equal: how many dumps in a row must be equal.

        Raises:
            DeviceLost: it is absent, offline or unauthorised, or there is no adb.
        """
        self._serial = serial
        self._server = server or AdbServerClient()
        self._recovery = recovery
        self._settle = (settle_limit, settle_pause, settle_equal)
        self._find(time.monotonic() + min(recovery, 5.0))
        self._shell_v2 = "shell_v2" in self._server.features(serial)

    @property
    def serial(self) -> str:
        """The name by which adb lists it."""
        return self._serial

    # Finding it, and finding it again

    def _find(self, deadline: float) -> None:
        """Return when adb lists the device as ready; one of the network is connected.

        Raises:
            DeviceLost: it is not by the deadline; the message says what is.
        """
        reply = ""
        while True:
            state = self._state()
            if state in ("offline", "not found") and _NETWORK.fullmatch(self._serial):
                if state == "offline":
                    self._server.disconnect_device(self._serial)
                reply = self._server.connect_device(self._serial)
                state = self._state()
            if state == "device":
                return
            if state == "unauthorized" or time.monotonic() > deadline:
                why = reply if "connected" not in reply and reply else _HINTS.get(state, "")
                raise DeviceLost(f"device {self._serial!r} is {state}" + (f": {why}" if why else ""))
            time.sleep(_PAUSE)

    def _state(self) -> str:
        return self._server.devices().get(self._serial, "not found")

    def _ask(self, request: Callable[[], T], repeatable: bool) -> T:
        """Return what a request gives, made again after the device came back, where that is safe."""
        deadline, refused = time.monotonic() + self._recovery, 0
        while True:
            try:
                return request()
            except ServiceRefused as error:
                refused += 1
                if refused == _ATTEMPTS:
                    raise DeviceError(str(error)) from None
                time.sleep(_PAUSE)
                self._find(deadline)
            except DeviceLost as error:
                sent = "not found" not in str(error) and "offline" not in str(error)
                if time.monotonic() > deadline or (sent and not repeatable):
                    raise
                self._find(deadline)

    def _run(self, command: str, repeatable: bool = False) -> CommandOutput:
        run = self._server.shell if self._shell_v2 else self._server.old_shell
        return self._ask(lambda: run(self._serial, command), repeatable)

    def _read(self, command: str) -> str:
        """Return what a command that changes nothing prints."""
        return self._checked(command, self._run(command, repeatable=True))

    def _checked(self, command: str, result: CommandOutput) -> str:
        text = (result.stdout + result.stderr).decode("utf-8", "replace")
        if result.code:
            raise DeviceError(f"{command!r} ended with exit code {result.code}: {text.strip()}")
        return text

    # Seeing

    def size(self) -> tuple[int, int]:
        """Return width and height of the screen as it is now turned."""
        match = re.search(r"\bcur=(\d+)x(\d+)", self._read("dumpsys window displays"))
        match = match or re.search(r"(?:Override|Physical) size: (\d+)x(\d+)", self._read("wm size"))
        if not match:
            raise DeviceError(f"{self._serial} does not tell the size of its screen")
        return int(match[1]), int(match[2])

    def dump(self) -> Node:
        """Return the accessibility tree of the active window.

        Raises:
            DeviceError: the device gave none in three attempts.
        """
        problem = ""
        for attempt in range(_ATTEMPTS):
            data = self._ask(lambda: self._server.output(self._serial, "uiautomator dump /dev/tty"), True)
            try:
                return parse_xml(data.decode("utf-8", "replace"))[0]
            except BadDump as error:
                problem = str(error)
                if attempt + 1 < _ATTEMPTS:
                    time.sleep(self._settle[1])
        raise DeviceError(f"{self._serial} gave no dump of its screen: {problem}")

    def screenshot(self, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
        """Return the screen as uint8 [H, W, 3], scaled to (width, height) if given.

        Raises:
            DeviceError: the device gave no picture.
            ModuleNotFoundError: the extra `android` is not installed.
        """
        try:
            from PIL import Image, UnidentifiedImageError
        except ModuleNotFoundError:
            raise MissingPackage(needs("screenshots need Pillow", "android")) from None
        data = self._ask(lambda: self._server.output(self._serial, "screencap -p"), True)
        try:
            image = Image.open(io.BytesIO(data)).convert("RGB")
        except (UnidentifiedImageError, OSError, ValueError):
            raise DeviceError(f"{self._serial} gave no screenshot: {data[:80]!r}") from None
        return np.array(image.resize(size) if size else image, dtype=np.uint8)

    def activity(self) -> str:
        """Return the component in front."""
        match = _RECORD.search(self._read("dumpsys activity activities"))
        if not match:
            raise DeviceError(f"{self._serial} does not tell which activity is in front")
        return match[1]

    def settle(self) -> None:
        """Return when dumps in a row are equal, or at the limit."""
        limit, pause, equal = self._settle
        deadline, last, same = time.monotonic() + limit, "", 0
        while same < equal and time.monotonic() < deadline:
            if same:
                time.sleep(pause)
            data = self._ask(lambda: self._server.output(self._serial, "uiautomator dump /dev/tty"), True)
            text = data.decode("utf-8", "replace")
            same = same + 1 if text == last else 1
            last = text

    def wait(self, seconds: float) -> None:
        """Let time pass on the device, in whole seconds."""
        self._do(f"sleep {round(seconds)}")

    # Touching

    def _do(self, command: str) -> None:
        self._checked(command, self._run(command))

    def tap(self, x: int, y: int) -> None:
        """Tap a point."""
        self._do(f"input tap {int(x)} {int(y)}")

    def double_tap(self, x: int, y: int) -> None:
        """Tap a point twice, quickly."""
        self._do(f"input tap {int(x)} {int(y)}; input tap {int(x)} {int(y)}")

    def long_press(self, x: int, y: int) -> None:
        """Hold a point for a second."""
        self._do(f"input swipe {int(x)} {int(y)} {int(x)} {int(y)} 1000")

    def swipe(self, start: tuple[int, int], end: tuple[int, int], milliseconds: int = 500) -> None:
        """Draw a finger from one point to another."""
        self._do(f"input swipe {int(start[0])} {int(start[1])} {int(end[0])} {int(end[1])} {int(milliseconds)}")

    def type_text(self, text: str) -> None:
        """Type a text into the field with the focus.

        Raises:
            DeviceError: the device cannot type it: `input text` of Android knows only the characters of a keyboard.
        """
        for piece in filter(None, re.split(r"(?<=%)(?=s)", text)):  # %s would be typed as a space
            self._do("input text " + shlex.quote(piece.replace(" ", "%s")))

    def key(self, *codes: int) -> None:
        """Press a key by its Android key code; several are held together, modifiers first."""
        if codes:
            kind = "keyevent" if len(codes) == 1 else "keycombination"
            self._do(f"input {kind} {' '.join(str(int(code)) for code in codes)}")

    def launch(self, component: str) -> None:
        """Bring an app to the front, by package ('org.example') or activity ('org.example/.Main').

        Raises:
            DeviceError: it is not installed.
        """
        name = shlex.quote(component)
        if "/" in component:
            command = f"am start -W -n {name}"
        else:
            command = f"monkey -p {name} -c android.intent.category.LAUNCHER 1"
        text = self._checked(command, self._run(command))
        if "No activities found" in text or "does not exist" in text:
            raise DeviceError(f"{component!r} is not installed on {self._serial}")

    # The rest

    def shell(self, command: str) -> str:
        """Return what a shell command prints (standard output and error).

        Raises:
            DeviceError: it ended with another exit code than 0.
        """
        return self._checked(command, self._run(command))

    def push(self, data: bytes, path: str) -> None:
        """Write a file."""
        modified = int(self._read("date +%s") or 0)
        self._ask(lambda: self._server.push(self._serial, data, path, modified), True)

    def pull(self, path: str) -> bytes:
        """Return a file.

        Raises:
            DeviceError: there is none.
        """
        return self._ask(lambda: self._server.pull(self._serial, path), True)

    def close(self) -> None:
        """Let go of the device, which goes on running."""

    def __enter__(self) -> AdbDevice:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Let go of it."""
