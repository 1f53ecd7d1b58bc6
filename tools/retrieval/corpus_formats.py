"""Formats of corpora: which keys of a record hold the id, the title and the text of a passage.

    FlashRAG, Search-R1        {"id", "contents"}: the first line of the contents is the title
    BEIR, DPR, Tevatron, ...   {"_id", "title", "text"} under any of the names below, as in HippoRAG {"idx"};
                               the title may be absent
    KILT                       {"wikipedia_id", "wikipedia_title", "text": [paragraph, ...]}
    MS MARCO, ColBERT          TSV without a header: id, text and perhaps a title

A passage without a title has an empty first line.
"""

from __future__ import annotations

from typing import Final

from turncredit.tools.bounded_input import InputError
from turncredit.tools.readers import Fields, RecordFormat, RecordFormats

__all__ = ["CORPUS_FORMATS", "document_id"]

_IDS: Final = ("id", "_id", "docid", "doc_id", "pid", "passage_id", "document_id", "wikipedia_id", "docno", "idx")
_TITLES: Final = ("title", "wikipedia_title", "doc_title")
_TEXTS: Final = ("text", "passage", "content", "body", "segment", "passage_text", "document")


def document_id(fields: Fields) -> str:
    """Return the id of a passage, which may be a number.

    Raises:
        InputError: it has none.
    """
    value = next((fields[name] for name in _IDS if name in fields), None)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"'id' must be a str, got {'nothing' if value is None else type(value).__name__}")
    return value


def _whole(fields: Fields, id: str) -> tuple[str, str]:
    contents = fields["contents"]
    if not isinstance(contents, str):
        raise InputError(f"'contents' must be a str, got {type(contents).__name__}")
    if not contents.strip():
        raise InputError("'contents' is empty")
    return document_id(fields), contents


def _titled(fields: Fields, id: str) -> tuple[str, str]:
    text = next((fields[name] for name in _TEXTS if name in fields), "")
    title = next((fields[name] for name in _TITLES if name in fields), None)
    if isinstance(text, list) and all(isinstance(part, str) for part in text):
        text = "\n".join(part.rstrip("\n") for part in text)
    for name, value in (("text", text), ("title", title or "")):
        if not isinstance(value, str):
            raise InputError(f"{name!r} must be a str, got {type(value).__name__}")
    if not f"{title or ''}{text}".strip():
        raise InputError("its text is empty")
    return document_id(fields), _contents(title, text)


def _columns(fields: Fields, id: str) -> tuple[str, str]:
    return fields["column 1"], _contents(fields.get("column 3"), fields.get("column 2", ""))


def _contents(title: str | None, text: str) -> str:
    return f"\n{text}" if title is None else f'"{" ".join(title.splitlines())}"\n{text}'


def _incomplete(fields: Fields, id: str) -> tuple[str, str]:
    document_id(fields)
    raise InputError(f"'contents' must be a str, got nothing; its text may also be under {', '.join(_TEXTS)}")


CORPUS_FORMATS: Final[RecordFormats[tuple[str, str]]] = RecordFormats(
    "a passage",
    RecordFormat("FlashRAG", "id, contents", lambda fields: "contents" in fields, _whole),
    RecordFormat(
        "BEIR and others",
        "_id, text and perhaps title",
        lambda fields: any(name in fields for name in _TEXTS) and any(name in fields for name in _IDS),
        _titled,
    ),
    RecordFormat("TSV without a header", "id, text", lambda fields: "column 1" in fields, _columns),
    RecordFormat("", "", lambda fields: True, _incomplete),
)
"""Formats of passages; each returns id and contents."""
