"""What routing replay changes between an engine in bfloat16 and a learner in float32, of a mixture with random weights.

The engine samples answers and records the experts of each token. The learner scores them once with the experts that its
own routers choose, and once with those that were recorded.

    python benchmarks/routing_replay.py [--engine vllm --device cuda]

vLLM returns experts on GPUs only.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from turncredit.agents.prompts.prompt import View
from turncredit.agents.token_experts import TurnExperts
from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.engines.base import Completion, Request, SamplerSettings
from turncredit.engines.transformers.expert_routing import Routers
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.training.batch.batch import Batch, pack
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.policy import build_policy, save_policy

PROMPT = 64


def mixture(layers: int, experts: int, top: int, words: int) -> Any:
    """Return a Qwen 3 MoE whose predictions are sharp."""
    torch.manual_seed(0)
    config = transformers.Qwen3MoeConfig(
        vocab_size=words, hidden_size=128, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2,
        head_dim=32, moe_intermediate_size=64, num_experts=experts, num_experts_per_tok=top, norm_topk_prob=True,
        max_position_embeddings=512,
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False).eval()
    for weight in model.parameters():
        if weight.ndim >= 2:
            torch.nn.init.normal_(weight, std=0.1)
    return model


def make_engine(model: Any, tokenizer: Any, folder: Path, options: argparse.Namespace) -> Any:
    """Return an engine in bfloat16 that records experts."""
    if options.engine == "transformers":
        return TransformersSampler(model, tokenizer, dtype="bfloat16", experts=True, device=options.device)
    from turncredit.engines.vllm.sampler import VLLMSampler

    save_policy(model, tokenizer, folder)
    settings = SamplerSettings(
        model=str(folder),
        tokenizer=tokenizer,
        device=options.device,
        dtype="bfloat16",
        kv_cache_gib=1.0,
        concurrency=options.answers,
        context=512,
        experts=True,
        options={"enforce_eager": True},
    )
    return VLLMSampler(settings)


def sample(sampler: Any, words: int, count: int) -> list[tuple[Request, Completion]]:
    """Return answers of an engine."""
    rng, view = np.random.default_rng(0), View("", "", None, 0)
    prompts = [tuple(rng.integers(5, words, PROMPT).tolist()) for _ in range(count)]
    asked = [Request(f"t#{n}@0", 0, prompt, (), n, view, max_tokens=64) for n, prompt in enumerate(prompts)]

    async def together() -> list[Completion]:
        return list(await asyncio.gather(*map(sampler.sample, asked)))

    return list(zip(asked, asyncio.run(together()), strict=True))


def batch_of(sampled: list[tuple[Request, Completion]]) -> Batch:
    """Return the answers as a batch."""
    members = []
    for asked, answer in sampled:
        assert answer.experts is not None
        turn = Turn(asked.prompt, answer.tokens, answer.logprobs, 0, "", "", "", "", 0.0, True,
                    experts=TurnExperts(answer.experts))  # fmt: skip
        members.append(Trajectory(asked.episode, "t", None, 0, (turn,), "terminated", False, 0.0, "", "", None, 0.0))
    return pack([Group("t", tuple(members))])


def differing(model: Any, batch: Batch) -> float:
    """Return the share of (token, layer) for which the model chooses another set of experts than the recorded one."""
    routers, other, total = Routers.of(model), 0, 0
    assert batch.experts is not None
    for row, recorded in enumerate(batch.experts):
        assert recorded is not None
        with torch.no_grad(), routers.recording() as choices:
            model(input_ids=torch.from_numpy(batch.tokens[row, : len(recorded)])[None], use_cache=False)
        own = np.sort(torch.stack(choices, dim=1).numpy(), axis=-1)
        other, total = other + int((own != np.sort(recorded, axis=-1)).any(axis=-1).sum()), total + own[..., 0].size
    return other / total


def main() -> None:
    """Print the gaps of both ways, in nats."""
    parser = argparse.ArgumentParser()
    for name, size in (("layers", 4), ("experts", 32), ("top", 4), ("answers", 16)):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--engine", choices=("transformers", "vllm"), default="transformers")
    parser.add_argument("--device", default="cpu", help="of the engine; the learner computes on the CPU")
    sizes = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = build_policy(["a b c"], vocab=280, hidden=32, layers=1, heads=1, context=64)[1]
    words = len(tokenizer)
    model = mixture(sizes.layers, sizes.experts, sizes.top, words)
    with tempfile.TemporaryDirectory() as folder:
        sampler = make_engine(copy.deepcopy(model), tokenizer, Path(folder), sizes)
        batch = batch_of(sample(sampler, words, sizes.answers))
        if sizes.engine == "vllm":
            sampler.close()
    print(
        f"{int(batch.mask.sum())} sampled tokens; other experts at {differing(model, batch):.2%} of tokens and layers"
    )
    for name in ("own experts", "recorded"):
        scorer = TokenScorer(model)
        if name == "recorded":
            scorer.replay_routing()
        gap = np.abs(scorer.score(batch).logprobs - batch.old)[batch.mask]
        print(f"{name:<12} gap {gap.mean():.4f}, 99 % {np.quantile(gap, 0.99):.4f}, max {gap.max():.4f} nats")


if __name__ == "__main__":
    main()
