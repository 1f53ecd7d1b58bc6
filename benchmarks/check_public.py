"""What `turncredit check` says of public environments that pip installs: a table of floors and findings.

    pip install gymnasium minigrid reasoning-gym textarena "pettingzoo[classic]" textworld browsergym-miniwob
    python -m benchmarks.check_public                          # all, in minutes
    python -m benchmarks.check_public --only reasoning_gym     # those whose names hold a text
    python -m benchmarks.check_public --only coding --server coding_env=http://127.0.0.1:8000    # an OpenEnv server

Environments of other packages are played as they are; thin adapters make those that are no Gymnasium environments into
one. A column is the share of the best return that a player earns, with n episodes. A package that is absent is skipped.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np

from turncredit.envs import TextEnv, UnknownTask
from turncredit.envs.check import CheckReport, Effort, RewardBounds, check_env
from turncredit.envs.info import Info

EFFORT: Final = Effort(
    walks=2, turns=20, pairs=4, states=4, depth=4, continuations=2, search=50, long=24, floor=16, attack=1500
)
PLAYERS: Final = ("idle", "empty", "echo", "shotgun", "junk", "guess", "random")
RULES: Final = ("repeatable", "plan", "seeds", "oracle", *PLAYERS, "leak", "twice", "attack")
"""Rules that ask about rewards, or that the others need; a stranger's `info` need not have our keys."""


class ReasoningTask(TextEnv):
    """A dataset of reasoning-gym: a question, one answer, and its own score."""

    def __init__(self, dataset: str, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        module = importlib.import_module("reasoning_gym")
        self._data = module.create_dataset(dataset, size=50, seed=1)
        self._entries: dict[str, Any] = {}
        self._entry: dict[str, Any] = {}
        self._score: float | None = None

    def list_tasks(self, count: int | None) -> list[str]:
        return [str(number) for number in range(50)][:count]

    def start_task(self, task: str, options: Any) -> str:
        if task not in self.list_tasks(None):
            raise UnknownTask.of(task, self.list_tasks(None), "the dataset")
        if task not in self._entries:
            self._entries[task] = self._data[int(task)]
        self._entry, self._score = self._entries[task], None
        return str(self._entry["question"])

    def take_action(self, action: str) -> tuple[str, float, bool]:
        self._score = min(1.0, max(0.0, float(self._data.score_answer(action, self._entry))))
        return "Thank you.", self._score, bool(action.strip())

    def is_over(self) -> bool:
        return self._score is not None

    def plan(self) -> list[str]:
        return [] if self._score is not None else [str(self._entry["answer"])]

    def get_info(self, valid: bool) -> Info:
        score = self._score or 0.0
        forms = [] if self._score is not None else ["..."]
        state = f"{self._score}"
        won = score >= 1.0
        return {
            "task": self.task_id,
            "state": state,
            "free_actions": forms,
            "valid": valid,
            "score": score,
            "won": won,
        }


class ArenaGame(gymnasium.Env[str, str]):
    """A game of textarena for one player; its reward comes at the end."""

    def __init__(self, name: str) -> None:
        from turncredit.envs.spaces import Text

        self.observation_space, self.action_space = Text(), Text()
        self._game = importlib.import_module("textarena").make(name)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._game.reset(num_players=1, seed=seed)
        return str(self._game.get_observation()[1]), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        done, _ = self._game.step(action=action)
        if not done:
            return str(self._game.get_observation()[1]), 0.0, False, False, {}
        rewards = self._game.close()
        rewards = rewards[0] if isinstance(rewards, tuple) else rewards
        return "The game is over.", float((rewards or {}).get(0, 0.0)), True, False, {}


@cache
def games_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@cache
def compiled_game(number: int, rooms: int, objects: int, steps: int) -> str:
    """Return the file of a generated game of TextWorld, whose compiler takes seconds."""
    textworld = importlib.import_module("textworld")
    options = textworld.GameOptions()
    options.seeds, options.path = number, str(Path(games_folder().name) / f"{number}.z8")
    options.nb_rooms, options.nb_objects, options.quest_length = rooms, objects, steps
    return str(textworld.generator.compile_game(textworld.generator.make_game(options), options))


class WrittenGame(gymnasium.Env[str, str]):
    """Generated games of TextWorld."""

    def __init__(self, games: int = 4) -> None:
        from turncredit.envs.spaces import Text

        self.observation_space, self.action_space = Text(), Text()
        self._ids = [str(number) for number in range(games)]
        self._games: dict[str, Any] = {}
        self._state: Any = None

    def task_ids(self, count: int | None = None) -> list[str]:
        return self._ids[:count]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        task = (options or {}).get("task") or self._ids[int(self.np_random.integers(len(self._ids)))]
        if task not in self._ids:
            raise UnknownTask.of(task, self._ids, "the games")
        if task not in self._games:
            file = compiled_game(int(task), rooms=3, objects=4, steps=3)
            self._games[task] = importlib.import_module("textworld").start(file, request_infos=self._infos())
        self._state = self._games[task].reset()
        return str(self._state.feedback), self._info(task)

    def _infos(self) -> Any:
        names = ("admissible_commands", "policy_commands", "won", "max_score", "description", "inventory")
        return importlib.import_module("textworld").EnvInfos(**dict.fromkeys(names, True))

    def _info(self, task: str) -> dict[str, Any]:
        self._task, state = task, self._state
        return {
            "task": task,
            "admissible_actions": list(state.admissible_commands or []),
            "state": f"{state.description}\n{state.inventory}\n{state.won}",
            "won": bool(state.won),
        }

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        before = self._state.score or 0
        self._state, score, done = self._games[self._task].step(action)
        return str(self._state.feedback), float((score or 0) - before), bool(done), False, self._info(self._task)

    def plan(self) -> list[str]:
        return list(self._state.policy_commands or [])


class Page(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A task of BrowserGym with text for observations: the goal and the page's accessibility tree."""

    def __init__(self, name: str) -> None:
        from turncredit.envs.spaces import Text

        importlib.import_module("browsergym.miniwob")
        super().__init__(gymnasium.make(f"browsergym/miniwob.{name}", headless=True))
        self.observation_space, self.action_space = Text(), Text()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, _ = self.env.reset(seed=seed)
        return self._seen(observation)

    def _seen(self, observation: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        tree = importlib.import_module("browsergym.utils.obs").flatten_axtree_to_str(observation["axtree_object"])
        elements = observation["extra_element_properties"].items()
        clicks = [f"click('{name}')" for name, element in elements if element["clickable"]]
        texts = [observation["goal"], tree, observation["last_action_error"]]
        return "\n".join(filter(None, texts)), {"admissible_actions": clicks, "free_actions": ["..."]}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, _ = self.env.step(action)
        text, info = self._seen(observation)
        return text, float(reward), terminated, truncated, info


class BoardGame(gymnasium.Env[Any, Any]):
    """A classic game of PettingZoo against an opponent that plays at random: 1 for a win, -1 for a loss."""

    def __init__(self, name: str) -> None:
        self._game = importlib.import_module(f"pettingzoo.classic.{name}").env()
        self._game.reset(seed=0)
        agent = self._game.possible_agents[0]
        self.action_space = self._game.action_space(agent)
        self.observation_space = self._game.observation_space(agent)["observation"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._game.reset(seed=seed)
        return self._seen()

    def _seen(self) -> tuple[Any, dict[str, Any]]:
        observation = self._game.observe(self._game.possible_agents[0])
        actions = [int(action) for action in np.flatnonzero(observation["action_mask"])]
        return np.array(observation["observation"]), {"admissible_actions": actions}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._game.step(action)
        me = self._game.possible_agents[0]
        while self._game.agents and self._game.agent_selection != me and not self._over():
            mask = self._game.observe(self._game.agent_selection)["action_mask"]
            self._game.step(int(self.np_random.choice(np.flatnonzero(mask))))
        over = self._over()
        reward = float(self._game.rewards.get(me, 0.0)) if over else 0.0
        observation, info = self._seen()
        return observation, reward, over, False, info

    def _over(self) -> bool:
        return any(self._game.terminations.values()) or any(self._game.truncations.values())


class Case:
    """An environment of the table: name, package, how it is made, the return of a solved episode, how much is tried."""

    def __init__(
        self,
        name: str,
        package: str,
        make: Callable[[], Any],
        best: float | None = None,
        module: str | None = None,
        effort: Effort = EFFORT,
    ) -> None:
        self.name, self.package, self.make, self.best, self.module = name, package, make, best, module or package
        self.effort = effort


def gym_env(name: str, module: str = "gymnasium", **options: Any) -> Any:
    importlib.import_module(module)
    return gymnasium.make(name, **options)


REASONING: Final = (
    *("chain_sum", "letter_counting", "knights_knaves", "propositional_logic", "word_sorting", "countdown"),
    *("syllogism", "coin_flip", "mini_sudoku", "rectangle_count", "sentence_reordering", "string_insertion"),
)
ARENA: Final = ("GuessTheNumber-v0", "FrozenLake-v0")
PAGES: Final = ("click-test", "click-button", "click-checkboxes", "enter-text")
GRIDS: Final = ("MiniGrid-Empty-5x5-v0", "MiniGrid-DoorKey-5x5-v0", "MiniGrid-GoToDoor-5x5-v0", "BabyAI-GoToRedBall-v0")
CASES: Final = (
    Case("FrozenLake-v1", "gymnasium", partial(gym_env, "FrozenLake-v1")),
    Case("FrozenLake-v1 (not slippery)", "gymnasium", partial(gym_env, "FrozenLake-v1", is_slippery=False)),
    Case("Taxi-v4", "gymnasium", partial(gym_env, "Taxi-v4"), 15.0),
    Case("Blackjack-v1", "gymnasium", partial(gym_env, "Blackjack-v1")),
    Case("CartPole-v1", "gymnasium", partial(gym_env, "CartPole-v1"), 500.0),
    *(Case(name, "minigrid", partial(gym_env, name, "minigrid")) for name in GRIDS),
    *(Case(name, "reasoning-gym", partial(ReasoningTask, name), module="reasoning_gym") for name in REASONING),
    *(Case(name, "textarena", partial(ArenaGame, name), 1.0) for name in ARENA),
    Case("TextWorld, 3 rooms, 3 steps", "textworld", WrittenGame),
    *(
        Case(f"miniwob.{name}", "browsergym-miniwob", partial(Page, name), 1.0, "browsergym.miniwob", Effort.light())
        for name in PAGES
    ),
    *(Case(name, "pettingzoo", partial(BoardGame, name), 1.0) for name in ("tictactoe_v3", "connect_four_v3")),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="only environments whose package or name holds this")
    parser.add_argument("--server", metavar="NAME=URL", help="an OpenEnv server as well")
    parser.add_argument("--seconds", type=float, default=600, help="most seconds of each environment")
    parser.add_argument("--out", type=Path, help="folder for the reports as JSON")
    options = parser.parse_args()
    print("| environment | package | expert | " + " | ".join(PLAYERS) + " | attack | findings |")
    print("|" + "---|" * (len(PLAYERS) + 5))
    for case in (*CASES, *_served(options.server)):
        if options.only not in f"{case.package} {case.module} {case.name}":
            continue
        try:
            importlib.import_module(case.module)
        except ImportError as error:
            print(f"| {case.name} | {case.package} is not installed ({error}) |")
            continue
        began = time.perf_counter()
        try:
            report = check_env(
                case.make, effort=case.effort, bounds=RewardBounds(best=case.best), seconds=options.seconds
            )
        except Exception as error:
            print(f"| {case.name} | {case.package} | cannot be checked: {type(error).__name__}: {error} |", flush=True)
            continue
        print(row(case, report), flush=True)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            document = report.document() | {"name": case.name, "seconds": time.perf_counter() - began}
            path = options.out / f"{case.name.replace(' ', '_')}.json"
            path.write_text(json.dumps(document, indent=1), encoding="utf-8")


def _served(named: str | None) -> Iterator[Case]:
    """Yield the case of an OpenEnv server; its package is installed where it runs, and need not be here."""
    if named:
        name, _, url = named.partition("=")
        yield Case(name, "turncredit", partial(gym_env, "turncredit/OpenEnv-v0", "turncredit.envs", url=url))


def row(case: Case, report: CheckReport) -> str:
    """Return a line of the table."""
    package = (
        f"{case.package} {importlib.metadata.version(case.package)}" if case.package != "turncredit" else "a server"
    )
    expert = report["oracle"].values.get("returns")
    best = f"{np.mean(expert):.2f}" if isinstance(expert, list) else "-"
    shares = [_share(report, player) for player in PLAYERS]
    reached = report["attack"].values.get("shares")
    attack = f"{max(reached):.2f}" if isinstance(reached, list) else report["attack"].outcome
    findings = [
        f"{r.rule} {r.outcome}" for r in report.results if r.rule in RULES and r.outcome in ("failed", "warned")
    ]
    findings += [f"{rule} cut short" for rule in report.cut_short if rule in RULES]
    cells = [case.name, package, best, *shares, attack, ", ".join(findings) or "-"]
    return "| " + " | ".join(cells) + " |"


def _share(report: CheckReport, player: str) -> str:
    value = report[player].values.get("share")
    return f"{value:.2f}" if isinstance(value, float) else "-"


if __name__ == "__main__":
    main()
