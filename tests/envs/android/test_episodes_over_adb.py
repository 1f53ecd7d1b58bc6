"""The expert's episodes through the stock adb and directly: the same observations, states and rewards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from toys.adb_phones import adb, adb_server

from turncredit.envs.android.env import AndroidEnv
from turncredit.envs.android.task_source import SimulatedTask, SimulatedTasks
from turncredit.envs.android.tasks.template import all_templates, split_of
from turncredit.phone.adb import AdbServer
from turncredit.tools.android import AdbDevice

pytestmark = pytest.mark.waits

TEMPLATES = all_templates()
APPS = sorted({app for template in TEMPLATES.values() for app in template.apps})


@pytest.fixture(scope="module", autouse=True)
def server():
    with pytest.MonkeyPatch.context() as patch, adb_server(patch) as port:
        yield port


class TasksOverAdb(SimulatedTasks):
    """The same tasks, whose phones can be touched and seen over adb alone."""

    server: AdbServer | None = None

    def start(self, task: str) -> SimulatedTask:
        self.close()
        one = super().start(task)
        self.server = AdbServer(one.phone)
        one.device = AdbDevice(self.server.serial, settle_pause=0.0)
        return one

    def close(self) -> None:
        if self.server is not None:
            adb("disconnect", self.server.serial)
            self.server.close()
            self.server = None


def same(one: Any, other: Any) -> bool:
    """Whether two results of `step` are equal, pictures pixel by pixel."""
    if isinstance(one[0], dict):
        return bool(one[0]["text"] == other[0]["text"] and np.array_equal(one[0]["image"], other[0]["image"])) and (
            one[1:] == other[1:]
        )
    return bool(one == other)


def play_both(names: list[str], **options: Any) -> Iterator[tuple[str, bool]]:
    """Play each template's first instance both ways, with a wrong action before and after; yield what came of it."""
    for name in names:
        split = split_of(TEMPLATES[name], 0)
        direct, over_adb = AndroidEnv(split=split, **options), AndroidEnv(split=split, **options)
        over_adb._source = TasksOverAdb(split, None, None)
        try:
            task = {"task": f"{name}/0"}
            assert same(direct.reset(options=task), over_adb.reset(options=task)), name
            plan = direct.plan()
            for action in ["tap 999", *plan]:
                one, other = direct.step(action), over_adb.step(action)
                assert same(one, other), (name, action)
            yield name, one[4]["won"]
        finally:
            over_adb.close()


@pytest.mark.parametrize("app", APPS)
def test_an_episode_of_every_app_is_the_same_both_ways(app):
    name = next(name for name, one in sorted(TEMPLATES.items()) if app in one.apps and len(one.apps) == 1)
    assert list(play_both([name])) == [(name, True)]


def test_an_episode_with_pictures_is_the_same_both_ways():
    """At the phone's own size; smaller ones are drawn small directly, and scaled over adb."""
    pytest.importorskip("PIL")
    options = {"observation": "screen", "size": (1080, 2400), "format": "m3a"}
    assert list(play_both(["ClockAddAlarm"], **options)) == [("ClockAddAlarm", True)]


def test_smaller_pictures_are_nearly_the_same_both_ways():
    pytest.importorskip("PIL")
    options = {"observation": "screen", "size": (540, 1200)}
    direct, over_adb = AndroidEnv(**options), AndroidEnv(**options)
    over_adb._source = TasksOverAdb("train", None, None)
    task = {"task": direct.task_ids(1)[0]}
    one, other = (np.asarray(env.reset(options=task)[0]["image"], dtype=float) for env in (direct, over_adb))
    over_adb.close()
    assert one.shape == other.shape
    assert np.abs(one - other).mean() < 5


@pytest.mark.slow
def test_an_episode_of_every_template_is_the_same_both_ways():
    played = dict(play_both(sorted(TEMPLATES)))
    assert [name for name, won in played.items() if not won] == []
