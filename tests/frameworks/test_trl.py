"""GRPOTrainer with whole episodes and an advantage for each turn, and with a tool; the examples of the docs."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import documented
import pytest

pytestmark = pytest.mark.frameworks
documented.need("trl", "torch", "datasets")

import numpy as np
import torch
import trl

import turncredit.envs
from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError
from turncredit.agents.frameworks.trl import ToolEnvironment, rollout_function
from turncredit.credit import Steps, gigpo
from turncredit.engines.base import Completion
from turncredit.training.learner.policy import build_policy

HOUSEHOLD = partial(turncredit.envs.make, "turncredit/Household-v0", level="tiny")
QUIET = {"logging_steps": 1, "disable_tqdm": True}


@pytest.fixture
def as_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The documented configuration, which runs on a CPU, in a folder of its own and with a log."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trl, "GRPOConfig", partial(trl.GRPOConfig, **QUIET))


def test_the_documented_trainer_gives_every_turn_the_advantage_of_the_rule(
    as_printed: None, monkeypatch: pytest.MonkeyPatch
):
    batches: list[dict[str, Any]] = []
    rollouts: list[dict[str, Any]] = []
    loss = trl.GRPOTrainer.compute_loss

    def compute_loss(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        batches.append({key: value.clone() for key, value in inputs.items() if hasattr(value, "clone")})
        return loss(self, model, inputs, *args, **kwargs)

    generate = trl.GRPOTrainer._generate

    def recorded(self: Any, prompts: Any) -> Any:
        inner = self.rollout_func
        self.rollout_func = lambda *given: rollouts.append(inner(*given)) or rollouts[-1]  # type: ignore[func-returns-value]
        try:
            return generate(self, prompts)
        finally:
            self.rollout_func = inner

    monkeypatch.setattr(trl.GRPOTrainer, "compute_loss", compute_loss)
    monkeypatch.setattr(trl.GRPOTrainer, "_generate", recorded)
    trainer = documented.run("trl")["trainer"]
    assert trainer.state.global_step == 2
    assert len(rollouts) == len(batches) == 2
    for played, batch in zip(rollouts, batches, strict=True):
        rows = {tuple(ids): number for number, ids in enumerate(played["completion_ids"])}
        expected = _advantages(played, size=4)
        assert len(rows) == len(batch["completion_ids"]) == 8
        for ids, mask, found in zip(
            batch["completion_ids"], batch["completion_mask"], batch["advantages"], strict=True
        ):
            row = rows[tuple(ids[mask.bool()].tolist())]
            spread = np.zeros(len(found))
            spread[: len(expected[row])] = expected[row]
            assert found.tolist() == pytest.approx(spread.tolist(), abs=1e-6)
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    assert rewards == [pytest.approx(np.mean(played["episode_reward"])) for played in rollouts]


def _advantages(played: dict[str, Any], size: int) -> list[np.ndarray]:
    """GiGPO on the turns of the rollout, without the adapter: one advantage for each token."""
    table: dict[str, list[Any]] = {name: [] for name in ("task", "trajectory", "turn", "reward", "state", "valid")}
    for row, rewards in enumerate(played["turn_rewards"]):
        for turn, reward in enumerate(rewards):
            values = (row // size, row, turn, reward, played["states"][row][turn], played["valid"][row][turn])
            for column, value in zip(table.values(), values, strict=True):
                column.append(value)
    values = list(gigpo(Steps.from_columns(**table), gamma=0.95).values)
    out = []
    for mask in played["env_mask"]:
        tokens, now = [], 0.0
        for position, own in enumerate(mask):
            if own and (position == 0 or not mask[position - 1]):
                now = values.pop(0)
            tokens.append(now if own else 0.0)
        out.append(np.array(tokens))
    assert not values
    return out


class FakeTrainer:
    """What `rollout_function` reads from a trainer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.processing_class = model, tokenizer
        self.accelerator = type("Accelerator", (), {"unwrap_model": staticmethod(lambda model: model)})
        self.state = type("State", (), {"global_step": 3})
        self.temperature, self.top_p, self.top_k, self.min_p, self.repetition_penalty = 1.0, 1.0, 0, None, 1.0


@pytest.fixture(scope="module")
def policy() -> tuple[Any, Any]:
    env = HOUSEHOLD()
    return build_policy([env.reset(seed=0)[0]], hidden=32, layers=2, heads=2)


def test_a_completion_is_an_episode_with_the_log_probabilities_of_its_own_tokens(policy: tuple[Any, Any]):
    model, _ = policy
    tasks = HOUSEHOLD().unwrapped.task_ids(2)
    played = rollout_function(HOUSEHOLD, Agent(max_turns=3, max_tokens=6))(
        [tasks[0]] * 2 + [tasks[1]], FakeTrainer(*policy)
    )
    assert played["prompt_ids"][0] == played["prompt_ids"][1] != played["prompt_ids"][2]
    assert played["completion_ids"][0] != played["completion_ids"][1]
    for prompt, completion, mask, logprobs in zip(
        *(played[name] for name in ("prompt_ids", "completion_ids", "env_mask", "logprobs")), strict=True
    ):
        ids = torch.tensor([prompt + completion])
        with torch.no_grad():
            scores = torch.log_softmax(model(ids).logits[0].float(), -1)
        own = [
            (scores[len(prompt) + place - 1, token].item(), logprobs[place])
            for place, (token, sampled) in enumerate(zip(completion, mask, strict=True))
            if sampled
        ]
        assert len(own) == sum(mask) > 3
        assert [taught for taught, _ in own] == pytest.approx([sampled for _, sampled in own], abs=1e-4)
        assert all(value == 0 for value, sampled in zip(logprobs, mask, strict=True) if not sampled)
    assert [len(rewards) for rewards in played["turn_rewards"]] == [3, 3, 3]
    assert played["states"][0][0] == played["states"][1][0]


@pytest.mark.parametrize("own", [1.0, 0.5])
def test_episodes_are_sampled_at_the_temperature_of_the_trainers_loss(policy: tuple[Any, Any], own: float):
    model, _ = policy
    trainer = FakeTrainer(*policy)
    trainer.temperature = 0.5
    played = rollout_function(HOUSEHOLD, Agent(max_turns=2, max_tokens=6, temperature=own))(
        HOUSEHOLD().unwrapped.task_ids(1), trainer
    )
    prompt, completion = played["prompt_ids"][0], played["completion_ids"][0]
    with torch.no_grad():
        logits = model(torch.tensor([prompt + completion])).logits[0].double().numpy()
    for place, (token, sampled) in enumerate(zip(completion, played["env_mask"][0], strict=True)):
        if sampled:
            row = logits[len(prompt) + place - 1] / 0.5
            wanted = row[token] - np.log(np.exp(row - row.max()).sum()) - row.max()
            assert played["logprobs"][0][place] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "changes", "said"),
    [
        ({"temperature": 0.5}, {}, "samples at temperature 0.5, but the trainer's loss uses 1: set the temperature of"),
        ({"temperature": 0.5}, {"temperature": 0.7}, "samples at temperature 0.5, but the trainer's loss uses 0.7"),
        ({"top_p": 0.9}, {}, "top_p = 0.9 of agent changes what is sampled"),
        ({}, {"top_p": 0.9}, "top_p = 0.9 of GRPOConfig changes what is sampled"),
        ({}, {"top_k": 20}, "top_k = 20 of GRPOConfig"),
        ({}, {"min_p": 0.1}, "min_p = 0.1 of GRPOConfig"),
        ({}, {"repetition_penalty": 1.1}, "repetition_penalty = 1.1 of GRPOConfig"),
    ],
)
def test_another_distribution_than_that_of_the_loss_is_refused(
    policy: tuple[Any, Any], options: dict[str, float], changes: dict[str, float], said: str
):
    trainer = FakeTrainer(*policy)
    vars(trainer).update(changes)
    with pytest.raises(AgentError, match=said):
        rollout_function(HOUSEHOLD, Agent(**options))(["train/tiny/000000"], trainer)


def test_an_episode_that_fails_has_no_reward_and_takes_no_other_down(policy: tuple[Any, Any]):
    tasks = [HOUSEHOLD().unwrapped.task_ids(1)[0], "no such task"]
    played = rollout_function(HOUSEHOLD, Agent(max_turns=2, max_tokens=4))(tasks, FakeTrainer(*policy))
    assert played["episode_reward"] == [0.0, None]
    assert (played["env_mask"][1], len(played["completion_ids"][1])) == ([0], 1)


def test_prompts_that_are_written_anew_are_refused(policy: tuple[Any, Any]):
    agent = Agent.from_options(prompt="window", max_turns=3, max_tokens=4)
    with pytest.raises(AgentError, match="prompts that extend each other"):
        rollout_function(HOUSEHOLD, agent)(HOUSEHOLD().unwrapped.task_ids(1), FakeTrainer(*policy))


def tool_policy() -> tuple[Any, Any]:
    """A tiny model with the tokens and the template of Qwen 3, which TRL brings along."""
    template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    env = HOUSEHOLD()
    model, tokenizer = build_policy([env.reset(seed=0)[0]], hidden=32, layers=2, heads=2, context=4096)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.add_tokens(["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"])
    tokenizer.eos_token, tokenizer.chat_template = "<|im_end|>", template
    model.resize_token_embeddings(len(tokenizer))
    model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id
    return model, tokenizer


def test_the_documented_trainer_acts_through_the_tool(as_printed: None, monkeypatch: pytest.MonkeyPatch):
    model, tokenizer = tool_policy()
    call = '<tool_call>\n{"name": "act", "arguments": {"action": "go to sink 1"}}\n</tool_call><|im_end|>'
    ids = tokenizer(call, add_special_tokens=False)["input_ids"]
    single_turn = trl.GRPOTrainer._generate_single_turn
    rounds: list[int] = []
    heard: list[str] = []

    def calls_first(self: Any, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        rounds.append(len(prompt_ids))
        if len(rounds) == 1:  # an untrained model does not find the format of a call
            return [list(ids) for _ in prompt_ids], None
        heard.extend(tokenizer.decode(prompt) for prompt in prompt_ids)
        return single_turn(self, prompt_ids, *args, **kwargs)

    monkeypatch.setattr(trl.GRPOTrainer, "_generate_single_turn", calls_first)
    names = documented.run("trl-tools", {"model": model, "tokenizer": tokenizer}, **{"_length=64": "_length=400"})
    assert names["trainer"].state.global_step == 1
    assert rounds[:2] == [4, 4]
    for text in heard[:4]:
        assert "Your task is to" in text
        assert "You arrive at sink 1" in text or "Nothing happens" in text
        assert "Possible actions: " in text.split("<tool_response>")[1]
    history = names["trainer"].state.log_history[0]
    assert history["tools/call_frequency"] == 1.0
    assert history["tools/failure_frequency"] == 0.0


def test_the_tool_plays_an_episode_and_owns_its_reward():
    task = HOUSEHOLD().unwrapped.task_ids(1)[0]
    env = HOUSEHOLD()
    first, info = env.reset(seed=0, options={"task": task})
    environment = ToolEnvironment(HOUSEHOLD)
    said = environment.reset(task=task, seed=0, prompt="ignored")
    assert said == f"{first}\nPossible actions: {', '.join(info['admissible_actions'])}"
    for action in env.unwrapped.plan():
        said = environment.act(action)
    assert said.endswith("The episode is over.")
    assert environment.get_reward() == 1.0
    with pytest.raises(Exception, match="the episode has ended"):
        environment.act("look")
    environment.reset(task=task)
    assert environment.get_reward() == 0.0


def test_the_trainer_is_untouched_by_a_sampler_that_answers_otherwise(policy: tuple[Any, Any]):
    """The sampler is found by name; here, one that always gives the same answer."""
    model, tokenizer = policy
    answer = tuple(tokenizer("look", add_special_tokens=False)["input_ids"])

    class Same:
        version, context = 0, None

        def __init__(self, settings: Any) -> None:
            assert settings.module is model
            self.tokenizer = settings.tokenizer

        async def sample(self, request: Any) -> Completion:
            await asyncio.sleep(0)
            return Completion(answer, (0.0,) * len(answer), "look", 0, "stop")

        def forget(self, episode: str) -> None: ...
        async def load(self, weights: Any, version: int) -> None: ...
        def close(self) -> None: ...

    from turncredit.engines.base import SAMPLERS

    SAMPLERS.register("same", Same)
    model.train()
    played = rollout_function(HOUSEHOLD, Agent(max_turns=2), sampler="same")(
        ["train/tiny/000000"], FakeTrainer(*policy)
    )
    assert model.training
    model.eval()
    assert played["valid"] == [[True, True]]
