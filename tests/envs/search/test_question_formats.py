"""Questions as they are published: each format gives the same questions, whatever the container."""

import gzip
import json
from pathlib import Path

import pytest
from search_worlds import write_files

from turncredit.envs.errors import GameFileError, NoGames
from turncredit.envs.search import SearchEnv, load_questions, recall
from turncredit.envs.search.question_formats import answers_of
from turncredit.envs.search.questions import Question
from turncredit.envs.search.sources import QuestionFiles
from turncredit.tools.readers import list_in_cell

HOTPOT = {
    "_id": "5a8b57f25542995d1e6f1371",
    "answer": "yes",
    "question": "Were Scott and Ed of the same nationality?",
    "supporting_facts": [["Scott", 0], ["Ed", 0]],
    "context": [["Scott", ["Scott is an American."]], ["Ed", ["Ed was an American."]]],
    "type": "comparison",
    "level": "hard",
}
MUSIQUE = {
    "id": "2hop__13548_13529",
    "paragraphs": [{"idx": 0, "title": "Lionel", "paragraph_text": "...", "is_supporting": True}],
    "question": "When was the person who Messi's goals get compared to signed by Barcelona?",
    "question_decomposition": [],
    "answer": "June 1982",
    "answer_aliases": ["1982", "June of 1982"],
    "answerable": True,
}
SQUAD = {"id": "56", "title": "Normans", "context": "...", "question": "Where?", "answers": {"text": ["France"]}}
TRIVIA = {"question_id": "tc_1", "question": "Who?", "answer": {"value": "Ada", "aliases": ["Ada M."], "type": "x"}}
POPQA = {"id": 4222, "subj": "George", "question": "What is his job?", "possible_answers": '["politician", "polit."]'}
STRATEGY = {"qid": "4fd", "question": "Did they?", "answer": False}
R1 = {
    "data_source": "nq",
    "prompt": [{"role": "user", "content": "Answer the given question. Question: who got it?\n"}],
    "ability": "fact-reasoning",
    "reward_model": {"style": "rule", "ground_truth": {"target": ["Wilhelm", "Röntgen"]}},
    "extra_info": {"index": 7, "split": "train"},
}


@pytest.mark.parametrize(
    ("record", "question"),
    [
        (HOTPOT, Question(HOTPOT["_id"], HOTPOT["question"], ("yes",), kind="comparison")),
        (MUSIQUE, Question(MUSIQUE["id"], MUSIQUE["question"], ("June 1982", "1982", "June of 1982"))),
        (SQUAD, Question("56", "Where?", ("France",))),
        (TRIVIA, Question("tc_1", "Who?", ("Ada", "Ada M."))),
        (POPQA, Question("4222", "What is his job?", ("politician", "polit."))),
        (STRATEGY, Question("4fd", "Did they?", ("no", "false"))),
        (R1, Question("nq_train_7", "who got it?", ("Wilhelm", "Röntgen"))),
        ({**R1, "question": "who?", "golden_answers": ["W"], "id": "train_7"}, Question("train_7", "who?", ("W",))),
        ({"question": "who?", "answers": ["a", "b", "a"]}, Question("line_1", "who?", ("a", "b"))),
        ({"question": "year?", "answer": 1982}, Question("line_1", "year?", ("1982",))),
        ({"question": "list?", "answer": "[sic]"}, Question("line_1", "list?", ("[sic]",))),
        ({"question": "who?", "golden_answers": [], "answer": "Ada"}, Question("line_1", "who?", ("Ada",))),
        ({"Question": "who?", "Answer": "Ada"}, Question("line_1", "who?", ("Ada",))),
        ({"Prompt": "who?", "Answer": "Ada", "Unnamed: 0": 3}, Question("line_1", "who?", ("Ada",))),
        ({"task_id": "c6", "Question": "who?", "Level": 1, "Final answer": "[7]"}, Question("c6", "who?", ("[7]",))),
        (
            {"query_id": "9", "query": "who?", "answer": "Ada", "gold_docs": [{"docid": "d4", "text": "Ada."}]},
            Question("9", "who?", ("Ada",), gold=("d4",)),
        ),
        ({"question": "who?", "golden_answers": "['Ada' 'Bea']"}, Question("line_1", "who?", ("Ada", "Bea"))),
        (
            {**R1, "reward_model": {"ground_truth": {"target": "array(['Ada', 'B'], dtype=object)"}}},
            Question("nq_train_7", "who got it?", ("Ada", "B")),
        ),
        ({"problem": "who?", "answer": "Ada", "metadata": "{}"}, Question("line_1", "who?", ("Ada",))),
    ],
    ids=[
        "hotpot",
        "musique",
        "squad",
        "trivia",
        "popqa",
        "boolean",
        "verl",
        "search-r1",
        "answers",
        "number",
        "brackets",
        "empty golden answers",
        "bamboogle",
        "frames",
        "gaia",
        "browsecomp",
        "numpy",
        "search-r1 as text",
        "simpleqa",
    ],
)
def test_a_published_question_is_read(record: dict, question: Question, tmp_path: Path) -> None:
    (path := tmp_path / "q.json").write_text(json.dumps([record], indent=1))
    assert load_questions(path) == ([question], 0)
    (path := tmp_path / "q.jsonl.gz").write_bytes(gzip.compress(json.dumps(record).encode()))
    assert load_questions(path) == ([question], 0)


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        ("['Ada' 'Bea']", ["Ada", "Bea"]),  # numpy's form, which Python reads as one text
        ("['Ada' \"O'Neil\"\n 'Cy, D.']", ["Ada", "O'Neil", "Cy, D."]),
        ("array(['Ada', 'B'], dtype=object)", ["Ada", "B"]),
        ("array(['Ada'], dtype='<U3')", ["Ada"]),
        ("('Ada', 'Bea')", ["Ada", "Bea"]),
        ("['Ada', 'Bea',]", ["Ada", "Bea"]),
        ('["Ada", "Bea"]', ["Ada", "Bea"]),
        ("[]", []),
        ("('Twas night)", "('Twas night)"),
        ("(I Can't) Get (No)", "(I Can't) Get (No)"),
        ("Ada", "Ada"),
    ],
)
def test_a_list_in_a_cell_is_read_whoever_wrote_it(cell: str, texts: object) -> None:
    assert list_in_cell(cell) == list_in_cell(cell, single=True) == texts


@pytest.mark.parametrize("cell", ["['x', None]", "['1990', 1991]", "['a' 'b', 'c']", "['a' ... 'z']", "[nan]"])
@pytest.mark.parametrize("column", ["golden_answers", "possible_answers", "answer"])
def test_a_bracketed_text_that_is_no_list_of_texts_is_refused_with_its_row(
    cell: str, column: str, tmp_path: Path
) -> None:
    records = [{"question": "who?", column: "Ada"}, {"question": "where?", column: cell}]
    (path := tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, records)))
    with pytest.raises(GameFileError, match=r"q\.jsonl, line 2: .*expected a list of texts"):
        load_questions(path)
    questions, left_out = load_questions(path, strict=False)
    assert ([question.answers for question in questions], left_out) == ([("Ada",)], 1)


def test_an_answer_that_is_kept_back_is_left_out_and_counted(tmp_path: Path) -> None:
    records = [{"task_id": name, "Question": "who?", "Final answer": answer} for name, answer in ("a?", "bB", "cC")]
    records[2]["file_name"] = "c.png"  # a file cannot be searched
    (path := tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, records)))
    questions, left_out = load_questions(path)
    assert ([question.id for question in questions], left_out) == (["b"], 2)


def test_questions_in_tables(tmp_path: Path) -> None:
    expected = [Question("1", "who?", ("Ada", "A. M.")), Question("2", "where?", ("Oakford",))]
    (path := tmp_path / "q.csv").write_text('id,question,answers\n1,who?,"[""Ada"", ""A. M.""]"\n2,where?,Oakford\n')
    assert load_questions(path) == (expected, 0)
    polars = pytest.importorskip("polars")
    rows = [{"id": one.id, "question": one.text, "golden_answers": list(one.answers)} for one in expected]
    polars.DataFrame(rows).write_parquet(tmp_path / "q.parquet")
    assert load_questions(tmp_path / "q.parquet") == (expected, 0)
    (path := tmp_path / "nq-test.qa.csv.tsv").write_text("who is it?\t['Ada', \"A. M.\"]\n")
    assert load_questions(path) == ([Question("line_1", "who is it?", ("Ada", "A. M."))], 0)


def test_questions_that_are_marked_as_unanswerable_are_left_out_and_counted(tmp_path: Path) -> None:
    none = [
        {**MUSIQUE, "id": "b", "answerable": False},
        {**SQUAD, "id": "c", "answers": {"text": [], "answer_start": []}},
        {**SQUAD, "id": "d", "is_impossible": True},
    ]
    (path := tmp_path / "q.json").write_text(json.dumps([MUSIQUE, *none]))
    questions, left_out = load_questions(path)
    assert ([question.id for question in questions], left_out) == ([MUSIQUE["id"]], 3)
    path.write_text(json.dumps(none))
    with pytest.raises(NoGames, match="all 3 are marked as unanswerable"):
        load_questions(path)


def test_an_id_that_comes_twice_is_told_under_any_key(tmp_path: Path) -> None:
    (path := tmp_path / "q.json").write_text(json.dumps([HOTPOT, HOTPOT]))
    with pytest.raises(GameFileError, match=f"record 2: invalid record: duplicate id '{HOTPOT['_id']}'"):
        load_questions(path)


def test_any_alias_is_a_right_answer(tmp_path: Path) -> None:
    _, corpus = write_files(tmp_path)
    (path := tmp_path / "musique.jsonl").write_text(json.dumps(MUSIQUE))
    env = SearchEnv(QuestionFiles(path, corpus))
    for answer, reward in (("June 1982", 1.0), ("1982", 1.0), ("1983", 0.0)):
        env.reset(options={"task": MUSIQUE["id"]})
        assert env.step(f"<answer>{answer}</answer>")[1] == reward


def test_queries_of_beir_come_with_their_passages(tmp_path: Path) -> None:
    (path := tmp_path / "queries.jsonl").write_text(
        "\n".join(json.dumps({"_id": id, "text": text, "metadata": {}}) for id, text in [("8", "tea?"), ("9", "rye?")])
    )
    with pytest.raises(NoGames, match=r"queries without answers, as in BEIR, and .*qrels has no passages"):
        load_questions(path)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n8\ta\t1\n8\tb\t2\n8\tc\t0\n7\ta\t1\n")
    questions, _ = load_questions(path)
    assert questions == [Question("8", "tea?", (), ("b", "a"), kind="query")]
    assert recall(questions[0], ["b", "c"]) == 0.5
    with pytest.raises(NoGames, match="relevant passages but without answers"):
        SearchEnv(QuestionFiles(path, write_files(tmp_path)[1]))


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"id": "1", "contents": '"Tea"\nhot'}, "it is a passage of a corpus, not a question"),
        ({"title": "Normans", "paragraphs": []}, "an article of SQuAD's nested JSON"),
        (
            {"prompt": "p", "chosen": "c"},
            r"expected a question as in FlashRAG, .*; BEIR \(_id, text\); .* the keys prompt",
        ),
        ({"question": "who?"}, "it has no question or no answer"),
        ({"question": "who?", "answer": ["", " "]}, "it has no question or no answer"),
    ],
)
def test_other_records_are_one_sentence(record: dict, sentence: str, tmp_path: Path) -> None:
    (path := tmp_path / "q.jsonl").write_text(json.dumps(record))
    with pytest.raises(GameFileError, match=sentence) as error:
        load_questions(path)
    assert len(str(error.value).splitlines()) == 1


def test_answers_keep_their_order_and_are_not_empty() -> None:
    assert answers_of([" ", "b", None, ["a", "b"], {"aliases": ["c"], "value": "d"}, True]) == (
        "b",
        "a",
        "d",
        "c",
        "yes",
        "true",
    )


def test_original_files_of_hotpotqa_and_nq_are_read(data_dir: Path) -> None:
    questions, _ = load_questions(data_dir / "search" / "hotpot_dev_v1_simplified.json")
    assert (len(questions), questions[0].answers, questions[0].kind) == (7405, ("yes",), "comparison")
    assert len(load_questions(data_dir / "search" / "NQ-open.dev.jsonl")[0]) > 1000
