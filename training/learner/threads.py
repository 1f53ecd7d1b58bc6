"""CPU threads and vector instructions of torch, and what keeps its gradients working in forks.

With one thread and the same vector instructions, training repeats on one machine to the last digit. Processors of AMD
with and without AVX-512 gave the same digits too. Those of Intel do not: the libraries multiply matrices differently.
"""

from __future__ import annotations

import os
from typing import Any, Final

from turncredit.training.errors import ConfigError

SMALL_MODEL: Final = 20_000_000
"""Parameters below which one thread is fastest, and memory needs no estimate."""

AVX2: Final = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
"""Environment variables with which torch, MKL and oneDNN use AVX2 on processors that have wider vectors too."""


def use_threads(count: int, model: Any = None) -> None:
    """Set the number of CPU threads that torch uses.

    Args:
        count: threads. 0: one for a model of fewer than `SMALL_MODEL` parameters, whose operations take less time than
            it takes several threads to meet on a busy machine; otherwise torch's own choice. An explicit 1 asks for
            results that repeat, and limits vector instructions to those that nearly all x86 processors have.
        model: the model that will run, if it is known yet.
    """
    if count == 1:
        _limit_instructions()
    if not count and model is not None and sum(weights.numel() for weights in model.parameters()) < SMALL_MODEL:
        count = 1
    if count:
        import torch

        torch.set_num_threads(count)


def hide_gpus() -> None:
    """Let torch see no GPU in this process, so that forks of it can compute gradients.

    Its first backward pass starts a thread for each GPU that it sees, even for a model on the CPU, and a fork, which
    lacks these threads, refuses to compute gradients from then on.

    Raises:
        ConfigError: this process has looked for GPUs already, and found some.
    """
    import torch

    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if torch.cuda.is_available():
        raise ConfigError(
            "processes > 1 forks this process, which has seen a GPU already, so torch cannot compute gradients in the "
            'forks: start Python with CUDA_VISIBLE_DEVICES="", set processes = 1, or train on the GPU'
        )


def _limit_instructions() -> None:
    """Let torch and its libraries use AVX2 and nothing newer, unless the environment says otherwise.

    Sums of more numbers at once round differently. It has no effect after the first operation of the process.
    """
    import torch

    if torch.cpu._is_avx2_supported():
        for variable, value in AVX2.items():
            os.environ.setdefault(variable, value)
