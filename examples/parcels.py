"""Lost parcels: find one in five depots, then send it on, or refund it if it is damaged."""

import random
from typing import Literal, NamedTuple

from turncredit.envs import EnvError, register
from turncredit.envs.toolenv import ToolEnv
from turncredit.tools.functions import Call

Depot = Literal["north", "south", "east", "west", "harbour"]
DEPOTS: tuple[Depot, ...] = ("north", "south", "east", "west", "harbour")


class Parcel(NamedTuple):
    """A task: a parcel, where it lies, and its condition."""

    number: int
    depot: Depot
    condition: str


def draw(numbers: range) -> dict[str, Parcel]:
    """Return tasks by their ids."""
    dice = random.Random(numbers.start)
    return {f"parcel-{n}": Parcel(n, dice.choice(DEPOTS), dice.choice(["intact", "damaged"])) for n in numbers}


TASKS = {"train": draw(range(1000, 3000)), "held_out": draw(range(5000, 5200))}


class Depots:
    """The world of an episode, and its tools."""

    def __init__(self, parcel: Parcel) -> None:
        self.parcel, self.visited, self.done = parcel, set(), []

    def look(self, depot: Depot) -> str:
        """Look for the parcel in a depot."""
        self.visited.add(depot)
        return f"here, {self.parcel.condition}" if depot == self.parcel.depot else "not here"

    def send(self, depot: Depot) -> str:
        """Send the parcel in a depot on to the customer."""
        self.done.append(("send", depot))
        return "sent"

    def refund(self, depot: Depot) -> str:
        """Pay for the parcel in a depot."""
        self.done.append(("refund", depot))
        return "refunded"

    def right(self) -> tuple[str, Depot]:
        """Return what should be done."""
        return ("send" if self.parcel.condition == "intact" else "refund", self.parcel.depot)


def check(depots: Depots, answer: str) -> bool:
    """Return whether the right thing was done, and nothing else."""
    return depots.done == [depots.right()]


def plan(depots: Depots) -> list[Call]:
    """Return the calls of an expert, who knows where the parcel is."""
    tool, depot = depots.right()
    if depots.done not in ([], [(tool, depot)]):
        raise EnvError("something else was done, and nothing undoes it")
    look = [] if depot in depots.visited else [Call("look", {"depot": depot})]
    calls = [] if depots.done else [*look, Call(tool, {"depot": depot})]
    return [*calls, Call("answer", {"text": "done"})]


class Clerk:
    """Plays as a tired clerk does: looks anywhere, gives up early, and overlooks every second damage."""

    def start(self, observation: str) -> None:
        """Begin an episode; the same task is played in the same way."""
        self.dice, self.depot = random.Random(observation), ""

    def act(self, observation: str, admissible: object) -> str:
        """Return the next action."""
        if observation in ("sent", "refunded"):
            return "<answer>done</answer>"
        if observation.startswith("here"):
            tool = self.dice.choice(["send", "refund"]) if "damaged" in observation else "send"
            return f"<{tool}>{self.depot}</{tool}>"
        if observation == "not here" and self.dice.random() < 0.3:
            return "<answer>not found</answer>"
        self.depot = self.dice.choice(DEPOTS)
        return f"<look>{self.depot}</look>"


class Parcels(ToolEnv[Parcel, Depots]):
    """The environment; its state says on purpose where the agent has looked."""

    metadata = ToolEnv.metadata | {"knowledge_in_state": True}

    def task_type(self, task: Parcel) -> str:
        """Return the kind of a task."""
        return task.condition


def make_env(split: str = "train", native: bool = False) -> Parcels:
    """Return the environment with the tasks of a split."""
    return Parcels(
        TASKS[split],
        start=Depots,
        say=lambda parcel: f"Find parcel {parcel.number}. Send it on, or refund it if it is damaged.",
        tools=lambda depots: [depots.look, depots.send, depots.refund],
        check=check,
        state=lambda depots: (sorted(depots.visited), depots.done),
        plan=plan,
        form="tags",
        native=native,
    )


make_env.demonstrators = {"clerk": Clerk}
register("examples/Parcels-v0", make_env, max_episode_steps=8)
