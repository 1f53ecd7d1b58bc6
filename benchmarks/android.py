"""Speed of the simulated phone in one process: steps, screenshots, resets, memory; taps and dumps over adb; many phones
at once, and a thousand episodes. Speed of the environment: its steps and resets.

    taskset -c 0,1 python benchmarks/android.py [--seconds 3] [--phones 64] [--steps 40] [--episodes 1000]

A step is a random touch, swipe, text or key, then the text of every visible element and the state key. A step of the
environment is one of its admissible actions, drawn at random but for those that end the episode, up to the step limit
of the task; each task is played once, or eight times in a row as by the agents of a group. A step is lost when it
raises, or when a phone does not end in the state that the same inputs lead to on a phone alone. The memory of episodes
is that of a process of their own. What one process does alone is counted per second of processor time, so that a busy
machine matters less; what goes over adb is counted by the clock. Python's garbage collector runs as seldom as in the
worker processes of turncredit.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import socket
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from turncredit.envs import make
from turncredit.envs.android.env import AndroidEnv
from turncredit.envs.android.stock.source import StockTasks
from turncredit.phone import Phone
from turncredit.phone.adb import AdbServer
from turncredit.phone.adb.direct_device import DirectDevice
from turncredit.processes.garbage_collection import collect_garbage_less_often
from turncredit.tools.android import AdbDevice, AdbServerClient, Device


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--phones", type=int, default=64, help="at once, and for the figure of memory")
    parser.add_argument("--steps", type=int, default=40, help="of each phone when many play at once")
    parser.add_argument("--episodes", type=int, default=1000, help="for the figure of growth")
    options = parser.parse_args()
    collect_garbage_less_often()
    report: dict[str, Any] = {
        "cores": len(os.sched_getaffinity(0)),
        "steps_per_second": round(steps(options.seconds)),
        "screenshots_per_second": round(screenshots(options.seconds)),
        "reset_ms": round(1000 / rate(options.seconds, lambda phone, _: phone.reset()), 3),
        "new_phone_ms": round(1000 / rate(options.seconds, lambda _, i: Phone(i)), 3),
        "snapshot_us": round(1e6 / rate(options.seconds, lambda phone, _: phone.snapshot()), 1),
        "megabytes_per_phone": round(memory(options.phones), 3),
    }
    report["environment"] = in_a_process(environment, options.seconds)
    report["environment_groups_of_8"] = in_a_process(environment_in_groups, options.seconds)
    report["at_once_directly"] = many(options.phones, options.steps, None)
    report["episodes_directly"] = in_a_process(episodes, options.episodes)
    report["repeated_episodes_directly"] = in_a_process(repeated_episodes, options.episodes)
    if shutil.which("adb"):
        report |= over_adb(options.seconds)
        with adb_server() as port:
            report["at_once_over_adb"] = many(options.phones, options.steps, port)
        report["episodes_over_adb"] = in_a_process(episodes_over_adb, options.episodes)
    print(json.dumps(report, indent=2))


def rate(seconds: float, do: Callable[[Phone, int], object]) -> float:
    """Return how often something can be done in a second of processor time."""
    phone, count, start = played(Phone(0), 50), 0, time.process_time()
    while time.process_time() - start < seconds:
        do(phone, count)
        count += 1
    return count / (time.process_time() - start)


def steps(seconds: float) -> float:
    """Return steps per second of processor time, with a reset every 50 steps."""
    phone, count, start = Phone(0), 0, time.process_time()
    draw = random.Random(0)
    while time.process_time() - start < seconds:
        if count % 50 == 0:
            phone.reset()
            phone.launch(draw.choice([app.package for app in phone.apps.values() if not app.hidden]))
        act(phone, draw)
        observe(phone)
        count += 1
    return count / (time.process_time() - start)


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
    """Return screenshots of 540 x 1200 per second of processor time, each after a random step."""
    phone, draw, count, spent = Phone(0), random.Random(0), 0, 0.0
    while spent < seconds:
        if count % 50 == 0:
            phone.reset()
            phone.launch(draw.choice([app.package for app in phone.apps.values() if not app.hidden]))
        act(phone, draw)
        start = time.process_time()
        phone.screenshot((540, 1200))
        spent += time.process_time() - start
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


@contextmanager
def adb_server() -> Iterator[int]:
    """Run a stock adb server at a port of its own, and give the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        yield port
    finally:
        subprocess.run(["adb", "-P", str(port), "kill-server"], capture_output=True, check=False)


def over_adb(seconds: float) -> dict[str, float]:
    """Return what a device does in a second through the stock adb server, beside the same phone directly."""
    with adb_server() as port, AdbServer(Phone(0)) as server:
        device, direct = AdbDevice(server.serial, AdbServerClient(port=port)), DirectDevice(Phone(0))
        for one in (device, direct):
            one.launch("com.android.settings")
        taps = [repeated(seconds, lambda one=one: one.tap(540, 1200)) for one in (device, direct)]
        return {
            "adb_taps_per_second": round(taps[0]),
            "direct_taps_per_adb_tap": round(taps[1] / taps[0], 1),
            "adb_dumps_per_second": round(repeated(seconds, device.dump)),
            "adb_screenshots_per_second": round(repeated(seconds, device.screenshot), 1),
        }


# Many phones at once


def many(phones: int, steps: int, port: int | None) -> dict[str, float]:
    """Return what is lost when this many phones play at once, each with a thread: over adb, or directly."""
    made = [Phone(i) for i in range(phones)]
    servers = [AdbServer(phone) for phone in made] if port is not None else []
    start = time.perf_counter()
    try:
        with ThreadPoolExecutor(phones) as pool:
            waiting = [pool.submit(play_alone, i, steps, made, servers, port) for i in range(phones)]
            failed = sum(one.exception() is not None for one in waiting)
        spent = time.perf_counter() - start
        for server in servers:
            server.close()
        ends = [phone.state_key() for phone in made]
    finally:
        for server in servers:
            server.close()
    twins = [Phone(i) for i in range(phones)]
    for i, twin in enumerate(twins):
        play_steps(DirectDevice(twin), i, steps)
    lost = sum(end != twin.state_key() for end, twin in zip(ends, twins, strict=True))
    rate = round(phones * steps / spent)
    return {"phones": phones, "steps": phones * steps, "failed": failed, "other_end": lost, "steps_per_second": rate}


def play_alone(i: int, steps: int, phones: list[Phone], servers: list[AdbServer], port: int | None) -> None:
    """Play on one of the phones."""
    if port is None:
        play_steps(DirectDevice(phones[i]), i, steps)
        return
    with AdbDevice(servers[i].serial, AdbServerClient(port=port), recovery=0.0) as device:
        play_steps(device, i, steps)


def play_steps(device: Device, seed: int, steps: int) -> None:
    """Do as many steps, each with a dump of the screen before."""
    draw = random.Random(seed)
    device.launch(draw.choice(["com.android.settings", "org.turncredit.contacts", "com.android.deskclock"]))
    for _ in range(steps):
        targets = [node for node in device.dump().walk() if node.clickable]
        kind = draw.random()
        if kind < 0.8 and targets:
            device.tap(*draw.choice(targets).center)
        elif kind < 0.9:
            device.swipe((540, 1600), (540, 800))
        else:
            device.key(4)


# Many episodes


def in_a_process(measure: Callable[[Any], dict[str, float]], count: float) -> dict[str, float]:
    """Return what `measure(count)` returns in a fresh process."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=collect_garbage_less_often) as pool:
        return pool.submit(measure, count).result()


def resident() -> float:
    """Return the resident memory of this process in megabytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def growth(count: int, play: Callable[[int], bool]) -> dict[str, float]:
    """Return the memory after a tenth of the episodes and after all, and how many were won."""
    won, early, start = 0, 0.0, time.perf_counter()
    for i in range(count):
        won += play(i)
        if i + 1 == max(1, count // 10):
            early = resident()
    late, spent = resident(), time.perf_counter() - start
    return {
        "episodes": count,
        "won": won,
        "mb_after_a_tenth": round(early, 1),
        "mb_after_all": round(late, 1),
        "kb_per_later_episode": round((late - early) * 1000 / max(1, count - count // 10), 1),
        "episodes_per_second": round(count / spent, 1),
    }


def environment(seconds: float, group: int = 1) -> dict[str, float]:
    """Return the environment's steps per second of processor time and the time of a reset, after a warm-up."""
    env, draw = make("turncredit/Android-v0"), random.Random(0)
    tasks = (task for task in env.unwrapped.task_ids(100_000) for _ in range(group))
    play_at_random(env, tasks, draw, seconds)
    count, stepping, resets, resetting = play_at_random(env, tasks, draw, seconds)
    return {"steps_per_second": round(count / stepping), "reset_ms": round(1000 * resetting / resets, 2)}


def environment_in_groups(seconds: float) -> dict[str, float]:
    """Return the same when each task is played eight times."""
    return environment(seconds, 8)


def play_at_random(
    env: Any, tasks: Iterator[str], draw: random.Random, seconds: float
) -> tuple[int, float, int, float]:
    """Play at random; return steps, the seconds that they took, resets, and the seconds that those took."""
    count, stepping, resets, resetting = 0, 0.0, 0, 0.0
    while stepping < seconds:
        start = time.process_time()
        _, info = env.reset(options={"task": next(tasks)})
        resetting += (begun := time.process_time()) - start
        resets += 1
        for _ in range(info["step_limit"]):
            allowed = [action for action in info["admissible_actions"] if action not in ("done", "infeasible")]
            *_, ended, cut, info = env.step(draw.choice(allowed))
            count += 1
            if ended or cut:
                break
        stepping += time.process_time() - begun
    return count, stepping, resets, resetting


def repeated_episodes(count: int) -> dict[str, float]:
    """Play the expert's episodes of a tenth as many tasks, ten times: caches are full after the first round."""
    return episodes(count, max(1, count // 10))


def episodes(count: int, different: int = 10**6) -> dict[str, float]:
    """Play the expert's episodes of tasks of all templates."""
    env = make("turncredit/Android-v0")
    tasks = env.unwrapped.task_ids(min(count, different))

    def play(i: int) -> bool:
        env.reset(options={"task": tasks[i % len(tasks)]})
        info: dict[str, Any] = {}
        for action in env.unwrapped.plan():
            *_, info = env.step(action)
        return bool(info["won"])

    return growth(count, play)


def episodes_over_adb(count: int) -> dict[str, float]:
    """Play as many short episodes of tasks on stock apps, on one device over adb: all of them prepared and undone."""
    with adb_server() as port, AdbServer(Phone(0)) as server:
        env = AndroidEnv(device=server.serial)
        device = AdbDevice(server.serial, AdbServerClient(port=port), settle_pause=0.0)
        types = ["StockAddContact", "StockBluetooth", "StockFindCode", "StockMoveFile", "StockMissingApp"]
        env._source = StockTasks(server.serial, task_types=types, connect=lambda: device)
        tasks = env.task_ids(count)

        def play(i: int) -> bool:
            env.reset(options={"task": tasks[i]})
            env.step("open Settings")
            *_, info = env.step("infeasible")
            return bool(info["won"])

        try:
            return growth(count, play)
        finally:
            env.close()


def repeated(seconds: float, do: Callable[[], object]) -> float:
    """Return how often something is done in a second."""
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        do()
        count += 1
    return count / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
