"""How users of each quality spoil the success of agents that know what to do: `python benchmarks/desk_users.py`.

Four clerks serve the same tasks, users and seeds. All know the solution as far as it follows from what the user wants;
what the user has to tell (cards, titles, days), they take from the user's words. Where a fact was told wrongly or not
at all, ids that follow from it are unknown, and nothing can be said about it.

    expert     env.plan(): asks until everything was told rightly
    careful    asks for what is missing until it was told, and once whether everything is right
    trusting   asks once for what is missing, and believes what is told
    obliging   as trusting, and does what the user demands against the policy

A failure is the user's if the same clerk wins the same task with a perfect user. pass^k is the mean over tasks.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from turncredit.envs.desk import DOMAINS, QUALITIES, DeskEnv
from turncredit.envs.desk.domain import dollars
from turncredit.envs.desk.task import DeskAction, DeskTask, UserFact
from turncredit.evaluation.reliability import pass_all
from turncredit.evaluation.results import Rate
from turncredit.tools.functions import Call, call_format

CLERKS = ("expert", "careful", "trusting", "obliging")
MOST_QUESTIONS = 4
MOST_TURNS = 30


@dataclass
class Clerk:
    """A clerk in one episode."""

    kind: str
    env: DeskEnv
    task: DeskTask
    demanded: bool
    heard: dict[str, str] = field(default_factory=dict)
    turns: int = 0

    def play(self, opening: str) -> bool:
        """Serve the user; return whether the task is won."""
        self.listen(opening)
        for call in self.calls():
            if self.turns >= MOST_TURNS:
                return False
            box = list(self.env._box(self.task))
            observation, _, over, _, info = self.env.step(call_format("tags").write([call], box))
            self.turns += 1
            self.listen(observation)
            if over:
                return bool(info["won"])
        return False

    def listen(self, text: str) -> None:
        """Take facts from what the user says; the last value counts."""
        for fact in self.task.facts:
            before, after = map(re.escape, fact.sentence.split("{}"))
            if values := re.findall(rf"{before}(.+?){after}(?= |$)", text):
                self.heard[fact.name] = values[-1]

    def calls(self) -> Iterator[Call]:
        """Yield the calls; each sees the answer to the one before."""
        if self.kind == "expert":
            while True:
                yield self._parse(self.env.plan()[0])
        for _ in range(MOST_QUESTIONS if self.kind == "careful" else 1):
            if missing := [fact.name for fact in self.task.facts if fact.name not in self.heard]:
                yield say(f"Please tell me the {' and the '.join(missing)}.")
        if self.kind == "careful":
            yield say(f"Is that right: the {' and the '.join(fact.name for fact in self.task.facts)}?")
        for action in (*self.task.lookups, *self.task.actions):
            yield say(action.ask) if action.ask else self.substituted(action)
        if self.kind == "obliging" and self.demanded:
            yield Call(self.task.demand.action.name, self.task.demand.action.arguments)
        if self.task.replies and not self.misled():
            yield say(" ".join(self.task.replies))
        yield Call("close", {})

    def misled(self) -> list[UserFact]:
        """Return the facts that the clerk does not know rightly."""
        return [fact for fact in self.task.facts if self.heard.get(fact.name) != fact.value]

    def substituted(self, action: DeskAction) -> Call:
        """Return a call with the facts as the user told them."""
        told = {fact.value: self.heard.get(fact.name, "unknown") for fact in self.task.facts}
        arguments: dict[str, object] = {}
        for name, value in action.arguments.items():
            text = dollars(round(100 * value)) if isinstance(value, float) and name == "amount" else value
            if text in told:
                arguments[name] = value if told[str(text)] == text else as_kind(told[str(text)], value)
            else:
                arguments[name] = "unknown" if isinstance(value, str) and self.misled() and name != "branch" else value
        return Call(action.name, arguments)

    def _parse(self, action: str) -> Call:
        return call_format("tags").parse(action, list(self.env._box(self.task))).calls[0]


def as_kind(told: str, value: object) -> object:
    """Return what was told as a value of the same kind: an amount is a number."""
    if isinstance(value, float):
        return float(told.removeprefix("$")) if told.startswith("$") else 0.0
    return told


def say(text: str) -> Call:
    return Call("say", {"text": text})


def wins(clerk: str, user: str, domain: str, level: str, tasks: int, trials: int) -> Mapping[str, list[bool]]:
    """Return for every task whether the clerk wins each trial."""
    env = DeskEnv(domain=domain, level=level, split="held_out", user=user)
    won: dict[str, list[bool]] = {}
    for task in env.task_ids(tasks):
        for seed in range(trials):
            opening, _ = env.reset(seed=seed, options={"task": task})
            won.setdefault(task, []).append(Clerk(clerk, env, env.episode.task, user == "adversarial").play(opening))
    return won


def main() -> None:
    """Print the table of clerks and users."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--level", default="small")
    options = parser.parse_args()
    began = time.process_time()
    for domain in DOMAINS:
        print(f"\n{domain}, level {options.level}: {options.tasks} held-out tasks, {options.trials} trials\n")
        print(f"| clerk | user | success | pass^1 | pass^2 | pass^{options.trials} | failures of the user |")
        print("|---|---|---|---|---|---|---|")
        for clerk in CLERKS:
            perfect = wins(clerk, "perfect", domain, options.level, options.tasks, options.trials)
            for user in QUALITIES:
                row(clerk, user, wins(clerk, user, domain, options.level, options.tasks, options.trials), perfect)
    print(f"\n{time.process_time() - began:.0f} s of CPU time")


def row(clerk: str, user: str, won: Mapping[str, list[bool]], perfect: Mapping[str, list[bool]]) -> None:
    """Print one row of the table."""
    flat = [result for results in won.values() for result in results]
    ks = sorted({1, min(2, len(next(iter(won.values())))), len(next(iter(won.values())))})
    passes = [sum(pass_all(sum(r), len(r), k) for r in won.values()) / len(won) for k in ks]
    failures = [(task, trial) for task, results in won.items() for trial, result in enumerate(results) if not result]
    spoiled = sum(perfect[task][trial] for task, trial in failures)
    share = f"{spoiled} of {len(failures)}" if failures else "-"
    cells = [clerk, user, str(Rate.of(sum(flat), len(flat))), *(f"{100 * rate:.1f} %" for rate in passes), share]
    print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
