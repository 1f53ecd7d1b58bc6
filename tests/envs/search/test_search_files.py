"""Passages and questions from files: FlashRAG's format, invalid lines, duplicate ids, real data."""

import json
import pickle

import pytest
from search_worlds import QUESTIONS, real_data, write_files

from turncredit.envs.errors import GameFileError, NoGames, UnknownOption, UnknownTask
from turncredit.envs.search import SearchEnv, load_questions, oracle_answer, recall
from turncredit.envs.search.questions import Question
from turncredit.envs.search.rewards import exact_match
from turncredit.envs.search.sources import QuestionFiles
from turncredit.tools.retrieval import Passage, Passages

BROKEN = ['{"id": "x", "conte', "[1, 2]", '{"id": "y"}', '{"contents": "z"}', '{"id": "a", "contents": "again"}']


@pytest.mark.parametrize("line", BROKEN)
def test_a_broken_passage_is_named_or_skipped(tmp_path, line):
    questions, path = write_files(tmp_path)
    with open(path, "a") as file:
        file.write(line + "\n")
    with pytest.raises(NoGames, match=r"corpus\.jsonl, line 5: .*strict=False"):
        SearchEnv(QuestionFiles(questions, path))
    env = SearchEnv(QuestionFiles(questions, path, strict=False))
    env.reset(options={"task": "q1"})
    assert '(Title: "Red Lamp") Red Lamp is a novel by Ada Marsh.' in env.step("<search>red lamp</search>")[0]


def test_binary_and_missing_files_are_one_sentence(tmp_path):
    questions, _ = write_files(tmp_path)
    path = tmp_path / "c.jsonl"
    path.write_bytes(b"\xff\xff\xff\n" * 3)
    for strict, said in ((True, "line 1"), (False, "has no passages")):
        with pytest.raises(NoGames, match=said):
            SearchEnv(QuestionFiles(questions, path, strict=strict))
    for missing in (tmp_path / "none", tmp_path):
        with pytest.raises(NoGames, match=r"cannot be read|is a directory"):
            SearchEnv(QuestionFiles(questions, missing))
        with pytest.raises(NoGames, match="cannot be read"):
            load_questions(missing)


def test_a_corpus_that_changes_under_an_episode_is_told(tmp_path):
    questions, path = write_files(tmp_path)
    env = SearchEnv(QuestionFiles(questions, path, backoff=0))
    env.reset(options={"task": "q1"})
    with open(path, "r+b") as file:
        file.write(b"!" * 200)
    assert "The search failed" in env.step("<search>red lamp</search>")[0]
    with pytest.raises(NoGames, match="was changed after it was opened"):
        env.reset(options={"task": "q1"})


def test_questions_are_read(tmp_path):
    path, _ = write_files(tmp_path)
    found, skipped = load_questions(path)
    assert skipped == 0
    assert found[1] == Question(
        "q2",
        "Where was the author of Red Lamp born?",
        ("Oakford", "the town of Oakford"),
        ("a", "b"),
        ("Ada Marsh",),
        "bridge",
    )


@pytest.mark.parametrize(
    "line", ["{", "{}", '{"id": "q1", "question": "?", "golden_answers": ["x"]}', '{"question": "?"}']
)
def test_broken_questions_are_named_or_skipped(tmp_path, line):
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps(QUESTIONS[0]) + "\n" + line + "\n")
    with pytest.raises(GameFileError, match="line 2"):
        load_questions(path)
    found, skipped = load_questions(path, strict=False)
    assert (len(found), skipped) == (1, 1)


def test_other_names_of_the_answer_are_read(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "who", "answer": "Ada"}\n{"question": "when", "answer": [1901, "1901 AD"]}\n')
    found, _ = load_questions(path)
    assert [(one.id, one.answers) for one in found] == [("line_1", ("Ada",)), ("line_2", ("1901", "1901 AD"))]


def test_episodes_of_files_are_won_by_the_plan(tmp_path):
    env = SearchEnv(QuestionFiles(*write_files(tmp_path)))
    assert env.task_ids() == ["q1", "q2"]
    for task in env.task_ids():
        env.reset(options={"task": task})
        for action in env.plan():
            _, reward, _, _, info = env.step(action)
        assert (reward, info["won"]) == (1.0, True)
    with pytest.raises(UnknownTask, match="q3"):
        env.reset(options={"task": "q3"})
    assert pickle.loads(pickle.dumps(env)).task.question.id == "q2"


def test_splits_of_a_file_are_disjoint_and_whole(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps({"id": n, "question": "?", "answer": "x"}) + "\n" for n in range(200)))
    _, corpus = write_files(tmp_path)
    parts = {
        split: SearchEnv(QuestionFiles(path, corpus, split=split)).task_ids() for split in ("all", "train", "held_out")
    }
    assert sorted(parts["train"] + parts["held_out"]) == sorted(parts["all"])
    assert 20 < len(parts["held_out"]) < 60
    with pytest.raises(UnknownOption, match="held_out"):
        SearchEnv(QuestionFiles(path, corpus, split="heldout"))


def test_the_oracle_copies_what_stands_in_the_passages():
    question = Question("q", "?", ("the Oakford", "Ash"), gold=("b", "d"))
    passages = [Passage("d", '"Oakford"', "It lies on the river.")]
    assert oracle_answer(question, passages) == "the Oakford"
    assert oracle_answer(question, [Passage("x", "Ashford", "x")]) is None
    assert recall(question, ["d", "x"]) == 0.5


@pytest.mark.parametrize(
    ("name", "count", "oracle"),
    [
        ("nq_oracle", 2655, 0.9928),
        ("hotpot_distractor100", 100, 0.94),
        ("squad2_dev", 2910, 0.99),
        ("xquad_en", 1190, 0.9849),
    ],
)
def test_real_questions_have_their_gold_passages(name, count, oracle):
    corpus = Passages.open(real_data("corpus.jsonl"))
    questions, skipped = load_questions(real_data(f"{name}.jsonl"))
    assert (len(corpus), len(questions), skipped) == (10526, count, 0)
    assert all(one.gold and all(id in corpus for id in one.gold) for one in questions)
    said = [oracle_answer(one, [corpus[id] for id in one.gold]) for one in questions]
    right = sum(exact_match(a, one.answers) for a, one in zip(said, questions, strict=True))
    assert right / count == pytest.approx(oracle, abs=5e-4)
