"""The Triton kernel that attends to pages: compiled on CUDA, or interpreted on a CPU where Triton is installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton", reason="there is no package triton")

PROGRAM = Path(__file__).resolve().parents[1] / "toys/page_kernel_cases.py"
LIMITS = {"torch.float32": 2e-6, "torch.float16": 2e-3, "torch.bfloat16": 2e-2}


def test_the_kernel_is_attention_to_the_pages_of_each_row():
    environment = dict(os.environ) if torch.cuda.is_available() else {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    errors = json.loads(done.stdout)
    assert len(errors) == 12
    assert not [(kind, error) for kind, error in errors if not error < LIMITS[kind]]
