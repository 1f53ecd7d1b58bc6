"""`turncredit eval` of models: what they are asked in an environment, and what the user of the command sees of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from toys.commands import ENV, Call, one_sentence

pytest.importorskip("torch")
pytest.importorskip("transformers")

from toys.chat_tokenizers import made

from turncredit.agents import REACT
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.instructions import agent_for
from turncredit.cli.options import parse_options
from turncredit.cli.players import AGENT_PREFIX, EnvChoice, load_advisor, load_player, take_options
from turncredit.envs import register
from turncredit.envs.toolenv import ToolEnv
from turncredit.training.config.run import Run
from turncredit.training.errors import ConfigError
from turncredit.training.learner.policy import build_policy, save_policy
from turncredit.training.run_folder.run_instructions import with_instructions

TOOLS, SEARCH, HOUSE = "toys/Bells-v0", "turncredit/Search-v0", "turncredit/Household-v0"


def ring(bell: str) -> str:
    """Ring a bell."""
    return f"{bell} rings"


def bells(form: str = "tags", native: bool = False) -> ToolEnv[str, None]:
    return ToolEnv(
        "Ring the bell.",
        start=lambda task: None,
        tools=[ring],
        check=lambda world, answer: False,
        form=form,
        native=native,
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A base model, and one with the chat template of Qwen."""
    register(TOOLS, bells)
    module, plain = build_policy(["Ring the bell.", "You see a door."], vocab=300, hidden=16, layers=1, heads=1)
    paths = {name: tmp_path_factory.mktemp("models") / name for name in ("base", "chat")}
    save_policy(module, plain, paths["base"])
    chat: Any = made(plain, "qwen25")
    module.resize_token_embeddings(len(chat))  # type: ignore[operator]
    save_policy(module, chat, paths["chat"])
    return paths


def system_of(folder: Path, env_id: str, **options: object) -> str:
    with load_player(f"transformers:{folder}", dict(options), env_id=env_id, env_kwargs={}) as player:
        return player.agent.prompt.template.system


def test_a_base_model_sees_a_worked_turn_unless_it_is_switched_off(folders: dict[str, Path]) -> None:
    assert system_of(folders["base"], ENV).startswith(REACT.system)
    assert "<think>Lamps stand on desks" in system_of(folders["base"], ENV)
    assert system_of(folders["base"], ENV, example=False) == system_of(folders["chat"], ENV) == REACT.system
    assert "<think>Lamps stand on desks" in system_of(folders["chat"], ENV, chat=False)
    assert "<search> author of" in system_of(folders["base"], SEARCH)
    assert system_of(folders["chat"], SEARCH) == ""
    assert "This is what one turn looks like" in system_of(folders["chat"], SEARCH, example=True)
    with pytest.raises(Exception, match="example must be true or false, got 'no'"):
        system_of(folders["base"], ENV, example="no")


def test_answers_of_a_base_model_end_where_their_form_ends(folders: dict[str, Path]) -> None:
    with load_player(f"transformers:{folders['base']}", env_id=SEARCH, env_kwargs={}) as player:
        assert player.agent.stop == ("</search>", "</answer>")
    with load_player(f"transformers:{folders['base']}", {"stop": []}, env_id=SEARCH, env_kwargs={}) as player:
        assert player.agent.stop == ()
    with load_player(f"transformers:{folders['chat']}", env_id=SEARCH, env_kwargs={}) as player:
        assert player.agent.stop == ()


def test_the_advisor_of_a_game_is_asked_as_in_an_evaluation(folders: dict[str, Path]) -> None:
    advisor = load_advisor(f"transformers:{folders['chat']}", env=EnvChoice(SEARCH, {}))
    try:
        assert advisor.player.agent.prompt.template == agent_for(SEARCH).prompt.template
        assert advisor.player.agent.parser == "with-thoughts"
    finally:
        advisor.close()


@pytest.mark.parametrize("words", [("native=true",), ("native=True", "agent.chat={tools=True}"),
                                   ("native=true", "agent.chat.tools=true")])  # fmt: skip
def test_tools_are_described_by_the_chat_template(
    turncredit: Call, folders: dict[str, Path], tmp_path: Path, words: tuple[str, ...]
) -> None:
    from turncredit.agents.models.model_folder import load_tokenizer

    kept = tmp_path / "episodes.jsonl"
    common = ("form=hermes", "agent.max_turns=1", "agent.max_tokens=8", "--trajectories", kept, "--episodes", 1)
    said = turncredit("eval", f"transformers:{folders['chat']}", TOOLS, *words, *common)
    assert said.code == 0, said.err
    (episode,) = read_trajectories(kept)
    prompt = str(load_tokenizer(folders["chat"]).decode(list(episode.turns[0].prompt)))
    assert '"name": "ring"' in prompt
    assert "<tool_call>" in prompt
    said = turncredit("eval", f"transformers:{folders['base']}", TOOLS, *words, *common)
    one_sentence(said, f"{TOOLS} leaves the description of its tools to a chat template", "leave out native=true")


def test_an_option_in_a_table() -> None:
    words = [
        "native=True",
        "agent.chat.tools=true",
        "agent.chat.date=x",
        "agent.prompt={name='window'}",
        "a.b=1",
    ]
    others, agent = take_options(parse_options(words), AGENT_PREFIX)
    assert others == {"native": True, "a.b": 1}
    assert {name: value for name, value in agent.items() if name != "chat"} == {"prompt": {"name": "window"}}
    assert agent["chat"] == {"tools": True, "date": "x"}
    with pytest.raises(ConfigError, match=r"agent.chat.tools cannot be set: agent.chat is a value, not a table"):
        take_options(parse_options(["agent.chat=true", "agent.chat.tools=true"]), AGENT_PREFIX)


def test_answers_without_effect_are_shown(turncredit: Call, folders: dict[str, Path]) -> None:
    said = turncredit("eval", f"transformers:{folders['chat']}", ENV, "--episodes", 2, "agent.max_turns=2",
                    "agent.max_tokens=4", "agent.temperature=0")  # fmt: skip
    assert said.code == 0
    assert "unparsable 100.0 % of turns" in said.out
    assert "of 4 answers, 4 had no action; for example turn 0 of" in said.err
    assert "prompt: 'You act in a text environment" in said.err
    assert "answer, cut at 4 tokens: '" in said.err
    assert "reply: 'Nothing was done: there was no </think>." in said.err
    said = turncredit("eval", "expert", ENV, "--episodes", 2)
    assert "for example turn" not in said.err


def test_an_expert_writes_actions_of_several_lines(turncredit: Call) -> None:
    pytest.importorskip("turncredit.tools.sandbox")
    with load_player("expert", env_id="turncredit/Code-v0", env_kwargs={}) as player:
        assert player.agent.parse("write a.py\nx = 1").action == "write a.py\nx = 1"
    with load_player("random", {"parser": "bare"}, env_id="turncredit/Code-v0", env_kwargs={}) as player:
        assert player.agent.parser == "bare"


RUN = {"env": {"id": SEARCH}, "policy": {"model": "some/model"}}


def test_a_run_of_a_pretrained_model_is_prompted_as_its_environment_says(tmp_path: Path) -> None:
    run = with_instructions(Run.parse(RUN))
    asked = agent_for(SEARCH)
    assert (run.agent.parser, run.agent.max_tokens, run.agent.prompt) == ("with-thoughts", 512, "conversation")
    assert run.agent.template["ask"] == asked.prompt.template.ask
    assert run.agent.stop == []
    assert with_instructions(Run.parse({**RUN, "agent": {"max_tokens": 9}})).agent.max_tokens == 9
    for kept in (
        {**RUN, "agent": {"parser": "bare"}},
        {**RUN, "agent": {"template": "plain"}},
        {"env": {"id": SEARCH}},
    ):
        assert with_instructions(Run.parse(kept)) == Run.parse(kept)


@pytest.mark.parametrize(
    ("trained", "expected"),
    [
        (
            {"env": {"id": SEARCH}, "agent": {"template": "react", "parser": "think-action", "max_tokens": 99}},
            ("react", 99),
        ),
        ({"env": {"id": SEARCH}, "agent": {"max_tokens": 24}}, ("plain", 24)),
        ({"env": {"id": HOUSE}}, ("plain", 32)),
        ({"env": {"id": HOUSE}, "agent": {"template": "react"}}, ("search", 512)),
    ],
    ids=["instructed", "bare", "bare-elsewhere", "instructed-elsewhere"],
)
def test_a_run_of_a_checkpoint_is_prompted_as_the_checkpoint_was(
    tmp_path: Path, trained: dict[str, Any], expected: tuple[str, int]
) -> None:
    (tmp_path / "run.toml").write_text(Run.parse(trained).to_toml(), encoding="utf-8")
    model = {"policy": {"model": str(tmp_path / "checkpoints/000001")}}
    agent = with_instructions(Run.parse({**RUN, **model})).agent
    asked = {agent_for(SEARCH).prompt.template.ask: "search"}
    template = agent.template if isinstance(agent.template, str) else asked[agent.template["ask"]]
    assert (template, agent.max_tokens) == expected
    own = Run.parse({**RUN, **model, "agent": {"template": "plain"}})
    assert with_instructions(own) == own
