"""Annotators: what is asked and read, that an answer is paid once, and that failures are data."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from test_experience import episode

from turncredit.agents.errors import RequestFailed
from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group
from turncredit.credit.errors import BadOption
from turncredit.curriculum.annotation import Annotator, Notes, annotated
from turncredit.curriculum.annotators import embeddings
from turncredit.curriculum.annotators.catalogue import CATALOGUE, get_annotator
from turncredit.curriculum.annotators.transcripts import transcript
from turncredit.curriculum.errors import CurriculumError
from turncredit.curriculum.reward_rules.catalogue import get_reward_rule
from turncredit.engines.base import Completion, Sampler
from turncredit.training.errors import TrainingError
from turncredit.training.sampling.asking import Annotations, AnswerFile

GROUPS = [Group("a", (episode("a#0@7", 1.0), episode("a#1@7", 0.0))), Group("b", (episode("b#0@7", 1.0),))]


class Judge(Sampler):
    """Answers with what a function returns for the text of a question; raises what is an exception."""

    def __init__(self, answer):
        self.answer, self.texts = answer, []

    async def sample(self, request):
        text = request.messages[-1]["content"]
        self.texts.append(text)
        await asyncio.sleep(0)
        answer = self.answer(text)
        if isinstance(answer, Exception):
            raise answer
        return Completion((), (), answer, 0, "stop", {"request_cost": 0.25})


def annotations(tmp_path, judge, *annotators):
    return Annotations(annotators, lambda: judge, "judge", AnswerFile(tmp_path / "annotations" / "answers.jsonl"))


def column(groups, notes, name):
    return annotated(steps_of(groups), notes).column(name).tolist()


def test_a_judge_scores_episodes_and_the_answer_is_paid_once(tmp_path):
    judge = Judge(lambda text: "8 of 10")
    notes, costs = annotations(tmp_path, judge, get_annotator("judge")).of(GROUPS)
    assert column(GROUPS, notes, "judge") == [0.8] * 6
    assert len(judge.texts) == 1, "three equal episodes are one question"
    assert costs == {"questions": 1, "questions_failed": 0, "questions_cost": 0.25}
    silent = Judge(lambda text: pytest.fail("it was asked again"))
    again, costs = annotations(tmp_path, silent, get_annotator("judge")).of(GROUPS)
    assert column(GROUPS, again, "judge") == [0.8] * 6
    assert costs["questions"] == 0


def test_a_judge_of_turns_sees_the_turns_before(tmp_path):
    judge = Judge(lambda text: str(text.count("Observation:")))
    notes, _ = annotations(tmp_path, judge, get_annotator("judge", per="turn", column="metric")).of(GROUPS)
    assert column(GROUPS, notes, "metric") == [0.1, 0.2] * 3


def test_pairs_are_compared_in_both_orders(tmp_path):
    partial = Judge(lambda text: "1")  # always the first: no episode is preferred in both orders
    notes, _ = annotations(tmp_path, partial, get_annotator("pairwise")).of(GROUPS)
    assert sorted(column(GROUPS[:1], notes, "preferred")) == [-1, -1, 0, 0]
    assert column(GROUPS[1:], notes, "preferred") == [0, 0]  # alone, and so the reference


def test_failures_are_data_up_to_a_share(tmp_path):
    many = [Group("a", tuple(replace(episode(f"a#{n}@7", 1.0), final_observation=str(n)) for n in range(10)))]
    judge = Judge(lambda text: RequestFailed("busy") if "Observation: 9" in text else "10")
    notes, costs = annotations(tmp_path, judge, get_annotator("judge", missing=0.3)).of(many)
    assert column(many, notes, "judge") == [1.0] * 18 + [0.3] * 2
    assert costs["questions_failed"] == 1
    broken = Judge(lambda text: RequestFailed("busy"))
    with pytest.raises(TrainingError, match="1 of 1 questions of the annotators had no answer from judge"):
        annotations(tmp_path / "other", broken, get_annotator("judge")).of(GROUPS[:1])


class Letters:
    """Stands for a sentence encoder: how often each of two letters comes, to length 1."""

    def __init__(self):
        self.texts = []

    def __call__(self, texts):
        self.texts += texts
        counts = np.array([[text.count("e"), text.count("o")] for text in texts], dtype=np.float64).reshape(-1, 2)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)


@pytest.mark.parametrize("of", ["answers", "answer", "observation"])
def test_embeddings_of_what_an_episode_saw_and_did(tmp_path, monkeypatch, of):
    encoder = Letters()
    monkeypatch.setattr(embeddings, "_encoder", lambda folder: encoder)
    notes, costs = annotations(tmp_path, None, get_annotator("embed", of=of)).of(GROUPS)
    vectors = annotated(steps_of(GROUPS), notes).column("metric")
    members = [member for group in GROUPS for member in group.trajectories]
    texts = [
        {"answers": "\n".join(turn.text for turn in member.turns), "answer": turn.text}.get(of, turn.observation)
        for member in members
        for turn in member.turns
    ]
    np.testing.assert_allclose(vectors, Letters()(texts))
    assert sorted(encoder.texts) == sorted(set(texts))  # each once
    assert costs["questions"] == 0


def test_a_missing_encoder_is_one_sentence(tmp_path):
    with pytest.raises(BadOption, match=f"model: {tmp_path} has no model: config.json is missing"):
        get_annotator("embed", model=str(tmp_path))


def test_an_answer_that_was_half_written_is_asked_again(tmp_path):
    judge = Judge(lambda text: "5")
    annotations(tmp_path, judge, get_annotator("judge")).of(GROUPS)
    path = tmp_path / "annotations" / "answers.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    again = Judge(lambda text: "5")
    annotations(tmp_path, again, get_annotator("judge")).of(GROUPS)
    assert len(again.texts) == 1
    last = Judge(lambda text: pytest.fail("it was asked again"))
    annotations(tmp_path, last, get_annotator("judge")).of(GROUPS)


def test_texts_and_tokens_tell_some_columns(tmp_path):
    turn = replace(GROUPS[0].trajectories[0].turns[0], response=(9, 1, 2, 1, 2), finish="length")
    looping = replace(episode("a#2@7", 0.0), turns=(turn,))
    groups = [Group("a", (*GROUPS[0].trajectories, looping))]
    notes, costs = annotations(tmp_path, None, *map(get_annotator, ("repeated", "answers", "text_vector"))).of(groups)
    steps = annotated(steps_of(groups), notes)
    assert steps.column("repeated").tolist() == [0.0] * 4 + [0.8]
    assert steps.ids("label").tolist() == ["open"] * 5
    assert steps.column("metric").shape == (5, 64)
    assert costs["questions"] == 0
    changed, _ = get_reward_rule("majority")(steps)
    assert changed.reward.sum() == 3.0


def test_transcripts_show_observations_and_answers():
    text = transcript(GROUPS[0].trajectories[0])
    assert text.splitlines() == ["Observation: a door", "Agent: open"] * 2
    assert transcript(GROUPS[0].trajectories[0], 0).splitlines() == ["Observation: a door", "Agent: open"]


@pytest.mark.parametrize("name", [annotator.name for annotator in CATALOGUE])
def test_every_annotator_accepts_no_group_and_checks_its_options(name):
    annotator = get_annotator(name)
    for option, default in annotator.options.items():
        if isinstance(default, int | float):
            with pytest.raises(BadOption, match=option):
                get_annotator(name, **{option: "many"})


def test_notes_from_outside_are_checked():
    steps = steps_of(GROUPS)
    with pytest.raises(CurriculumError, match="turn 0 of a#0@7 has no value in the column 'mood'"):
        annotated(steps, [Notes({"mood": {}})])
    wrong = Annotator("mine", "Mine", None, "our reading", "", lambda groups: 3)
    with pytest.raises(CurriculumError, match="must return Notes, got int"):
        asyncio.run(wrong(GROUPS, None))
    numbers = annotated(steps, [Notes({"mood": {("a#0@7", 0): 1.5}}, {"mood": 0.0})]).column("mood")
    assert numbers.tolist() == [1.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert numbers.dtype == np.float64
