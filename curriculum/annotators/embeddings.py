"""Sentence embeddings of what an episode saw and did, for rules that compare texts by their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

from turncredit.agents.trajectory import Group, Turn
from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_choice
from turncredit.curriculum.annotation import Notes, Place
from turncredit.tools.retrieval.encoder import SentenceModel, packaged_model
from turncredit.tools.retrieval.errors import BadModel

Of = Literal["answers", "answer", "observation"]


def embed(groups: Sequence[Group], *, column: str = "metric", of: Of = "answers", model: str = "") -> Notes:
    """Return the embedding of a text for every turn, a vector of length 1.

    Texts of similar meaning have a large cosine. Equal texts are encoded once.

    Args:
        groups: the episodes.
        column: where the vectors go.
        of: all "answers" of the episode, the same for each of its turns; the turn's own "answer"; or the "observation"
            that it answers, by which `slea` compares states.
        model: folder of a sentence encoder; empty: the one of the extra `dense`.

    Raises:
        BadOption: there is no such model.
    """
    check_choice("of", of, Of)
    encode = _encoder(model)
    texts: dict[Place, str] = {
        (member.id, number): _text(member.turns, number, of)
        for group in groups
        for member in group.finished
        for number in range(len(member.turns))
    }
    distinct = list(dict.fromkeys(texts.values()))
    vectors = dict(zip(distinct, map(tuple, encode(distinct).tolist()), strict=True))
    return Notes({column: {turn: vectors[text] for turn, text in texts.items()}})


def _text(turns: Sequence[Turn], number: int, of: Of) -> str:
    if of == "answers":
        return "\n".join(turn.text for turn in turns)
    return turns[number].text if of == "answer" else turns[number].observation


@cache
def _encoder(folder: str) -> SentenceModel:
    """Return a sentence encoder, loaded once for all annotators of this process."""
    try:
        return SentenceModel(folder) if folder else packaged_model()
    except (BadModel, ImportError) as error:
        raise BadOption(f"model: {error}") from error
