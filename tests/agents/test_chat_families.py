"""Laws that hold for the chat templates of all families in `toys.chat_families`."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from toys.chat_families import FAMILIES, Family
from toys.chat_tokenizers import made

from turncredit.training.learner.policy import build_tokenizer

ROOMS = ["You are in room 1.", "It is room 2, with a lamp.", "You won."]
HELLO = {"role": "user", "content": "hello"}


@pytest.fixture(scope="module")
def plain() -> Any:
    return build_tokenizer([*ROOMS, "look", "take lamp"], vocab=300)


def rendered(tokenizer: Any, family: Family, messages: list[dict[str, Any]], *, prompt: bool = True) -> str:
    """What the template writes."""
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt, **family.options)
    return str(text)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_template_writes_what_the_table_says(plain: Any, name: str) -> None:
    family, tokenizer = FAMILIES[name], made(plain, name)
    assert rendered(tokenizer, family, [HELLO]).partition("hello")[2] == family.tail
    answered = [HELLO, {"role": "assistant", "content": "look"}]
    assert rendered(tokenizer, family, answered, prompt=False).partition("hello")[2] == family.answer
    for token in (family.bos, family.eos, *family.special, *family.added, *family.ends):
        assert not token or len(tokenizer.encode(token, add_special_tokens=False)) == 1
