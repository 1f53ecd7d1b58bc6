"""Lost parcels: find one in five depots, then send it on, or refund it if it is damaged."""

import random
from collections.abc import Iterable
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


def draw(numbers: Iterable[int]) -> dict[str, Parcel]:
    """Return tasks by their ids; a number always means the same parcel."""
    tasks = {}
    for number in numbers:
        dice = random.Random(number)
        tasks[f"parcel-{number}"] = Parcel(number, dice.choice(DEPOTS), dice.choice(["intact", "damaged"]))
    return tasks


NUMBERS = range(1000, 3200)
TASKS = {
    "train": draw(number for number in NUMBERS if number % 11),
    "held_out": draw(number for number in NUMBERS if number % 11 == 0),
}


class Depots:
    """The world of an episode, and its tools."""

    def __init__(self, parcel: Parcel) -> None:
        self.parcel, self.visited, self.done = parcel, set(), []

    def look(self, depot: Depot) -> str:
        """Look for the parcel in a depot."""
        self.visited.add(depot)
        return f"here, {self.parcel.condition}" if depot == self.parcel.depot else "not here"

    def send(self) -> str:
        """Send the parcel that was found on to the customer."""
        return self.finish("send")

    def refund(self) -> str:
        """Pay for the parcel that was found."""
        return self.finish("refund")

    def finish(self, how: str) -> str:
        """Note what was done."""
        if self.parcel.depot not in self.visited:
            raise LookupError("no parcel was found yet")
        self.done.append(how)
        return "done"

    def right(self) -> str:
        """Return what should be done."""
        return "send" if self.parcel.condition == "intact" else "refund"


def check(depots: Depots, answer: str) -> bool:
    """Return whether the right thing was done, and nothing else."""
    return depots.done == [depots.right()]


def plan(depots: Depots) -> list[Call]:
    """Return the calls of an expert, who knows where the parcel is."""
    tool, depot = depots.right(), depots.parcel.depot
    if depots.done not in ([], [tool]):
        raise EnvError("something else was done, and nothing undoes it")
    look = [] if depot in depots.visited else [Call("look", {"depot": depot})]
    calls = [] if depots.done else [*look, Call(tool, {})]
    return [*calls, Call("answer", {"text": "done"})]


class Clerk:
    """Plays as a tired clerk does: looks anywhere, gives up early, and overlooks every second damage."""

    def start(self, observation: str) -> None:
        """Begin an episode; the same task is played in the same way."""
        self.dice = random.Random(observation)

    def act(self, observation: str, admissible: object) -> str:
        """Return the next action."""
        if observation == "done":
            return "<answer>done</answer>"
        if observation.startswith("here"):
            return self.dice.choice(["<send/>", "<refund/>"]) if "damaged" in observation else "<send/>"
        if observation == "not here" and self.dice.random() < 0.3:
            return "<answer>not found</answer>"
        return f"<look>{self.dice.choice(DEPOTS)}</look>"


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
