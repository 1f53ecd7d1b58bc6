"""What generated shell, code and search tasks have in common: digests, levels, ids, arguments, missing sandboxes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from turncredit.envs import EnvError, UnknownOption, UnknownTask, make
from turncredit.envs.bash import BashLevel
from turncredit.envs.bash.filetree import digest as tree_digest
from turncredit.envs.code import CodeLevel
from turncredit.envs.code.grading import GRADES
from turncredit.envs.code.task import fingerprint
from turncredit.envs.levels import BaseLevel
from turncredit.envs.search.generator import SearchLevel
from turncredit.tools.sandbox import NoSandbox

LEVELS: dict[str, type[BaseLevel]] = {"Bash": BashLevel, "Code": CodeLevel, "Search": SearchLevel}
PRESETS = [(name, preset) for name, level in LEVELS.items() for preset in level.presets]


def env(name: str, **options: Any) -> Any:
    return make(f"turncredit/{name}-v0", **options).unwrapped


def unseen(name: str, one: Any, task: str) -> object:
    """Return what an observation does not show: required files, hidden tests, passages."""
    if name == "Bash":
        return tree_digest(one.task.after, one.task.answer)
    if name == "Code":
        return fingerprint(one.source.get(task))
    return [found.text for found in one.task.find(one.task.question.text, 5)]


DIGESTS = {
    "Bash/train/tiny": "acb217ea3cf56321",
    "Bash/held_out/tiny": "444dfbb97e3fe1a6",
    "Bash/train/small": "a91b73f7808bb3d3",
    "Bash/held_out/small": "de46456584c07b72",
    "Bash/train/medium": "d5f6d87fe58cc509",
    "Bash/held_out/medium": "a469f7fcb344e21b",
    "Bash/train/large": "a0319c014cf7eed4",
    "Bash/held_out/large": "a0c326059dfb633f",
    "Code/train/tiny": "34dd6bb2a7c33677",
    "Code/held_out/tiny": "f624ad66814e1508",
    "Code/train/small": "56023c82320be45d",
    "Code/held_out/small": "b4f34bea08fd74d2",
    "Code/train/medium": "1d5bbcacea13f88a",
    "Code/held_out/medium": "eae3cfa4bc871be4",
    "Code/train/large": "92f4a031d0307e0b",
    "Code/held_out/large": "eed93c5613e001d5",
    "Search/train/tiny": "9e98e7a075cf3ec3",
    "Search/held_out/tiny": "5d37edf9cfab02dd",
    "Search/train/small": "ad7c3a8e8e216f8a",
    "Search/held_out/small": "807212829c3ad500",
    "Search/train/medium": "6e3a304399ff8bd2",
    "Search/train/large": "d22d6d91db5da024",
}


@pytest.mark.parametrize("place", DIGESTS)
def test_generated_tasks_never_change(place: str) -> None:
    """Digests of observations, solutions, tests and passages of 14 tasks (2 in the largest search worlds)."""
    name, split, level = place.split("/")
    one = env(name, split=split, level=level)
    shown = []
    for task in one.task_ids(2 if name == "Search" and level in ("medium", "large") else 14):
        observation, info = one.reset(options={"task": task})
        shown.append([task, observation, info["state"], info["task_type"], one.plan(), unseen(name, one, task)])
    assert hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16] == DIGESTS[place]


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_levels_are_read_back_from_their_texts(name: str, preset: str) -> None:
    level = LEVELS[name].presets[preset]
    assert level.text == preset
    assert LEVELS[name].parse(preset) == level
    for field in fields(level):  # type: ignore[arg-type]
        wrong = ("no such", -1) if field.name == "families" and name == "Bash" else (-1, -2)
        with pytest.raises((UnknownOption, TypeError, ValueError)):
            replace(level, **{field.name: wrong})  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("Bash", "hard", "unknown level 'hard' of shell tasks"),
        ("Bash", "tiny+dept=1", "did you mean 'depth'"),
        ("Bash", "tiny+depth", "no value"),
        ("Bash", "tiny+depth=x", "depth"),
        ("Bash", "tiny+depth=9", "depth"),
        ("Bash", "tiny+files=3-2", "files"),
        ("Bash", "tiny+spaces=2", "spaces"),
        ("Bash", "tiny+families=counting", "did you mean 'count'"),
        ("Code", "vast", "unknown level"),
        ("Code", "tiny+bug=1", "did you mean 'bugs'"),
        ("Code", "tiny+bugs=x", "bugs"),
        ("Code", "tiny+bugs=3-2", "bugs"),
        ("Code", "tiny+repair=2", "repair"),
        ("Code", "tiny+lines=2-2", "the maximum of lines must be at least 3"),
        ("Search", "tinny", "did you mean 'tiny'"),
        ("Search", "small+hop=2", "hops"),
        ("Search", "small+hops=0-9", "hops"),
        ("Search", "small+alike=x", "alike"),
        ("Search", "tiny+kinds=9", "kinds"),
        ("Search", "large+passages=900000", "passages"),
    ],
)
def test_invalid_levels_are_named(name: str, text: str, words: str) -> None:
    with pytest.raises(UnknownOption, match=words):
        LEVELS[name].parse(text)


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize(
    "id",
    [
        *("", "x", "nowhere", "\0" * 50, "train/tiny/1", "train/tiny/00001２", "train/tiny/000001\n"),
        *("test/tiny/000001", "train/tiny+alike=0.1+bugs=1-1+depth=0/000001", "train/tiny+nothing=2/000001"),
    ],
)
def test_other_ids_are_refused(name: str, id: str) -> None:
    with pytest.raises((UnknownTask, UnknownOption)):
        env(name, level="tiny").reset(options={"task": id})


@pytest.mark.parametrize("name", LEVELS)
def test_tasks_are_drawn_by_seed_and_listed(name: str) -> None:
    one = env(name, split="held_out", level="tiny")
    assert one.reset(seed=3)[1]["task"] == one.reset(seed=3)[1]["task"]
    assert one.task_ids(2) == ["held_out/tiny/000000", "held_out/tiny/000001"]
    assert len(one.task_ids()) == 1000


class Finds:
    """A retriever without a corpus."""

    def find(self, query: str, k: int) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        *((name, {"split": "test"}, "unknown split 'test'") for name in LEVELS),
        *((name, {"level": "huge"}, "unknown level") for name in LEVELS),
        *((name, {"level": 3}, "level") for name in LEVELS),
        *((name, {"reward": "half"}, "unknown reward 'half'") for name in LEVELS),
        *((name, {"render_mode": "human"}, "render_mode") for name in LEVELS),
        *((name, {"sandbox": "chroot"}, "unknown sandbox 'chroot'") for name in ("Bash", "Code")),
        *((name, {"budget": 5}, "budget must be") for name in ("Bash", "Code")),
        *((name, {"seconds": 0}, "seconds must be") for name in ("Bash", "Code")),
        ("Bash", {"memory": 1}, "memory must be"),
        ("Code", {"shaping": "x"}, "shaping must be"),
        ("Search", {"form": "tag"}, "tags"),
        ("Search", {"tags": "all"}, "first"),
        ("Search", {"retriever": "bm52"}, "bm25"),
        ("Search", {"retriever": 7}, "or be a name such as 'bm25', got 7"),
        ("Search", {"retriever": Finds()}, "a function that makes a retriever of a corpus, got Finds"),
        ("Search", {"topk": 0}, "topk"),
        ("Search", {"observation_limit": True}, "observation_limit"),
        ("Search", {"max_searches": -1}, "max_searches"),
        ("Search", {"retries": -1}, "retries must be"),
        ("Search", {"timeout": 0}, "timeout must be"),
        ("Search", {"backoff": float("nan")}, "backoff must be"),
        ("Search", {"on_failure": "ignore"}, "tell"),
        ("Search", {"instructions": "no place"}, "question"),
        ("Search", {"reward": "em", "reward_options": {"two": 1}}, "two_answers"),
        ("Search", {"corpus": "x"}, "corpus needs questions"),
        ("Search", {"questions": "no such file", "retriever": Finds()}, "cannot be read"),
        ("Search", {"questions": "no such file"}, "corpus"),
        ("Search", {"questions": 7}, "questions must be the path of a file or None, got 7"),
        ("Search", {"strict": 1}, "strict"),
        ("Search", {"model": "m"}, "model requires retriever='dense' or 'hybrid', got 'bm25'"),
        ("Search", {"retriever": "http://x:1", "keep": "k"}, "keep requires one of the retrievers 'bm25', 'dense'"),
        ("Search", {"retriever": lambda corpus: corpus, "keep": "k"}, "keep requires"),
        ("Search", {"retriever": "dense", "model": 3}, "model must be the path of a folder or None, got 3"),
        ("Search", {"keep": ""}, "keep must be the path of a folder or None, got ''"),
        ("Search", {"retriever": "dense", "model": "no-such-folder"}, "no-such-folder"),
    ],
)
def test_invalid_arguments_are_named(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(EnvError, match=words):
        env(name, **options)


@pytest.mark.parametrize(
    ("name", "starts", "action", "words"),
    [
        ("Bash", "bash.task_shells", "ls", "the command could not be run"),
        ("Code", "code.env", "test", "the program could not"),
    ],
)
def test_without_a_sandbox_the_error_says_why(
    monkeypatch: pytest.MonkeyPatch, name: str, starts: str, action: str, words: str
) -> None:
    def nothing(*_: object, **__: object) -> Callable[..., None]:
        raise NoSandbox("no sandbox works here (bwrap: not installed)")

    monkeypatch.setattr(f"turncredit.envs.{starts}.start", nothing)
    GRADES.forget()
    one = env(name, level="tiny", **({"memory": False} if name == "Bash" else {}))
    one.reset(seed=1)
    with pytest.raises(EnvError, match=rf"^{words}.*: no sandbox works here \(bwrap: not installed\)$"):
        one.step(action)
