"""Tiny decision processes under the uniform policy, whose true advantages are enumerated by backward induction.

A state names its actions, each with what may follow: (probability, reward, next state), None at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from turncredit.credit import Steps

Outcomes = Sequence[tuple[float, float, str | None]]


@dataclass(frozen=True)
class Process:
    """A process by its transitions."""

    start: str
    transitions: Callable[[str], Mapping[str, Outcomes]]

    def value(self, state: str | None, gamma: float = 1.0) -> float:
        """V under the uniform policy."""
        if state is None:
            return 0.0
        actions = self.transitions(state)
        return sum(self.action_value(state, action, gamma) for action in actions) / len(actions)

    def action_value(self, state: str, action: str, gamma: float = 1.0) -> float:
        """Q under the uniform policy."""
        follows = self.transitions(state)[action]
        return sum(p * (reward + gamma * self.value(after, gamma)) for p, reward, after in follows)

    def advantage(self, state: str, action: str, gamma: float = 1.0) -> float:
        """A* = Q - V."""
        return self.action_value(state, action, gamma) - self.value(state, gamma)

    def play(self, rng: Random, state: str | None = None, action: str | None = None) -> list[tuple[str, str, float]]:
        """An episode as (state, action, reward), from a state and with a first action if they are given."""
        turns = []
        current: str | None = self.start if state is None else state
        while current is not None:
            actions = self.transitions(current)
            chosen = rng.choice(list(actions)) if action is None else action
            action = None
            draw, follows = rng.random(), actions[chosen]
            for probability, _reward, _after in follows:
                draw -= probability
                if draw < 0:
                    break
            turns.append((current, chosen, _reward))
            current = _after
        return turns

    def forks(self, rng: Random, count: int, state: str, action: str | None = None) -> list[float]:
        """Undiscounted returns of episodes from a state."""
        return [sum(reward for *_, reward in self.play(rng, state, action)) for _ in range(count)]


def delayed(turns: int = 5) -> Process:
    """The first action decides: success 0.8 after the good one, 0.2 after the bad one; the others do nothing."""

    def transitions(state: str) -> Mapping[str, Outcomes]:
        number, _, branch = state.partition(" ")
        if branch == "":
            return {"good": [(1.0, 0.0, "1 good")], "bad": [(1.0, 0.0, "1 bad")]}
        if int(number) + 1 < turns:
            after: Outcomes = [(1.0, 0.0, f"{int(number) + 1} {branch}")]
        else:
            chance = {"good": 0.8, "bad": 0.2}[branch]
            after = [(chance, 1.0, None), (1 - chance, 0.0, None)]
        return {"left": after, "right": after}

    return Process("0", transitions)


def recovery() -> Process:
    """A bad first action that a later one repairs, at either of two turns."""

    def transitions(state: str) -> Mapping[str, Outcomes]:
        number, _, branch = state.partition(" ")
        end = number == "2"

        def to(branch: str) -> Outcomes:
            return [(1.0, float(branch == "whole"), None)] if end else [(1.0, 0.0, f"{int(number) + 1} {branch}")]

        if branch == "":
            return {"good": to("whole"), "bad": to("broken")}
        return {"wait": to(branch), "repair": to("whole")}

    return Process("0", transitions)


def stop_or_go() -> Process:
    """At each turn stop and take c_t, or go on; the last turn ends with nothing."""
    prizes = (0.0, 2.0, 1.0, 3.0, 0.0)

    def transitions(state: str) -> Mapping[str, Outcomes]:
        turn = int(state)
        last = turn + 1 == len(prizes)
        return {
            "stop": [(1.0, prizes[turn], None)],
            "go": [(1.0, 0.0, None if last else str(turn + 1))],
        }

    return Process("0", transitions)


def two_keys() -> Process:
    """Two turns, one for each key, must both be right; which comes first does not matter."""

    def transitions(state: str) -> Mapping[str, Outcomes]:
        number, _, right = state.partition(" ")
        if number == "0":
            return {action: [(1.0, 0.0, f"1 {action}")] for action in ("right", "wrong")}
        return {
            "right": [(1.0, float(right == "right"), None)],
            "wrong": [(1.0, 0.0, None)],
        }

    return Process("0", transitions)


@cache
def table(name: str, groups: int, size: int = 8, seed: int = 0) -> Steps:
    """The turns of many groups."""
    process, rng = PROCESSES[name](), Random(seed)
    rows = []
    for group in range(groups):
        for member in range(size):
            turns = process.play(rng)
            states = [*(state for state, *_ in turns), "end"]
            rows += [
                {
                    "task": group,
                    "trajectory": f"{group}#{member}",
                    "turn": turn,
                    "reward": reward,
                    "state": state,
                    "next_state": states[turn + 1],
                    "action": action,
                    "valid": True,
                    "tokens": 4,
                    "logprob": -0.7,
                }
                for turn, (state, action, reward) in enumerate(turns)
            ]
    return Steps.from_rows(rows)


PROCESSES: Mapping[str, Callable[[], Process]] = {
    "delayed": delayed,
    "recovery": recovery,
    "stop_or_go": stop_or_go,
    "two_keys": two_keys,
}
