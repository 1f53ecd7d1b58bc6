"""Every environment asks a model for actions in the form that its parser reads: one law over the registry.

The answers come from experts that write in the form asked for, and from scripted players where there is no expert.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import gymnasium
import pytest
from toys import corridor
from toys.chromium import need_chromium
from toys.sandboxes import needs_box

from turncredit.agents import Agent, AgentError, Dialogue, PromptError, View, rollout
from turncredit.agents.instructions import (
    INSTRUCTED,
    WITHOUT_CHAT,
    agent_for,
    instructions,
    merged,
    player_options,
    tool_format,
)
from turncredit.agents.prompts.parsing import PARSERS
from turncredit.engines import Expert, PlayerSampler, Sampler
from turncredit.envs import EnvError, agent_defaults, env_ids, make, register
from turncredit.envs.parts import MIXTURE
from turncredit.envs.toolenv import ToolEnv
from turncredit.tools.functions import CALL_FORMATS, Call, Tool

waits = pytest.mark.waits
PHONE = {"task_types": ["ContactsAdd"]}


class Guessing(corridor.Corridor):
    """An environment of another package: it tells a model to write one command between backticks."""

    metadata = corridor.Corridor.metadata | {
        "agent": {
            "template": {"system": "Write one command of the game, and nothing else.\n\n", "ask": "\n\nCommand:"},
            "parser": "bare",
            "max_tokens": 20,
            "without_chat_template": {"stop": ["\n"]},
        }
    }


def tools(form: str | None = None, native: bool = False) -> ToolEnv[str, list[str]]:
    """An environment of tools in any format, whose registration is a function."""

    def ring(bell: str) -> str:
        """Ring a bell.

        Args:
            bell: its name
        """
        return f"{bell} rings"

    plan = [Call("ring", {"bell": "left"}), Call("answer", {"text": "done"})]
    return ToolEnv(
        "Ring the left bell, then answer 'done'.",
        start=lambda task: list[str](),
        tools=[ring],
        check=lambda world, answer: answer == "done",
        plan=lambda world: plan,
        form=form,
        native=native,
    )


def weather(city: str) -> str:
    """Return the weather of a city."""
    return city


@pytest.fixture(autouse=True)
def _registered() -> None:
    corridor.register()
    register("toys/Tools-v0", tools)
    if "toys/Guessing-v0" not in gymnasium.registry:  # as a package does that does not know us
        gymnasium.register("toys/Guessing-v0", Guessing)


@pytest.fixture
def android_world() -> Iterator[str]:
    pytest.importorskip("fastapi")
    from turncredit.envs.android.androidworld_server import create_app
    from turncredit.processes.serving import serve_in_thread

    with serve_in_thread(create_app()) as address:
        yield address


CASES: dict[str, list[dict[str, Any]]] = {
    "turncredit/Household-v0": [{"level": "tiny"}],
    "turncredit/WebShop-v0": [{"level": "tiny"}],
    "turncredit/Search-v0": [{"level": "tiny"}, {"level": "tiny", "form": "brackets"}],
    "turncredit/Code-v0": [{}],
    "turncredit/Bash-v0": [{}],
    "turncredit/Desk-v0": [{"form": "tags"}, {"domain": "repair_shop", "form": "hermes", "user": "confused"}],
    "turncredit/Android-v0": [PHONE],
    "toys/Corridor-v0": [{}],
    "toys/Guessing-v0": [{}],
    "toys/Tools-v0": [{"form": form} for form in CALL_FORMATS],
}
ELSEWHERE = ("turncredit/AndroidWorld-v0", "turncredit/MiniWoB-v0", "turncredit/WebShopBrowser-v0")
"""Environments that need a server or a browser; tests of their own below."""
OF_OTHERS = tuple(
    f"turncredit/{name}-v0" for name in ("OpenEnv", "PettingZoo", "ReasoningGym", "TextArena", "Verifiers")
)
"""Environments that need a server or a package; tests/frameworks plays them."""
ROWS = [(id, kwargs) for id, table in CASES.items() for kwargs in table]
NAMES = [f"{id.split('/')[1]}{''.join(f' {key}={value}' for key, value in kwargs.items())}" for id, kwargs in ROWS]
BOXED = ("turncredit/Code-v0", "turncredit/Bash-v0")


def test_the_law_covers_the_registry() -> None:
    ours = {id for id in env_ids(variants=False) if id.startswith("turncredit/")}
    assert ours == {id for id in CASES if id.startswith("turncredit/")} | {
        *ELSEWHERE,
        *OF_OTHERS,
        MIXTURE,
    }  # test_mixture_agents.py


@pytest.mark.parametrize("id", OF_OTHERS)
def test_environments_of_other_packages_are_asked_in_a_conversation(id: str) -> None:
    options = instructions(id)
    assert options["prompt"] == "conversation"
    assert options["parser"] in ("whole", "with-thoughts")


def first_prompt(agent: Agent, env: gymnasium.Env[Any, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the text of the first prompt, and the info of the environment."""
    observation, info = env.reset(seed=0)
    view = Dialogue(agent).view(observation, info.get("admissible_actions"), free=tuple(info.get("free_actions", ())))
    return "\n".join(str(message["content"]) for message in Dialogue(agent).prompt(view).messages), info


def check_prompt(agent: Agent, env: gymnasium.Env[Any, Any]) -> None:
    """Check that the prompt names the tags of the parser's form, and the words of every form of free actions."""
    prompt, info = first_prompt(agent, env)
    tags = re.findall(r"</?\w+>", PARSERS.get(agent.parser).form)
    assert [tag for tag in tags if tag not in prompt] == []
    words = [word for form in info.get("free_actions", ()) for word in re.findall(r"<\w+>|\[\w+\]|\w+\[?", form)]
    assert [word for word in words if word not in prompt] == []
    if agent.parser != "think-action":  # nothing asks for a form that the parser does not read
        assert "<action>" not in prompt


def check_answers(agent: Agent, sampler: Sampler, env: Callable[[], gymnasium.Env[Any, Any]]) -> None:
    """Check that the answers of a player in the form of the parser are read, accepted and win."""
    made = env()
    (task,) = made.get_wrapper_attr("task_ids")(1)
    made.close()
    (group,) = rollout(agent, sampler, [task], make=env)
    (played,) = group.trajectories
    assert played.won, (played.stop, played.error, [turn.text for turn in played.turns])
    assert all(turn.action is not None and turn.valid for turn in played.turns)


@pytest.mark.parametrize(("id", "kwargs"), ROWS, ids=NAMES)
def test_the_prompt_asks_for_the_form_that_is_read(id: str, kwargs: dict[str, Any]) -> None:
    env = make(id, **kwargs)
    try:
        check_prompt(agent_for(id, kwargs), env)
    finally:
        env.close()


@pytest.mark.parametrize(
    ("id", "kwargs"), [pytest.param(*row, marks=[needs_box] if row[0] in BOXED else []) for row in ROWS], ids=NAMES
)
def test_an_expert_that_answers_in_the_form_wins(id: str, kwargs: dict[str, Any]) -> None:
    agent = agent_for(id, kwargs)
    check_answers(agent, Expert(parser=agent.parser), lambda: make(id, **kwargs))


@pytest.mark.parametrize(("id", "kwargs"), ROWS, ids=NAMES)
def test_a_worked_turn_has_the_form_that_is_read(id: str, kwargs: dict[str, Any]) -> None:
    """The answer in the example, as a base model would repeat it, has an action; and it is not shown by default."""
    options = instructions(id, kwargs)
    plain, shown = (Agent.from_options(**fields_of(options), example=example) for example in (False, True))
    before, after = (agent.prompt.template.system for agent in (plain, shown))
    example = after.removeprefix(before)
    if id == "toys/Guessing-v0":  # it has none
        assert not example
        return
    assert example.startswith("This is what one turn looks like:\n\n")
    ask = plain.prompt.template.ask.format(admissible="", turn=0)
    answer = example.rpartition("\n\nNow another ")[0].rpartition(ask or "?\n")[2].strip()
    stopped = Agent.from_options(**fields_of(options), stop=options[WITHOUT_CHAT]["stop"])
    assert plain.parse(answer).action is not None
    assert stopped.parse(answer).action == plain.parse(answer).action
    if id == "turncredit/Search-v0":
        assert re.search(r"search[>\[]", answer)
    if id == "toys/Tools-v0":
        (call,) = CALL_FORMATS[kwargs["form"]].parse(answer, [Tool.of(weather)]).calls
        assert (call.name, call.arguments) == ("weather", {"city": "Oslo"})


def fields_of(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("chat", WITHOUT_CHAT)}


@waits
def test_a_server_with_a_phone_asks_for_what_is_read(android_world: str) -> None:
    id, kwargs = ELSEWHERE[0], {"url": android_world, "task_types": "ContactsAdd"}
    agent = agent_for(id, kwargs)
    with ExitStack() as stack:
        env = make(id, **kwargs)
        stack.callback(env.close)
        check_prompt(agent, env)
    assert agent.parse(agent.format("tap 540 1200")).action == "tap 540 1200"


@waits
def test_a_browser_asks_for_what_is_read() -> None:
    need_chromium(miniwob=True)

    class Presser:
        def act(self, view: View) -> str:
            (name,) = re.findall(r'"([^"]*)"', view.observation.split("\n")[0])
            (first, *_) = re.findall(rf'\[(e\d+)\] button "{re.escape(name)}"', view.observation)
            return f"click[{first}]"

    agent = agent_for(ELSEWHERE[1], {"task": "click-button"})
    check_answers(agent, PlayerSampler(Presser, parser=agent.parser), lambda: make(ELSEWHERE[1], task="click-button"))
    env = make(ELSEWHERE[1], task="enter-text")
    check_prompt(agent, env)
    env.close()


@waits
def test_a_shop_in_a_browser_asks_for_what_is_read() -> None:
    need_chromium()
    pytest.importorskip("fastapi")
    kwargs = {"level": "tiny"}
    agent = agent_for(ELSEWHERE[2], kwargs)
    check_answers(agent, Expert(parser=agent.parser), lambda: make(ELSEWHERE[2], **kwargs))


# what wins


def test_the_user_wins_over_the_environment() -> None:
    agent = agent_for("turncredit/Search-v0", max_tokens=7, temperature=0.0)
    assert (agent.max_tokens, agent.temperature, agent.parser, agent.stop) == (7, 0.0, "with-thoughts", ())
    assert agent_for("toys/Corridor-v0").max_tokens == INSTRUCTED["max_tokens"]
    assert agent_for("toys/Guessing-v0").max_tokens == 20


@pytest.mark.parametrize(
    ("options", "template", "parser", "stop"),
    [
        ({}, {"ask": "?"}, "whole", ["\n"]),
        ({"parser": "whole"}, {"ask": "?"}, "whole", ["\n"]),
        ({"template": "react"}, "react", "think-action", ["</action>"]),
        ({"template": {"base": "react"}}, {"base": "react"}, "think-action", ["</action>"]),
        ({"parser": "think-action"}, "react", "think-action", ["</action>"]),
        ({"parser": "bare"}, "plain", "bare", None),
        ({"template": "plain"}, "plain", "bare", None),
        ({"template": {"ask": "!"}}, {"ask": "!"}, "bare", None),
        ({"template": "plain", "parser": "with-thoughts"}, "plain", "with-thoughts", None),
    ],
)
def test_a_template_and_a_parser_belong_together(
    options: dict[str, Any], template: object, parser: str, stop: list[str] | None
) -> None:
    defaults = {"template": {"ask": "?"}, "parser": "whole", "max_tokens": 5, WITHOUT_CHAT: {"stop": ["\n"]}}
    result = merged(defaults, options)
    assert (result["template"], result["parser"], result["max_tokens"]) == (template, parser, 5)
    assert result.get(WITHOUT_CHAT, {}).get("stop") == stop


def test_tables_of_a_chat_template_are_merged() -> None:
    defaults = {"template": "plain", "parser": "whole", "chat": {"tools": True}}
    assert merged(defaults, {"chat": {"enable_thinking": False}})["chat"] == {"tools": True, "enable_thinking": False}
    assert merged(defaults, {"chat": True})["chat"] == {"tools": True}
    assert merged(defaults, {"chat": False})["chat"] is False


def test_players_without_prompts_write_bare_actions_where_one_line_is_enough() -> None:
    assert player_options("turncredit/Household-v0") == player_options("turncredit/WebShop-v0") == {}
    assert player_options("turncredit/Code-v0") == {"parser": "whole"}
    assert player_options("turncredit/Search-v0") == {"parser": "with-thoughts"}


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ({"parsr": "bare"}, AgentError, "toys/Wrong-v0 names options .*: an agent has no option 'parsr'; did you mean"),
        ({"parser": "bar"}, AgentError, "toys/Wrong-v0 names options .*: unknown parser 'bar'; did you mean 'bare'"),
        ({WITHOUT_CHAT: ["\n"]}, AgentError, "toys/Wrong-v0 .*: without_chat_template must be a table of options, got"),
        ({WITHOUT_CHAT: {"stop": "x"}}, AgentError, "toys/Wrong-v0 .*: stop must be a tuple of strings"),
        ([1], EnvError, r"metadata\['agent'\] of toys/Wrong-v0 must be a table of an agent's options, got \[1\]"),
        (lambda lengths=(): {"max_tokens": 0}, AgentError, "max_tokens must be an integer >= 1, got 0"),
    ],
)
def test_a_mistake_in_an_environments_table_is_one_sentence(table: Any, error: type[Exception], message: str) -> None:
    class Wrong(corridor.Corridor):
        metadata = corridor.Corridor.metadata | {"agent": table}

    gymnasium.registry.pop("toys/Wrong-v0", None)
    register("toys/Wrong-v0", Wrong)
    try:
        with pytest.raises(error, match=message):
            instructions("toys/Wrong-v0", {"lengths": (3,)})
    finally:
        del gymnasium.registry["toys/Wrong-v0"]


def test_a_registration_that_is_a_function_is_asked_with_its_arguments() -> None:
    assert agent_defaults("toys/Tools-v0")["parser"] == "whole"
    native = agent_defaults("toys/Tools-v0", native=True)
    assert (native["chat"], native["tool_format"]) == ({"tools": True}, "hermes")
    assert agent_defaults("toys/Tools-v0", native=True, form="llama")["tool_format"] == "llama"
    assert agent_defaults("toys/Corridor-v0") == {}


def test_models_with_and_without_a_chat_template() -> None:
    pytest.importorskip("transformers")
    from toys.chat_tokenizers import made

    from turncredit.training.learner.policy import build_tokenizer

    base = build_tokenizer(["Ring the left bell"], vocab=300)
    chat = made(base, "qwen25")
    asked, shown = (agent_for("turncredit/Household-v0", tokenizer=tokenizer) for tokenizer in (chat, base))
    assert (asked.stop, shown.stop) == ((), ("</action>",))
    assert "This is what one turn looks like" not in asked.prompt.template.system
    assert "<action>go to desk 1</action>" in shown.prompt.template.system
    off = agent_for("turncredit/Household-v0", tokenizer=base, example=False)
    assert off.prompt.template.system == asked.prompt.template.system
    assert off.stop == ("</action>",)
    ignored = agent_for("turncredit/Household-v0", tokenizer=chat, chat=False)
    assert ignored.prompt == shown.prompt
    kwargs = {"native": True, "form": "hermes"}
    native = agent_for("toys/Tools-v0", kwargs, tokenizer=chat)
    assert [schema["function"]["name"] for schema in native.chat_options["tools"]] == ["ring", "answer"]
    with pytest.raises(PromptError, match=r"leaves the description of its tools .* leave out native=true"):
        agent_for("toys/Tools-v0", kwargs, tokenizer=base)
    with pytest.raises(PromptError, match=r'calls in the format "tags", which no chat template teaches'):
        agent_for("toys/Tools-v0", {"native": True, "form": "tags"}, tokenizer=chat)
    with pytest.raises(AgentError, match="read calls in different formats, hermes and llama"):
        tool_format({"parts": {form: {"chat": {"tools": True}, "tool_format": form} for form in ("llama", "hermes")}})
