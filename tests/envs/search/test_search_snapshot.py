"""Snapshots of search episodes: the same continuation in another environment and process."""

from __future__ import annotations

import functools
import json
import pickle
import re
import subprocess
import sys
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_worlds import PASSAGES, QUESTIONS, write_files
from toys.forgeries import forged

from turncredit.envs import BadSnapshot, EnvError, HasSnapshot, NotReset, branch, load, make, save
from turncredit.envs.search import SearchEnv
from turncredit.envs.search.env import from_keys
from turncredit.envs.search.sources import GeneratedQuestions, QuestionFiles
from turncredit.envs.snapshot import pack
from turncredit.tools.retrieval import Passage

KINDS: dict[str, dict[str, Any]] = {
    "tags": {"level": "tiny"},
    "brackets": {"level": "tiny", "form": "brackets", "reward": "e-grpo", "split": "held_out"},
    "format": {"level": "tiny", "reward": "format", "reward_options": {"retrieval": 0.1}},
    "counted": {"level": "tiny", "reward": "graphrag", "max_searches": 3, "topk": 1},
    "twice": {"level": "tiny", "reward": "em", "reward_options": {"two_answers": True}, "instructions": False},
}
ODD_WORDS = ["", "x", "\ud800", "zzz", "<search></search>", "<search>mayor</search>", "search[mayor]", "<answer>"]


def choose(info: dict[str, Any], rng: Random) -> str:
    """An action: mostly one of those listed, now and then some words."""
    listed = info["admissible_actions"]
    return rng.choice(listed) if listed and rng.random() < 0.7 else rng.choice(ODD_WORDS)


def play(env: Any, info: dict[str, Any], seed: int, turns: int) -> list[Any]:
    """What random play brings; a step after the end brings the name of what it raises."""
    rng = Random(seed)
    answers: list[Any] = []
    for _ in range(turns):
        try:
            answers.append(env.step(choose(info, rng)))
            info = answers[-1][4]
        except EnvError as error:
            return [*answers, type(error).__name__]
    return answers


def standing(env: Any, seed: int, turns: int) -> tuple[Any, dict[str, Any]]:
    """Play to a moment; what is seen there."""
    observation, info = env.reset(seed=seed)
    for answer in play(env, info, seed, turns):
        if not isinstance(answer, str):
            observation, info = answer[0], answer[4]
    return observation, info


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), turns=st.integers(0, 6), future=st.integers(0, 10**6))
def test_any_moment_has_the_same_future_in_a_fresh_environment(kind: str, seed: int, turns: int, future: int):
    env, other = from_keys(**KINDS[kind], render_mode="ansi"), from_keys(**KINDS[kind], render_mode="ansi")
    observation, info = standing(env, seed, turns)
    data = env.snapshot()
    assert other.restore(data) == (observation, info | {"valid": True})
    assert other.snapshot() == data == env.snapshot()
    assert other.render() == env.render()
    expected = play(env, info, future, 8)
    assert play(other, info, future, 8) == expected
    other.restore(data)
    assert play(pickle.loads(pickle.dumps(other)), info, future, 8) == expected
    other.restore(data)
    assert play(other, info, future, 8) == expected
    assert env.reset() == other.reset()  # what is drawn later is drawn alike


def test_the_turns_that_are_left_are_kept_in_branches():
    env = make("turncredit/Search-v0", **KINDS["tags"])
    _, info = standing(env, 3, 2)
    for one in branch(env, 2):
        assert play(one, info, 1, 6) == play(branch(env, 1)[0], info, 1, 6)
    assert isinstance(env.unwrapped, HasSnapshot)


RESUME = """
import json, sys
from turncredit.envs import load, make
kwargs, actions = json.loads(sys.argv[1])
env = make("turncredit/Search-v0", **kwargs)
seen = load(env, open(sys.argv[2], "rb").read())
print(json.dumps([seen, [env.step(action) for action in actions]]))
"""


def test_another_process_goes_on_with_the_files_elsewhere(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    env = make("turncredit/Search-v0", questions=write_files(here)[0], corpus=write_files(here)[1])
    env.reset(options={"task": "q2"})
    first, *rest = env.get_wrapper_attr("plan")()
    observation, *_, info = env.step(first)
    (tmp_path / "episode").write_bytes(save(env))
    paths = dict(zip(("questions", "corpus"), write_files(there), strict=True))
    code = [sys.executable, "-c", RESUME, json.dumps([paths, rest]), str(tmp_path / "episode")]
    told = json.loads(subprocess.run(code, capture_output=True, check=True, text=True).stdout)
    assert told == json.loads(json.dumps([(observation, info), [env.step(action) for action in rest]]))
    assert told[1][-1][4]["won"]


class Own:
    """A retriever with passages of its own."""

    def find(self, query: str, k: int) -> list[Passage]:
        return [Passage(f"p{len(query)}", f'"{query.title()}"', "Nobody else has it.", 1.0)]


def test_passages_that_only_the_retriever_has_are_kept(tmp_path):
    questions, _ = write_files(tmp_path)
    env, other = (
        SearchEnv(QuestionFiles(questions, retriever=Own())),
        SearchEnv(QuestionFiles(questions, retriever=Own())),
    )
    env.reset(options={"task": "q1"})
    *_, info = env.step("<search>deep sea</search>")
    assert other.restore(env.snapshot())[1] == info
    assert "<search> Deep Sea </search>" in info["admissible_actions"]
    with pytest.raises(BadSnapshot, match="retriever='Own', but this one has retriever='bm25'"):
        SearchEnv(GeneratedQuestions(level="tiny")).restore(
            pack(
                *SearchEnv.SNAPSHOT_FORMAT,
                {**SearchEnv(GeneratedQuestions(level="tiny")).snapshot_arguments(), "retriever": "Own"},
                {},
            )
        )


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"form": "brackets"}, "form='tags', but this one has form='brackets'"),
        ({"tags": "single"}, "tags='first', but this one has tags='single'"),
        ({"instructions": False}, "instructions="),
        ({"reward": "f1"}, "reward='em', but this one has reward='f1'"),
        ({"reward_options": {"two_answers": True}}, "reward_options="),
        ({"topk": 2}, "topk=3, but this one has topk=2"),
        ({"max_searches": 4}, "max_searches=None, but this one has max_searches=4"),
        ({"observation_limit": 100}, "observation_limit=2000, but this one has observation_limit=100"),
        ({"split": "held_out"}, "split='train', but this one has split='held_out'"),
        ({"level": "tiny+hops=1-1"}, "level='tiny', but this one has level='tiny+hops=1-1'"),
    ],
)
def test_other_arguments_are_refused_by_name(other: dict[str, Any], what: str):
    env, there = SearchEnv(GeneratedQuestions(level="tiny")), from_keys(**{"level": "tiny", **other})
    standing(env, 2, 2)
    _, info = standing(there, 3, 2)
    before = there.snapshot()
    with pytest.raises(BadSnapshot, match=re.escape(what)):
        there.restore(env.snapshot())
    assert there.snapshot() == before
    assert play(there, info, 1, 3)


def test_how_often_a_search_is_tried_may_differ():
    env, other = (
        SearchEnv(GeneratedQuestions(level="tiny")),
        SearchEnv(GeneratedQuestions(level="tiny", retries=0, timeout=60), on_failure="raise"),
    )
    _, info = standing(env, 2, 1)
    other.restore(env.snapshot())
    assert play(other, info, 4, 4) == play(env, info, 4, 4)


def test_other_files_are_refused(tmp_path):
    questions, corpus = write_files(tmp_path)
    env = SearchEnv(QuestionFiles(questions, corpus))
    env.reset(options={"task": "q2"})
    data = env.snapshot()
    changed = tmp_path / "changed.jsonl"
    changed.write_text("".join(json.dumps(one | {"golden_answers": ["Ash"]}) + "\n" for one in QUESTIONS))
    with pytest.raises(BadSnapshot, match="question 'q2' differs from the one"):
        SearchEnv(QuestionFiles(changed, corpus)).restore(data)
    changed.write_text("".join(json.dumps(one | {"id": one["id"] + "x"}) + "\n" for one in QUESTIONS))
    with pytest.raises(BadSnapshot, match="does not have the snapshot's task: unknown task 'q2'"):
        SearchEnv(QuestionFiles(changed, corpus)).restore(data)
    changed.write_text("".join(json.dumps({"id": id, "contents": text + "!"}) + "\n" for id, text in PASSAGES))
    with pytest.raises(BadSnapshot, match=r"corpus='4 passages \(\w+\)', but this one has corpus='4 passages"):
        SearchEnv(QuestionFiles(questions, changed)).restore(data)


@functools.cache
def valuable(kind: str) -> tuple[SearchEnv, bytes]:
    """An environment in the middle of an episode, and its snapshot."""
    env = from_keys(**KINDS[kind])
    env.reset(options={"task": env.task_ids(2)[1]})
    env.step("nonsense")
    env.step(env.plan()[0])
    return env, env.snapshot()


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**128, 10**400, -1.5, float("nan"), "", [], [[]], {}, {"a": 1}, {"a": "]</search>"}, ["a", "b"]]),
    st.lists(st.sampled_from(["</answer>", "<think>", "\ud800", ""]), max_size=4),
    st.text(max_size=4),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_forged_values_are_refused_or_can_be_played(kind: str, data: st.DataObject):
    """Whoever writes the digest anew can forge an episode; nothing but an episode or a BadSnapshot comes of it."""
    env, good = valuable(kind)
    try:
        observation, info = env.restore(forged(data, good, ODD))
    except BadSnapshot:
        assert env.snapshot() == good
        return
    assert isinstance(observation, str)
    play(env, info, 0, 4)
    env.restore(good)


def test_nothing_to_save_is_said():
    with pytest.raises(NotReset):
        SearchEnv(GeneratedQuestions(level="tiny")).snapshot()
    with pytest.raises(NotReset):
        save(make("turncredit/Search-v0"))
    with pytest.raises(BadSnapshot, match="the snapshot is of 'Household'"):
        load(SearchEnv(GeneratedQuestions(level="tiny")), pack("Household", 1, {}, {}))
