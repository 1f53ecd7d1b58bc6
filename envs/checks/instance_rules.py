"""Rules about instances: pickling, long episodes, rendering, closing."""

from __future__ import annotations

import pickle
import statistics
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import gymnasium
import numpy as np

from turncredit.envs.checks.contract_rule import (
    ContractRule,
    RuleFailed,
    RuleSkipped,
    all_episodes,
    failed,
    free_script,
    raises,
)
from turncredit.envs.checks.episode_data import Crash, ProbeEpisode, ProbeStep, cut, difference, same, script
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.errors import EnvError
from turncredit.envs.info import Environment

__all__ = ["RULES"]


def pickling(explorer: Explorer) -> str:
    """Observations, info and spec survive pickling; an unpickled instance continues like the original."""
    episode = max(all_episodes(explorer), key=lambda e: len(e.actions))
    for moment in episode.moments:
        for name, value, at in (("observation", moment.observation, 0), ("info", moment.info, 4)):
            problem = _pickle_problem(value)
            if problem:
                claim = f"import pickle\n\nassert pickle.loads(pickle.dumps(answers[-1][{at}])) == answers[-1][{at}]"
                raise failed(explorer, episode, moment.turn, f"the {name} of turn {moment.turn} {problem}", claim)
    if explorer.env.spec is not None and (problem := _pickle_problem(explorer.env.spec)):
        code = f"import pickle\n\n{explorer.source.code}\n\nassert pickle.loads(pickle.dumps(env.spec)) == env.spec\n"
        raise RuleFailed(f"the spec {problem}", code)
    half = len(episode.actions) // 2
    explorer.play(episode.task, episode.actions[:half])
    try:
        frozen = pickle.dumps(explorer.env)
    except Exception as error:
        return f"observations, info and spec; an instance does not pickle ({type(error).__name__}: {error})"
    mismatch = _restored_differs(frozen, episode, half)
    if mismatch:
        claim = (
            "import pickle\n\n"
            f"restored = pickle.loads(pickle.dumps(env))\nfor action in {list(episode.actions[half:])!r}:\n"
            "    one, other = env.step(action), restored.step(action)\n"
            "    assert one[:4] == other[:4] and one[4].get('state') == other[4].get('state')"
        )
        raise failed(
            explorer, episode, half, f"an instance pickled at turn {half} continues differently: {mismatch}", claim
        )
    return f"an instance pickled at turn {half} of {len(episode.actions)} went on as the original"


def _restored_differs(frozen: bytes, episode: ProbeEpisode, half: int) -> str | None:
    """Return how an unpickled instance differs from the episode, or None."""
    try:
        env: Environment = pickle.loads(frozen)
        for turn, action in enumerate(episode.actions[half:], start=half + 1):
            observation, reward, terminated, truncated, info = env.step(action)
            other = ProbeStep(turn, observation, reward, bool(terminated), bool(truncated), info)
            if mismatch := difference(episode.moments[turn], other):
                return f"at turn {turn}, {mismatch}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _pickle_problem(value: object) -> str | None:
    """Return what pickling does to a value, or None if it comes back equal."""
    try:
        again = pickle.loads(pickle.dumps(value))
    except Exception as error:
        return f"does not pickle ({type(error).__name__}: {error})"
    return None if same(again, value) else "is different after pickling"


_SHORTEST: Final = 16


def growth(explorer: Explorer) -> str:
    """Observations do not grow with the number of turns."""
    if not isinstance(explorer.episodes[explorer.tasks[0]][0].moments[0].observation, str):
        raise RuleSkipped("observations are not text")
    best = max((_long_walk(explorer, task) for task in explorer.tasks), key=lambda e: len(e.actions))
    lengths = [len(moment.observation) for moment in best.moments[1:]]
    if len(lengths) < _SHORTEST:
        unlimited = "" if explorer.source.limit is None else ", played without the limit of turns"
        raise RuleSkipped(f"the longest of some episodes had {len(lengths)} of {_SHORTEST} turns{unlimited}")
    size = len(lengths) // 4
    quarters = [statistics.median(lengths[i * size : (i + 1) * size]) for i in range(4)]
    rising = all(a < b for a, b in pairwise(quarters))
    text = f"{len(lengths)} turns, quarter medians {', '.join(f'{q:g}' for q in quarters)} characters"
    # Twice as long, and longer in every quarter: typical of a repeated history, unlike random places.
    if rising and quarters[-1] >= 2 * quarters[0]:
        claim = f"n = [len(a[0]) for a in answers[1:]]\nassert sum(n[-{size}:]) < 2 * sum(n[:{size}]), n"
        raise RuleFailed(
            f"observations grow with the number of turns: {text}", free_script(explorer, best.task, claim, best.actions)
        )
    return f"{text}, longest {max(lengths):,}"


def _long_walk(explorer: Explorer, task: str | None) -> ProbeEpisode:
    """Return the longest of some random episodes that avoid the actions that ended earlier ones."""
    fatal: set[tuple[object, object]] = set()
    best: ProbeEpisode | None = None
    for attempt in range(12):
        rng = np.random.default_rng([explorer.seed, attempt])
        choose = explorer.chooser(rng)

        def careful(moment: ProbeStep, taken: int, choose: Callable[[ProbeStep, int], object] = choose) -> object:
            for _ in range(8):
                action = choose(moment, taken)
                if (moment.key, action) not in fatal:
                    return action
            return explorer.foreign

        episode = explorer.walk(task, careful, explorer.effort.long, env=explorer.free)
        if best is None or len(episode.actions) > len(best.actions):
            best = episode
        if not episode.last.over:
            break
        fatal.add((episode.moments[-2].key, episode.actions[-1]))
    assert best is not None
    return best


def close(explorer: Explorer) -> str:
    """close() may be called twice, even on an instance that was never reset."""
    env = explorer.source.build()
    for call in ("first", "second"):
        if message := raises(env.close):
            raise RuleFailed(
                f"the {call} close() raised {message}", f"{explorer.source.code}\n\nenv.close()\nenv.close()\n"
            )
    return "twice"


def render(explorer: Explorer) -> str:
    """render() can be called after reset() and after a step, in every mode that the metadata name."""
    named = [mode for mode in explorer.env.metadata.get("render_modes") or [] if isinstance(mode, str)]
    modes = [None, *(mode for mode in named if mode != "human")]  # "human" opens a window
    done = []
    for mode in modes:
        env = explorer.env if mode is None else _rendering(explorer, mode)
        if env is None:
            continue
        try:
            for actions in ((), explorer.episodes[explorer.tasks[0]][-1].actions[:1]):
                explorer.play(explorer.tasks[0], actions, env=env)
                with warnings.catch_warnings():  # Gymnasium's, that no mode was given
                    warnings.simplefilter("ignore")
                    picture = env.render()
                if mode == "ansi" and not isinstance(picture, str):
                    raise TypeError(f"it returned {type(picture).__name__}, not str")
                if mode == "rgb_array" and not (isinstance(picture, np.ndarray) and picture.ndim == 3):
                    raise TypeError(f"it returned {type(picture).__name__}, not an array [H, W, 3]")
        except NotImplementedError:
            if mode is not None or named:
                raise _not_rendered(explorer, mode, actions, "NotImplementedError") from None
            raise RuleSkipped("the environment has no render()") from None
        except Crash:
            raise
        except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
            done.append(f"{mode} needs a package that is missing ({cut(str(error), 60)})")
            continue
        except Exception as error:
            raise _not_rendered(explorer, mode, actions, f"{type(error).__name__}: {error}") from error
        finally:
            if env is not explorer.env:
                env.close()
        done.append("without a mode" if mode is None else mode)
    return ", ".join(done)


def _rendering(explorer: Explorer, mode: str) -> Environment | None:
    """Return an instance with a render mode; None where the constructor takes none."""
    try:
        return explorer.source.build(render_mode=mode)
    except (TypeError, EnvError):
        return None


def _not_rendered(explorer: Explorer, mode: str | None, actions: Sequence[object], problem: str) -> RuleFailed:
    code = explorer.source.code if mode is None else explorer.source.code_with("render_mode", mode)
    text = f"render() raised {problem}" + (f" in the mode {mode!r}" if mode else "")
    claim = "picture = env.render()" + ("\nassert isinstance(picture, str), type(picture)" if mode == "ansi" else "")
    return RuleFailed(text, script(code, explorer.tasks[0], explorer.seed, claim, runs={"answers": actions}))


RULES: Final = (
    ContractRule(
        "pickling", "observations, info, spec and instances survive pickling", pickling, ("protocol", "repeatable")
    ),
    ContractRule("growth", "observations do not grow with the number of turns", growth, ("protocol",)),
    ContractRule("render", "render() can be called in every mode", render, ("protocol",)),
    ContractRule("close", "close() may be called twice", close),
)
