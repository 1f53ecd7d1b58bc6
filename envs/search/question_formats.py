"""Formats of question files: which keys of a record hold the question, its answers and its passages.

    FlashRAG     {"id", "question", "golden_answers", "gold_doc_ids", "metadata": {"type"}}
    HotpotQA     {"_id", "question", "answer", "type"}, and 2WikiMultihopQA, NQ-open, StrategyQA, BoolQ
    SimpleQA     {"problem", "answer"}
    MuSiQue      {"id", "question", "answer", "answer_aliases", "answerable"}
    SQuAD        {"id", "question", "answers": {"text": [...]}}, and TriviaQA's {"answer": {"value", "aliases"}}
    PopQA        {"id", "question", "possible_answers": "[...]"}
    verl         {"prompt", "reward_model": {"ground_truth": {"target": [...]}}}, as Search-R1 writes it
    GAIA         {"task_id", "Question", "Final answer"}; Bamboogle {"Question", "Answer"}; FRAMES {"Prompt", "Answer"}
    BrowseComp   {"query_id", "query", "answer", "gold_docs": [{"docid"}]}, as BrowseComp-Plus decrypts it
    BEIR         {"_id", "text"}: queries whose relevant passages stand in qrels/*.tsv; they have no answers
    DPR          TSV without a header: question, list of answers

A question that its data set marks as unanswerable becomes None.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from turncredit.envs.search.question import Question
from turncredit.tools.bounded_input import InputError
from turncredit.tools.readers import Fields, RecordFormat, RecordFormats, list_in_cell

__all__ = ["QUESTION_FORMATS", "answers_of"]

_IDS: Final = ("id", "_id", "qid", "question_id", "query_id", "task_id")
_ANSWERS: Final = ("golden_answers", "answers", "answer", "possible_answers")
_QUESTIONS: Final = ("question", "Question", "query", "Prompt")
_SINGLE: Final = ("answer", "Answer", "Final answer")
"""Columns of one answer, which may stand in brackets itself."""
_HIDDEN: Final = "?"
"""The answer of GAIA where it is kept back."""
_ALIASES: Final = ("answer_aliases", "aliases", "answers_aliases")
_TRUTH: Final = {True: ("yes", "true"), False: ("no", "false")}


def answers_of(value: object) -> tuple[str, ...]:
    """Return the answers in a value: strings, numbers and booleans, alone, in lists, or under "text" or "value".

    >>> answers_of(["Ada", 7]), answers_of(True), answers_of({"text": ["Oakford"], "answer_start": [3]})
    (('Ada', '7'), ('yes', 'true'), ('Oakford',))
    """
    if isinstance(value, bool):
        return _TRUTH[value]
    if isinstance(value, int | float):
        return (str(value),)
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    if isinstance(value, list | tuple):
        return _unique(answer for item in value for answer in answers_of(item))
    if isinstance(value, dict):
        names = ("value", "text", "answer", "target", *_ALIASES)
        return _unique(answer for name in names if name in value for answer in answers_of(value[name]))
    return ()


def _unique(answers: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(answers))


def _question(fields: Fields, id: str) -> Question | None:
    """Return the question in a record of any format with the key "question"; None if it is marked as unanswerable."""
    if _is_false(fields.get("answerable")) or fields.get("is_impossible") is True:
        return None
    stored = (answers_of(_list(fields[name], name)) for name in _ANSWERS if name in fields)
    answers = _unique([*next(filter(None, stored), ()), *_aliases(fields)])
    if not answers and isinstance(fields.get("answers"), dict):
        return None  # SQuAD 2.0 marks an unanswerable question so
    return _made(fields, id, fields.get("question"), answers)


def _named_otherwise(fields: Fields, id: str) -> Question | None:
    """Return the question in columns of other names; None if its answer is kept back, or a file belongs to it."""
    text = next(fields[name] for name in _QUESTIONS if name in fields)
    name = next(name for name in _SINGLE if name in fields)
    if fields[name] == _HIDDEN or fields.get("file_name"):
        return None
    documents = fields.get("gold_docs")
    documents = documents if isinstance(documents, list) else []
    gold = answers_of([item.get("docid") for item in documents if isinstance(item, dict)])
    return _made(fields, id, text, answers_of(_list(fields[name], name)), gold)


def _list(value: object, name: str = "") -> object:
    """Return a value in which lists that are written as text are lists."""
    if isinstance(value, dict):
        return {key: _list(item, str(key)) for key, item in value.items()}
    return list_in_cell(value, single=name in (*_SINGLE, "value"))


def _problem(fields: Fields, id: str) -> Question | None:
    return _made(fields, id, fields["problem"], answers_of(_list(fields["answer"], "answer")))


def _made(fields: Fields, id: str, text: object, answers: tuple[str, ...], gold: tuple[str, ...] = ()) -> Question:
    if not isinstance(text, str) or not text.strip() or not answers:
        raise InputError("it has no question or no answer")
    meta = fields.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    kind = meta.get("type", fields.get("type"))
    return Question(
        id=_id(fields, id),
        text=text,
        answers=answers,
        gold=gold or answers_of(_list(fields.get("gold_doc_ids"))),
        entities=answers_of(_list(fields.get("entities", meta.get("entities")))),
        kind=kind if isinstance(kind, str) and kind else "question",
    )


def _id(fields: Fields, id: str) -> str:
    value = next((fields[name] for name in _IDS if name in fields), None)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else id


def _aliases(fields: Fields) -> list[str]:
    return [alias for name in _ALIASES if name in fields for alias in answers_of(_list(fields[name]))]


def _is_false(value: object) -> bool:
    return value is False or (isinstance(value, str) and value.strip().lower() == "false")


def _verl(fields: Fields, id: str) -> Question:
    model, extra = fields["reward_model"], fields.get("extra_info")
    extra = extra if isinstance(extra, dict) else {}
    truth = model.get("ground_truth") if isinstance(model, dict) else None
    text = fields.get("question", extra.get("question"))
    prompt = fields.get("prompt")
    if text is None and isinstance(prompt, list) and prompt and isinstance(prompt[-1], dict):
        content = prompt[-1].get("content")
        text = content.rpartition("Question:")[2].strip() if isinstance(content, str) else None
    index = extra.get("index")
    name = f"{fields.get('data_source', 'verl')}_{extra.get('split', '')}_{index}" if index is not None else id
    return _made(fields, name, text, answers_of(_list(truth)))


def _query(fields: Fields, id: str) -> Question:
    return Question(_id(fields, id), str(fields["text"]), (), kind="query")


def _columns(fields: Fields, id: str) -> Question:
    return _made({}, id, fields["column 1"], answers_of(_list(fields["column 2"])))


def _article(fields: Fields, id: str) -> Question:
    raise InputError("it is an article of SQuAD's nested JSON; use SQuAD with one question a record, as in Parquet")


def _passage(fields: Fields, id: str) -> Question:
    raise InputError("it is a passage of a corpus, not a question")


QUESTION_FORMATS: Final[RecordFormats[Question | None]] = RecordFormats(
    "a question",
    RecordFormat(
        "FlashRAG, HotpotQA, MuSiQue, SQuAD and others",
        f"question, and one of {', '.join(_ANSWERS)}",
        lambda fields: "question" in fields and any(name in fields for name in _ANSWERS),
        _question,
    ),
    RecordFormat(
        "GAIA, Bamboogle, FRAMES and BrowseComp",
        "Question, Prompt or query; Answer or Final answer",
        lambda fields: (
            not {"question", "problem", "reward_model"} & fields.keys()
            and any(name in fields for name in _QUESTIONS)
            and any(name in fields for name in _SINGLE)
        ),
        _named_otherwise,
    ),
    RecordFormat("SimpleQA", "problem, answer", lambda fields: {"problem", "answer"} <= fields.keys(), _problem),
    RecordFormat("verl", "prompt, reward_model", lambda fields: "reward_model" in fields, _verl),
    RecordFormat("", "", lambda fields: "paragraphs" in fields and "question" not in fields, _article),
    RecordFormat("", "", lambda fields: "contents" in fields or {"text", "title"} <= fields.keys(), _passage),
    RecordFormat("BEIR", "_id, text", lambda fields: {"_id", "text"} <= fields.keys(), _query),
    RecordFormat("DPR", "TSV: question, answers", lambda fields: {"column 1", "column 2"} == fields.keys(), _columns),
    RecordFormat(
        "", "", lambda fields: "question" in fields or not fields, lambda fields, id: _made(fields, id, "", ())
    ),
)
"""Formats of questions; None stands for a question that is marked as unanswerable."""
