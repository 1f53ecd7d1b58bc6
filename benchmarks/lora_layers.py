"""What a LoRA adapter costs beside matrices in bfloat16: as turncredit computes it, and as peft does, alternately.

The matrices are those of the gated layers of Qwen2.5-1.5B, with adapters of rank 16; a pass is computed under autocast,
as a learner does it, and back. On a CPU the clock is that of the processor.

    python benchmarks/lora_layers.py [--device cuda] [--tokens 512] [--rounds 7] [--threads 1] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model

from turncredit.agents.models.lora_layers import compute_in_half

HIDDEN, INSIDE = 1536, 8960


class GatedLayer(torch.nn.Module):
    """The gated layer of a Qwen2.5 of 1.5 billion parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(HIDDEN, INSIDE, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(INSIDE, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


def make(device: str, adapter: str) -> torch.nn.Module:
    torch.manual_seed(0)
    layer = GatedLayer().to(device, torch.bfloat16)
    if adapter == "none":
        return layer.requires_grad_(False)
    model = get_peft_model(layer, LoraConfig(r=16, lora_alpha=32, target_modules=["gate", "up", "down"]))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.02)
    if adapter == "turncredit":
        compute_in_half(model)
    return model


def seconds(model: torch.nn.Module, x: torch.Tensor) -> float:
    cuda = x.is_cuda
    if cuda:
        torch.cuda.synchronize()
    clock = time.perf_counter if cuda else time.process_time
    started = clock()
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        y = model(x.detach().requires_grad_())
    y.float().square().mean().backward()
    if cuda:
        torch.cuda.synchronize()
    return clock() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tokens", type=int, default=0, help="default: 13,200 on CUDA, 512 on a CPU")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    models = {name: make(options.device, name) for name in ("none", "turncredit", "peft")}
    count = options.tokens or (13_200 if options.device.startswith("cuda") else 512)
    x = torch.randn(count, HIDDEN, device=options.device).bfloat16()
    rounds = [{name: seconds(model, x) for name, model in models.items()} for _ in range(1 + options.rounds)][1:]
    medians = {name: statistics.median(row[name] for row in rounds) for name in models}
    ratio = statistics.median(row["peft"] / row["turncredit"] for row in rounds)
    for name, median in medians.items():
        print(f"{name:10} {1000 * median:8.1f} ms, forward and backward of {count} tokens")
    print(f"turncredit is {ratio:.2f} times as fast as peft")
    if options.json:
        options.json.write_text(json.dumps({"medians": medians, "ratio": ratio, "rounds": rounds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
