"""One iteration (rollout and update) against TRL's GRPOTrainer, on episodes of equal shape, alternately in one process.

Both train the same Llama on the same environment: every episode has 10 turns of about 24 observed and 16 sampled
tokens. TRL plays them through a `rollout_func` that calls its own generation at every turn and masks the observations;
turncredit plays them with `rollout`, assigns credit with GiGPO, merges the turns of an episode, and does one optimizer
step, as TRL does. Times are the median of the repetitions; ratios are TRL's time divided by turncredit's. `--clock cpu
--threads 1` compares processor time, which other load changes least.

    python benchmarks/iteration.py [--episodes 32] [--repeat 3] [--dtype float32] [--threads 1] [--device cpu]
                                   [--model NAME] [--json PATH]

`--model` takes the sizes of a published model (real_shapes.py) instead of 26 million parameters.

Needs trl (tested with 1.16). Goal: an iteration at least 3 times as fast.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from real_shapes import SHAPES, new_model
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

from turncredit.agents.agent import Agent
from turncredit.agents.models.tokenization import codec_of
from turncredit.agents.prompts.parsing import Parsed
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.steps import steps_of
from turncredit.credit.registry import get as get_credit_rule
from turncredit.engines.base import SamplerSettings
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.envs import Text
from turncredit.training.batch.batch import pack
from turncredit.training.config.sections import ObjectiveSection
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.policy import build_tokenizer
from turncredit.training.objectives import Objective

TURNS, TOKENS, GROUP, GOAL = 10, 16, 8, 3.0
WORDS = ["red", "blue", "door", "key", "lamp", "table", "shelf", "box", "stone", "cup", "north", "south"]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
_clock = "wall"
VOCABULARY = 8192  # most of it is never seen, so that the end token is rarely sampled


def clock() -> float:
    """Return seconds of the wall clock, or of the processor with --clock cpu."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return CLOCKS[_clock]()


class Rooms(gymnasium.Env[str, str]):
    """Shows a fixed number of words at each of 10 turns; the reward at the end is drawn from the answers."""

    def __init__(self) -> None:
        self.observation_space = self.action_space = Text()
        self.turn, self.sum = 0, 0

    def text(self) -> str:
        return " ".join(WORDS[(self.turn * 7 + i * 5) % len(WORDS)] for i in range(24))

    def info(self) -> dict[str, Any]:
        return {"task": "0", "state": str(self.turn), "valid": True, "score": 0.0, "won": False}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.turn, self.sum = 0, 0
        return self.text(), self.info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        self.sum += len(action)
        done = self.turn >= TURNS
        return self.text(), float(self.sum % 2) if done else 0.0, done, False, self.info()


def any_text(text: str) -> Parsed:
    """Any text, even none: what a model without training says decodes to almost nothing."""
    return Parsed(text, None)


@dataclass(frozen=True)
class Setting:
    """What both train: how many episodes at a time, and which model in which type on which device."""

    episodes: int
    dtype: torch.dtype
    device: str = "cpu"
    model: str = ""


def make_model(tokenizer: Any, setting: Setting) -> Any:
    if setting.model:
        model = new_model(setting.model, device=setting.device, dtype=setting.dtype)
        for config in (model.config, model.generation_config):
            config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
        return model
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=7,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config).to(setting.device, setting.dtype)


class Ours:
    """An iteration of turncredit."""

    def __init__(self, tokenizer: Any, setting: Setting) -> None:
        self.learner = Learner(make_model(tokenizer, setting), tokenizer, device=setting.device, lr=1e-5)
        self.sampler = TransformersSampler.from_settings(
            SamplerSettings(
                module=self.learner.weights(),
                tokenizer=tokenizer,
                context=1024,
                concurrency=setting.episodes,
                device=setting.device,
            )
        )
        self.agent = Agent(parser=f"{__name__}:any_text", max_turns=TURNS, max_tokens=TOKENS)
        self.pool = EnvPool(Rooms)
        self.objective = Objective.from_section(ObjectiveSection())
        self.rule = get_credit_rule("gigpo")
        self.episodes, self.step = setting.episodes, 0

    def __call__(self) -> dict[str, float]:
        start = clock()
        tasks = [str(number) for number in range(self.episodes // GROUP)]
        groups = rollout(
            self.agent, self.sampler, tasks, make=self.pool, size=GROUP, seed=self.step, concurrency=self.episodes
        )
        played = clock()
        advantages = self.rule(steps_of(groups))
        batch = pack(groups, advantages)
        packed = clock()
        self.learner.update(batch, self.objective, UpdatePlan(optimizer_steps=1, micro_tokens=8192))
        self.step += 1
        asyncio.run(self.sampler.load(self.learner.weights(), self.step))
        end = clock()
        return {
            "rollout": played - start,
            "credit": packed - played,
            "update": end - packed,
            "total": end - start,
            "sampled": int(batch.mask.sum()),
            "tokens": int(batch.lengths.sum()),
        }


class TRL:
    """An iteration of GRPOTrainer, with the time of its rollout taken inside `rollout_func`."""

    def __init__(self, tokenizer: Any, setting: Setting, folder: str, steps: int) -> None:
        from datasets import Dataset
        from transformers import TrainerCallback
        from trl import GRPOConfig, GRPOTrainer

        self.tokenizer, self.times, self.sampled, self.tokens = tokenizer, [], 0, 0
        outer = self

        class Clock(TrainerCallback):
            def on_step_begin(self, *_: Any, **__: Any) -> None:
                outer.begun = clock()

            def on_step_end(self, *_: Any, **__: Any) -> None:
                total = clock() - outer.begun
                outer.times.append(
                    {
                        "rollout": outer.played,
                        "credit": 0.0,
                        "update": total - outer.played,
                        "total": total,
                        "sampled": outer.sampled,
                        "tokens": outer.tokens,
                    }
                )

        config = GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=setting.episodes,
            num_generations=GROUP,
            max_completion_length=TOKENS,
            max_steps=steps,
            learning_rate=1e-5,
            beta=0.0,
            bf16=False,
            use_cpu=setting.device == "cpu",
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            gradient_checkpointing=False,
            temperature=1.0,
            top_k=0,
            mask_truncated_completions=False,
        )
        self.trainer = GRPOTrainer(
            model=make_model(tokenizer, setting),
            args=config,
            processing_class=tokenizer,
            train_dataset=Dataset.from_dict({"prompt": [str(number) for number in range(steps * setting.episodes)]}),
            reward_funcs=lambda completions, **extra: [float(x) for x in extra["env_reward"]],
            rollout_func=self.play,
            callbacks=[Clock()],
        )

    def play(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play one episode for each prompt; TRL's own generation samples every turn."""
        start, self.sampled = clock(), 0
        envs = [Rooms() for _ in prompts]
        first = [self.ids(env.reset()[0], True) for env in envs]
        sequences, masks, rewards = [list(ids) for ids in first], [[] for _ in envs], [0.0] * len(envs)
        for turn in range(TURNS):
            sampled, *_ = trainer._generate_single_turn(sequences, None, {}, GROUP)
            for i, env in enumerate(envs):
                answer = [int(token) for token in sampled[i]]
                self.sampled += len(answer)
                observation, reward, *_ = env.step(codec_of(self.tokenizer).decode(answer))
                rewards[i] += reward
                extra = self.ids(observation, False) if turn < TURNS - 1 else []
                sequences[i] += answer + extra
                masks[i] += [1] * len(answer) + [0] * len(extra)
        completions = [sequence[len(ids) :] for sequence, ids in zip(sequences, first, strict=True)]
        self.played, self.tokens = clock() - start, sum(map(len, sequences))
        return {
            "prompt_ids": first,
            "completion_ids": completions,
            "logprobs": None,
            "env_mask": masks,
            "env_reward": rewards,
        }

    def ids(self, text: str, first: bool) -> list[int]:
        return list(self.tokenizer.encode(text + "\n>" if first else "\n" + text + "\n>"))


def measure(setting: Setting, repeat: int) -> dict[str, list[dict[str, float]]]:
    """Return the times of both, in turn: the trainer of TRL is advanced by a thread of its own."""
    texts = [" ".join(WORDS * 4), "\n>\n>\n"]  # twice each, so that every word becomes one token
    tokenizer = build_tokenizer(texts, vocab=512, context=1024)
    ours = Ours(tokenizer, setting)
    rounds: dict[str, list[dict[str, float]]] = {"turncredit": [], "TRL": []}
    with tempfile.TemporaryDirectory() as folder:
        trl = TRL(tokenizer, setting, folder, repeat + 1)

        def interleave() -> None:
            rounds["turncredit"].append(ours())
            print({name: times[-1] for name, times in (*rounds.items(), ("TRL", trl.times)) if times}, file=sys.stderr)

        trl.trainer.add_callback(_after_step(interleave))
        trl.trainer.train()
        rounds["TRL"] = trl.times
    return {name: times[1:] for name, times in rounds.items()}  # the first of each warms up


def _after_step(call: Callable[[], None]) -> Any:
    from transformers import TrainerCallback

    class Interleave(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            call()

    return Interleave()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, help="of torch; default: its own choice")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", choices=SHAPES, default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    global _clock
    _clock = options.clock
    if options.threads:
        torch.set_num_threads(options.threads)
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    try:
        import trl
    except ImportError:
        sys.exit("this benchmark needs trl: pip install trl datasets")
    setting = Setting(options.episodes, getattr(torch, options.dtype), options.device, options.model)
    rounds = measure(setting, options.repeat)
    medians = {
        name: {key: statistics.median(row[key] for row in rows) for key in rows[0]} for name, rows in rounds.items()
    }
    table = Table("", "turncredit", f"TRL {trl.__version__}", "ratio", box=None, padding=(0, 2))
    ratios = {}
    for key in ("rollout", "credit", "update", "total"):
        a, b = medians["turncredit"][key], medians["TRL"][key]
        ratios[key] = b / a if a else float("nan")
        table.add_row(key, f"{a:.2f} s", f"{b:.2f} s" if b else "in update", f"{ratios[key]:.2f}" if b else "")
    Console().print(table)
    Console().print(
        f"{options.episodes} episodes of {TURNS} turns, {options.dtype}, {np.mean(ratios['total']):.2f} times as fast "
        f"(goal {GOAL})"
    )
    if options.json:
        options.json.write_text(json.dumps({"medians": medians, "ratios": ratios}, indent=1))


if __name__ == "__main__":
    main()
