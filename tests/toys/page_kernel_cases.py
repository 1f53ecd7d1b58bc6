"""Prints, as JSON, how far the Triton kernel is from attention in float64, for several shapes.

It is a program, since Triton reads TRITON_INTERPRET when it is imported: with it, kernels run on the CPU.
"""

import json
from typing import Any

import torch

from turncredit.engines.transformers.page_kernel import attend_pages

# rows, heads, key heads, size, value size, width, pages, window
CASES = (
    (1, 4, 2, 8, 8, 16, 6, None),
    (5, 6, 2, 64, 64, 128, 4, None),
    (3, 4, 4, 96, 32, 32, 5, 24),
    (8, 8, 1, 32, 32, 16, 9, 40),
    (2, 12, 2, 128, 128, 128, 5, 300),
    (2, 2, 2, 256, 256, 16, 3, None),
)


def error(case: tuple[Any, ...], dtype: torch.dtype, device: str) -> float:
    """Return the largest difference for one case."""
    rows, heads, kinds, size, depth, width, count, window = case
    generator = torch.Generator().manual_seed(0)
    total = rows * count + 3

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(device, dtype)

    keys, values = random(total, kinds, width, size), random(total, kinds, width, depth)
    query = random(rows, 1, heads, size).transpose(1, 2)
    pages = torch.randperm(total, generator=generator)[: rows * count].view(rows, count).to(device)
    positions = torch.randint(0, count * width, (rows,), generator=generator)
    positions[0], positions[-1] = count * width - 1, 0 if rows > 1 else count * width - 1
    positions = positions.to(device)
    out = attend_pages(query, keys, values, positions, pages, size**-0.5, window)
    key, value = (
        block[pages]
        .transpose(1, 2)
        .reshape(rows, kinds, count * width, -1)
        .double()
        .repeat_interleave(heads // kinds, 1)
        for block in (keys, values)
    )
    at = torch.arange(count * width, device=device)
    seen = at <= positions[:, None]
    if window is not None:
        seen &= at > positions[:, None] - window
    scores = (query.double() @ key.transpose(-1, -2)) * size**-0.5
    right = torch.softmax(scores.masked_fill(~seen[:, None, None], -torch.inf), -1) @ value
    assert out.shape == (rows, heads, 1, depth)
    return float((out.double() - right).abs().max())


if __name__ == "__main__":
    there = "cuda" if torch.cuda.is_available() else "cpu"
    half = torch.bfloat16 if there == "cuda" else torch.float16  # the interpreter multiplies no bfloat16
    print(json.dumps([[str(kind), error(case, kind, there)] for case in CASES for kind in (torch.float32, half)]))
