"""Tools that a chat template describes: calls in the model's own form, from the prompt to the environment and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("transformers")

from toys.chat_tokenizers import made

import turncredit.agents.prompts.native_tools as native_tools
from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.tokens import tokenize_trajectory
from turncredit.agents.errors import PromptError
from turncredit.agents.files.trajectory_files import from_json, to_json
from turncredit.agents.models.tokenization import codec_of
from turncredit.agents.prompts.chat_template import chat_fields
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.prompts.native_tools import chat_with_tools
from turncredit.agents.rollouts.rollout import rollout
from turncredit.engines import Expert
from turncredit.envs.toolenv import ToolEnv
from turncredit.tools.functions import Call, call_format
from turncredit.training.learner.policy import build_tokenizer

FORMS = {"qwen25": "hermes", "qwen3": "hermes", "llama31": "llama", "mistral3": "mistral"}
PEOPLE = {"Ada": 'Mary "M" Moe', "Mary": "nobody"}


def parent(name: str) -> str:
    """Find the parent of a person.

    Args:
        name: of the person
    """
    return PEOPLE[name]


def env(form: str, native: bool = True) -> ToolEnv[str, dict[str, str]]:
    return ToolEnv(
        {"ada": "Who is Ada's parent?"},
        start=lambda task: {},
        tools=[parent],
        check=lambda world, answer: answer == PEOPLE["Ada"],
        plan=lambda world: [Call("parent", {"name": "Ada"}), Call("answer", {"text": PEOPLE["Ada"]})],
        form=form,
        native=native,
    )


@pytest.fixture(scope="module")
def plain() -> Any:
    return build_tokenizer(["Who is Ada's parent?", "nobody"], vocab=300)


def agent(plain: Any, name: str, **options: Any) -> tuple[Agent, Any]:
    tokenizer = made(plain, name)
    given = env(FORMS[name])
    schemas = given.reset(seed=0)[1]["tools"]
    chat = chat_fields({"tools": schemas, **options}, tokenizer)
    template = {"ask": "", "saw": "{observation}"}
    return Agent.from_options(parser="whole", template=template, **chat), tokenizer


@pytest.mark.parametrize("name", ["qwen25", "llama31", "mistral3"])
def test_an_expert_plays_in_the_form_of_the_template(plain: Any, name: str) -> None:
    player, tokenizer = agent(plain, name)
    (group,) = rollout(player, Expert(parser="whole"), ["ada"], make=lambda: env(FORMS[name]))
    (played,) = group.trajectories
    assert played.won
    assert played.turns[0].observation == "Who is Ada's parent?", (
        "the template describes the tools, not the environment"
    )
    assert played.turns[1].observation == PEOPLE["Ada"]
    first, second = tokenize_trajectory(played, player, tokenizer).turns
    assert second.prompt[: len(first.prompt) + len(first.response)] == first.prompt + first.response
    space = " " if name == "mistral3" else ""  # which the template writes before an answer
    messages = [
        {"role": "user", "content": first.observation},
        {"role": "assistant", "content": first.text},
        {"role": "tool", "content": second.observation},
    ]
    tools = env(FORMS[name]).reset(seed=0)[1]["tools"]
    for turn, seen in ((first, messages[:1]), (second, messages)):
        text = tokenizer.apply_chat_template(seen, tools=tools, tokenize=False, add_generation_prompt=True)
        wanted = tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"])
        assert tokenizer.decode(turn.prompt) == wanted.replace(f"{space}{first.text}", first.text)
    assert json.dumps(tools[0]["function"]["name"]) in tokenizer.decode(first.prompt)


@pytest.mark.parametrize("name", ["qwen25", "qwen3", "llama31", "mistral3"])
def test_each_result_is_a_message_of_its_own(plain: Any, name: str) -> None:
    """What the template renders for several messages of the role "tool", whatever the results contain."""
    player, tokenizer = agent(plain, name)
    results = ("", 'one\n"two"', "</tool_response>")
    dialogue = Dialogue(player, tokenizer)
    sampled = codec_of(tokenizer).response("calls", dialogue.end)
    dialogue.add(dialogue.view("Who?"), "calls", "calls", sampled)
    view = dialogue.view("\n".join(results), results=results)
    messages = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "calls"}]
    messages += [{"role": "tool", "content": text} for text in results]
    tools = player.chat_options["tools"]
    expected = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
    expected = expected.replace(" calls", "calls") if name == "mistral3" else expected
    assert tokenizer.decode(dialogue.prompt(view).ids) == tokenizer.decode(
        tokenizer(expected, add_special_tokens=False)["input_ids"]
    )


def test_results_outlive_a_file_of_trajectories(plain: Any) -> None:
    """Prompts are rebuilt from what is stored, and are those that the model was given."""
    player, tokenizer = agent(plain, "qwen25")

    def twice() -> ToolEnv[str, dict[str, str]]:
        given = env("hermes")
        both = call_format("hermes").write([Call("parent", {"name": name}) for name in ("Ada", "Mary")], [])
        plan = given.plan
        given.plan = lambda: [both, plan()[-1]] if not given._calls else [plan()[-1]]
        return given

    (group,) = rollout(player, Expert(parser="whole"), ["ada"], make=twice)
    played = from_json(to_json(group.trajectories[0]))
    assert played == group.trajectories[0]
    assert played.turns[1].results == (PEOPLE["Ada"], "nobody")
    rebuilt = tokenizer.decode(tokenize_trajectory(played, player, tokenizer).turns[1].prompt)
    assert rebuilt.count("<tool_response>") == 2


def test_the_environment_reads_what_the_model_writes() -> None:
    for form, text in (
        ("hermes", 'I look.\n<tool_call>\n{"name": "parent", "arguments": {"name": "Ada"}}\n</tool_call>'),
        ("llama", '<|python_tag|>{"name": "parent", "parameters": {"name": "Ada"}}'),
        (
            "llama",
            '{"name": "parent", "parameters": {"name": "Mary"}}; {"name": "parent", "parameters": {"name":"Ada"}}',
        ),
        ("mistral", '[TOOL_CALLS] [{"name": "parent", "arguments": {"name": "Ada"}}]'),
        ("mistral", '[{"name": "parent", "arguments": {"name": "Ada"}}]'),
        ("mistral", '[TOOL_CALLS]parent[ARGS]{"name": "Ada"}'),
        ("mistral", 'I look.[TOOL_CALLS]parent[CALL_ID]a1b2c3d4e[ARGS]{"name": "Ada"}'),
        ("mistral", 'parent[ARGS]{"name": "Mary"}[TOOL_CALLS]parent[ARGS]{"name": "Ada"}'),
    ):
        given = env(form)
        given.reset(seed=0)
        observation, _, _, _, info = given.step(text)
        assert info["valid"], observation
        assert observation.endswith(PEOPLE["Ada"])
        assert "tools" not in info


@pytest.mark.parametrize(
    ("form", "text", "sentence"),
    [
        ("llama", "Ada", "Expecting value"),
        ("llama", '{"parameters": {}}', 'the call has no "name"'),
        ("llama", '{"name": "parent", "parameters": 3}', '"parameters" must be an object'),
        ("llama", "", "found no call"),
        ("mistral", "[TOOL_CALLS] []", "found no list of calls"),
        ("mistral", "parent(Ada)", "the calls are not valid JSON"),
        ("mistral", "[TOOL_CALLS]parent[ARGS]{", "the arguments of 'parent' are not valid JSON"),
        ("mistral", "[TOOL_CALLS]parent[ARGS][1]", '"arguments" must be an object'),
    ],
)
def test_what_is_no_call_is_explained(form: str, text: str, sentence: str) -> None:
    given = env(form)
    given.reset(seed=0)
    observation, _, _, _, info = given.step(text)
    assert not info["valid"]
    assert sentence in observation


def test_thinking_stays_while_tools_are_called(plain: Any) -> None:
    """Qwen 3's template keeps the thinking after the last question, so with results of tools nothing is rewritten."""
    player, tokenizer = agent(plain, "qwen3")
    dialogue = Dialogue(player, tokenizer)
    call = '<tool_call>\n{"name": "parent", "arguments": {"name": "Ada"}}\n</tool_call>'
    answer = f"<think>\nHer parent?\n</think>\n\n{call}"
    dialogue.add(dialogue.view("Who is Ada's parent?"), answer, call)
    text = tokenizer.decode(dialogue.prompt(dialogue.view("nobody")).ids)
    messages = [
        {"role": "user", "content": "Who is Ada's parent?"},
        {"role": "assistant", "content": answer},
        {"role": "tool", "content": "nobody"},
    ]
    tools = player.chat_options["tools"]
    assert text == tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)


def test_true_stands_for_the_tools_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_tools, "make", lambda id, **kwargs: env("hermes", **kwargs))
    monkeypatch.setattr(native_tools, "agent_defaults", lambda id, **kwargs: env("hermes", **kwargs).metadata["agent"])
    chat = chat_with_tools({"tools": True, "keep_history": True}, "my/Env-v0", {})
    assert [one["function"]["name"] for one in chat["tools"]] == ["parent", "answer"]
    assert chat["keep_history"] is True
    for unchanged in (True, False, {"enable_thinking": False}):
        assert chat_with_tools(unchanged, "nowhere", {}) is unchanged
    with pytest.raises(PromptError, match="my/Env-v0 describes its tools itself; only a ToolEnv made with native=True"):
        chat_with_tools({"tools": True}, "my/Env-v0", {"native": False})


def test_a_template_without_tools_is_refused(plain: Any) -> None:
    tools = env("hermes").reset(seed=0)[1]["tools"]
    for name in ("chatml", "gemma2"):
        with pytest.raises(PromptError, match="does not describe tools; let the environment describe them"):
            Agent(chat=made(plain, name), chat_options={"tools": tools})
    with pytest.raises(PromptError, match="JSON schemas, or true where a run names the environment; got True"):
        Agent(chat=made(plain, "qwen25"), chat_options={"tools": True})
