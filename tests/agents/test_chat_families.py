"""Laws that hold for the chat templates of all families in `toys.chat_families`."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from toys.chat_families import CONVERSATION, DOCUMENT, FAMILIES, KEEP_HISTORY, TAGS, WINDOW, ChatFamily, documented
from toys.chat_tokenizers import made

from turncredit.agents.agent import Agent
from turncredit.agents.errors import PromptError
from turncredit.agents.models.tokenization import answer_text, codec_of
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.prompts.prompt import Conversation, Window
from turncredit.agents.prompts.templates import PLAIN, Template
from turncredit.engines.token_requests import end_tokens
from turncredit.training.learner.policy import build_tokenizer

ROOMS = ["You are in room 1.", "It is room 2, with a lamp.", "You won."]
ANSWERS = ["look", "take lamp"]
THOUGHTS = ["Where am I?", "A lamp <b>here</b>."]
HELLO = {"role": "user", "content": "hello"}
TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "Find a person.",
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
}
AS_IT_IS = Template(ask="", saw="{observation}")


@pytest.fixture(scope="module")
def plain() -> Any:
    return build_tokenizer([*ROOMS, *ANSWERS, *THOUGHTS], vocab=300)


def rendered(
    tokenizer: Any, family: ChatFamily, messages: list[dict[str, Any]], *, prompt: bool = True, tools: bool = False
) -> str:
    """What the template writes."""
    options = {**family.options, **({"tools": [TOOL]} if tools else {})}
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt, **options))


def thoughtful(tokenizer: Any, family: ChatFamily, answer: str, thought: str, **fields: Any) -> dict[str, Any]:
    """An answer with a thought, in the field of a message that the template reads, or in its text."""
    message = {"role": "assistant", "content": answer, **fields}
    if family.thought is None:
        return message
    for name in ("reasoning_content", "thinking"):
        named = {**message, name: thought}
        if thought in rendered(tokenizer, family, [HELLO, named], prompt=False, tools=bool(fields)):
            return named
    opening, closing = family.thought
    return {**message, "content": f"{opening}\n{thought}\n{closing}\n\n{answer}"}


def sampled(
    tokenizer: Any,
    family: ChatFamily,
    seen: list[dict[str, Any]],
    message: dict[str, Any],
    said: list[str],
    tools: bool,
) -> str:
    """What the model writes after the prompt if it writes what the template does, its end included.

    Args:
        said: the answer and the thought in it.
    """
    end = "<|observation|>" if tools and "<|observation|>" in family.ends else family.end
    before = rendered(tokenizer, family, seen, tools=tools)
    whole = rendered(tokenizer, family, [*seen, message], prompt=False, tools=tools)
    answer, thought = said
    if family.thought and thought not in whole:  # no answer has its thought in this template
        opening, closing = family.thought
        return f"{'' if family.opened else opening}{thought}{closing}{answer}{end}"
    if not whole.startswith(before.rstrip()):  # the template leaves out an empty thought that the prompt has written
        return f"{answer}{end}"
    text = whole.removeprefix(before) if whole.startswith(before) else whole.removeprefix(before.rstrip())
    at = text.rfind(answer) + len(answer)
    places = [(text.find(known, at), known) for known in (end, family.eos, *family.ends) if known in text[at:]]
    if not places:
        return text.rstrip() + end
    start, known = min(places)
    return text[:start] + known


def agent_of(tokenizer: Any, family: ChatFamily, mode: str, *, system: bool = False, tools: bool = False) -> Agent:
    """An agent for prompts of a mode."""
    style = Template(system="Be brief.") if system else AS_IT_IS if tools else PLAIN
    options: dict[str, Any] = {**family.options, **({"tools": [TOOL]} if tools else {})}
    if mode == KEEP_HISTORY:
        options["keep_history"] = True
    builder = Window(style, 1) if mode == WINDOW else Conversation(style)
    return Agent(builder, parser="whole", chat=tokenizer, chat_options=options)


def mode_of(tokenizer: Any, family: ChatFamily, **kinds: bool) -> str:
    """The first mode whose prompts can be built; each refusal is one sentence that names the way out."""
    for mode in (CONVERSATION, KEEP_HISTORY, WINDOW):
        try:
            agent_of(tokenizer, family, mode, **kinds)
        except PromptError as error:
            if "does not describe tools" in str(error):
                return ""
            if "set agent.prompt to 'window'" not in str(error):
                return f"another refusal: {error}"
        else:
            return mode
    return "no prompt can be built"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_template_writes_what_the_table_says(plain: Any, name: str) -> None:
    family, tokenizer = FAMILIES[name], made(plain, name)
    assert rendered(tokenizer, family, [HELLO]).partition("hello")[2] == family.tail
    answered = [HELLO, {"role": "assistant", "content": "look"}]
    assert rendered(tokenizer, family, answered, prompt=False).partition("hello")[2] == family.answer
    for token in (family.bos, family.eos, *family.special, *family.added, *family.ends):
        assert not token or len(tokenizer.encode(token, add_special_tokens=False)) == 1


@pytest.mark.parametrize("name", FAMILIES)
def test_a_template_works_in_the_prompts_that_the_table_says(plain: Any, name: str) -> None:
    family, tokenizer = FAMILIES[name], made(plain, name)
    assert mode_of(tokenizer, family) == family.mode
    assert mode_of(tokenizer, family, system=True) == (family.system or family.mode)
    assert mode_of(tokenizer, family, tools=True) == family.tools


KINDS = [(name, tools) for name, row in FAMILIES.items() for tools in ((False, True) if row.tools else (False,))]


@pytest.mark.parametrize(("name", "tools"), KINDS)
def test_the_next_prompt_extends_what_was_sampled(plain: Any, name: str, tools: bool) -> None:
    """In a conversation it is the template's own rendering as well, whatever was thought and called."""
    family, tokenizer = FAMILIES[name], made(plain, name)
    mode = family.tools if tools else family.mode
    agent, codec = agent_of(tokenizer, family, mode, tools=tools), codec_of(tokenizer)
    dialogue = Dialogue(agent, tokenizer)
    seen: list[dict[str, Any]] = []
    for turn, (answer, thought) in enumerate(zip(ANSWERS, THOUGHTS, strict=True)):
        results = (ROOMS[turn],) if turn and tools and mode != WINDOW else ()
        view = dialogue.view(ROOMS[turn], results=results)
        prompt = dialogue.prompt(view)
        asked = {"role": "user", "content": str(prompt.messages[-1]["content"])}
        if results:
            call = {"tool_call_id": f"functions.find:{turn - 1}"} if family.calls else {}
            seen.append({"role": "tool", "content": ROOMS[turn], **call})
        else:
            seen = [asked] if mode == WINDOW else [*seen, asked]
        if mode != KEEP_HISTORY:
            wanted = rendered(tokenizer, family, seen, tools=tools)
            if name == "olmo3":  # which writes another end after earlier answers than the model does
                wanted = wanted.replace("look<|im_end|>", "look<|endoftext|>")
            assert codec.decode(prompt.ids) == wanted
        fields: dict[str, Any] = {}
        if tools and family.calls:
            call = {"name": "find", "arguments": {"name": answer}}
            fields = {"tool_calls": [{"type": "function", "id": f"functions.find:{turn}", "function": call}]}
        message = thoughtful(tokenizer, family, "" if fields else answer, thought, **fields)
        text = sampled(tokenizer, family, seen, message, [answer, thought], tools)
        ids = codec.encode(text)
        end = dialogue.end
        assert end is not None
        ends = end_tokens(tokenizer, tokenizer.convert_tokens_to_ids(list(family.ends))) | end.tokens
        if end.token is not None:
            assert [token in ends for token in ids] == [False] * (len(ids) - 1) + [True]
        said = answer_text(codec.decode, ids, ends, end)
        action = agent.parse(said).action
        assert action is not None
        assert answer in action
        assert thought not in action
        dialogue.add(view, said, action, ids)
        seen.append(message)
        if mode != WINDOW:
            after = dialogue.prompt(dialogue.view("x")).ids
            assert after[: len(prompt.ids) + len(ids)] == prompt.ids + ids


@pytest.mark.parametrize("name", FAMILIES)
def test_an_answer_ends_where_its_template_ends_it(plain: Any, name: str) -> None:
    family, tokenizer = FAMILIES[name], made(plain, name)
    for mode in (family.mode, WINDOW):
        template = agent_of(tokenizer, family, mode).chat_template
        assert template is not None
        assert template.end is not None
        assert template.end.gap.strip() in ("", "<|END_RESPONSE|>")
        single = tokenizer.encode(family.end, add_special_tokens=False)
        if len(single) == 1:
            assert (template.end.text, [template.end.token]) == (family.end, single)
        else:
            assert (template.end.gap + template.end.text, template.end.token) == (family.end, None)


CUT = "I could run\nrm -rf build\nbut first"
PARSERS = ["bare", "whole", "with-thoughts", "think-action"]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_thought_that_was_cut_is_no_action(plain: Any, name: str) -> None:
    family, tokenizer = FAMILIES[name], made(plain, name)
    begun = [TAGS[0], *([family.thought[0]] if family.thought else []), *([""] if family.opened else [])]
    agents = [Agent(Window(PLAIN, 1), parser=parser, chat=tokenizer, chat_options=family.options) for parser in PARSERS]
    for agent in (*agents, agent_of(tokenizer, family, family.mode)):
        for opening in begun:
            for text in (CUT, "rm", "<action>rm</action>", "<tool_call>rm</tool_call>"):
                parsed = agent.parse(f"{opening}{text}")
                assert (parsed.action, parsed.why) == (None, "there was no </think>")


def test_the_page_about_models_has_the_table() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == documented(), "run python tests/toys/chat_families.py"
