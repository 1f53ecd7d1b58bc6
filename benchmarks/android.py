"""Speed of the simulated phone in one process: steps, screenshots, resets, memory; taps and dumps over adb.

    python benchmarks/android.py [--seconds 3] [--phones 64]

A step is a random touch, swipe, text or key, then the text of every visible element and the state key.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from turnwise.envs.android.phone import Phone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--phones", type=int, default=64, help="made for the figure of memory")
    options = parser.parse_args()
    report: dict[str, Any] = {
        "steps_per_second": round(steps(options.seconds)),
        "screenshots_per_second": round(screenshots(options.seconds)),
        "reset_ms": round(1000 / rate(options.seconds, lambda phone, _: phone.reset()), 3),
        "new_phone_ms": round(1000 / rate(options.seconds, lambda _, i: Phone(i)), 3),
        "snapshot_us": round(1e6 / rate(options.seconds, lambda phone, _: phone.snapshot()), 1),
        "megabytes_per_phone": round(memory(options.phones), 3),
    }
    if shutil.which("adb"):
        report |= over_adb(options.seconds)
    print(json.dumps(report, indent=2))


def rate(seconds: float, do: Callable[[Phone, int], object]) -> float:
    """Return how often something can be done in a second."""
    phone, count, start = played(Phone(0), 50), 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        do(phone, count)
        count += 1
    return count / (time.perf_counter() - start)


def steps(seconds: float) -> float:
    """Return steps per second, with a reset every 50 steps."""
    phone, count, start = Phone(0), 0, time.perf_counter()
    draw = random.Random(0)
    while time.perf_counter() - start < seconds:
        if count % 50 == 0:
            phone.reset()
            phone.launch(draw.choice([app.package for app in phone.apps.values() if not app.hidden]))
        act(phone, draw)
        observe(phone)
        count += 1
    return count / (time.perf_counter() - start)


def act(phone: Phone, draw: random.Random) -> None:
    """Do something at random, mostly a touch of what can be touched."""
    targets = [node for node in phone.tree().walk() if node.clickable]
    kind = draw.random()
    if kind < 0.7 and targets:
        phone.tap(*draw.choice(targets).center)
    elif kind < 0.85:
        phone.swipe(540, 1600, 540, 800)
    elif kind < 0.95:
        phone.text("hello")
    else:
        phone.back()


def observe(phone: Phone) -> str:
    """Return the visible elements as numbered lines, after the state key was computed."""
    phone.state_key()
    nodes = [node for node in phone.tree().walk() if node.text or node.description or node.clickable]
    return "\n".join(f"{i} {node.class_name} {node.text or node.description}" for i, node in enumerate(nodes))


def screenshots(seconds: float) -> float:
    """Return screenshots of 540 x 1200 per second, each after a random step."""
    phone, draw, count, spent = Phone(0), random.Random(0), 0, 0.0
    while spent < seconds:
        if count % 50 == 0:
            phone.reset()
            phone.launch(draw.choice([app.package for app in phone.apps.values() if not app.hidden]))
        act(phone, draw)
        start = time.perf_counter()
        phone.screenshot((540, 1200))
        spent += time.perf_counter() - start
        count += 1
    return count / spent


def played(phone: Phone, count: int) -> Phone:
    """Return a phone all of whose apps were opened and used."""
    draw = random.Random(1)
    for app in phone.apps.values():
        phone.tables(app.package)
        if not app.hidden:
            phone.launch(app.package)
            for _ in range(count):
                act(phone, draw)
    return phone


def memory(phones: int) -> float:
    """Return megabytes per phone whose apps are all in use."""
    played(Phone(0), 20)  # what all phones share
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    made = [played(Phone(i), 20) for i in range(1, phones + 1)]
    taken = (tracemalloc.get_traced_memory()[0] - before) / len(made) / 1e6
    tracemalloc.stop()
    return taken


def over_adb(seconds: float) -> dict[str, float]:
    """Return what a device does in a second through the stock adb server, at a port of its own."""
    from turnwise.envs.android.adb import AdbServer
    from turnwise.tools.android import AdbDevice, AdbServerClient

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with AdbServer(Phone(0)) as server:
        try:
            with AdbDevice(server.serial, AdbServerClient(port=port)) as device:
                device.launch("com.android.settings")
                return {
                    "adb_taps_per_second": round(repeated(seconds, lambda: device.tap(540, 1200))),
                    "adb_dumps_per_second": round(repeated(seconds, device.dump)),
                    "adb_screenshots_per_second": round(repeated(seconds, device.screenshot), 1),
                }
        finally:
            subprocess.run(["adb", "-P", str(port), "kill-server"], capture_output=True, check=False)


def repeated(seconds: float, do: Callable[[], object]) -> float:
    """Return how often something is done in a second."""
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        do()
        count += 1
    return count / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
