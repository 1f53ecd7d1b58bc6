"""docs/methods.md: each line of a run's file is trained for an iteration."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import toys.corridor
from test_every_rule_trains import ROLES
from test_training_loop import lines, make_run

from turncredit.envs import register
from turncredit.training import Run, train

PAGE = (Path(__file__).resolve().parents[2] / "docs/methods.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (?!method|`)([^|]+) \| (`[^|]+`) \|", PAGE, flags=re.MULTILINE)
ENV = "toys/Telling-v0"


class Telling(toys.corridor.Corridor):
    """The corridor, with the columns that rules of the page ask for."""

    serial = itertools.count()

    def reset(self, **options):
        text, info = super().reset(**options)
        self._turns, self._episode = 0, next(self.serial)
        return text, info | {"extras": self._columns(0.0)}

    def step(self, action):
        text, reward, terminated, truncated, info = super().step(action)
        self._turns += 1
        return text, reward, terminated, truncated, info | {"extras": self._columns(reward)}

    def _columns(self, reward):
        return {"role": ROLES[self._turns % 2], "metric": float(self._room % 2), "multi": (reward, 0.5)}


register(ENV, f"{__name__}:Telling")
PLAIN = (f'env.id="{ENV}"', "evaluation.episodes=0", "train.groups=2", "train.group_size=4", "train.iterations=1")


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("policy")
    train(make_run(folder, *PLAIN, "train.iterations=0"))
    return folder / "checkpoints" / "000000"


def words(cell):
    """The words of a command line in a cell of the page."""
    return [word.strip().strip("`") for word in cell.split(" ; ")]


def test_the_page_names_many_methods():
    assert len(ROWS) > 60
    assert all("=" in word for _, cell in ROWS for word in words(cell))


@pytest.mark.parametrize(("method", "cell"), ROWS, ids=[name.strip()[:40] for name, _ in ROWS])
def test_each_method_trains(tmp_path, policy, method, cell):
    table = make_run(tmp_path).model_dump(exclude_unset=True)
    if "env.id" in cell:  # another environment, with longer prompts: a model of its own
        table["env"], table["policy"]["context"] = {}, 2000
        table["imitation"] |= {"episodes": 4, "epochs": 0}
    else:
        table |= {"policy": {"model": str(policy), "context": 400}, "imitation": {}}
    train(Run.parse(table, [*PLAIN, *words(cell)]))
    (event,) = [event for event in lines(tmp_path) if event["phase"] == "train"]
    assert np.isfinite(event["loss"])
    assert event["episodes"] >= 4
