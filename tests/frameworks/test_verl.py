"""The documented estimator in verl's registry, called by verl's own `compute_advantage`.

verl's requirements contradict those of the other frameworks, so `make test-frameworks` puts it into a folder of its own
beside them, which only the program of this test has on its path.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import documented
import pytest

pytestmark = pytest.mark.frameworks
FOLDER = Path(sys.prefix) / "verl"
if not (FOLDER / "verl").is_dir():
    pytest.skip("verl is not installed (make test-frameworks)", allow_module_level=True)

CHECK = """
import numpy
from verl import DataProto
from verl.trainer.ppo.ray_trainer import compute_advantage

mask = torch.tensor([[1, 1, 0, 0, 1], [1, 0, 0, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 0, 0]])
rewards = torch.tensor([[0, 0.5, 0, 0, 1.0], [0, 0, 0, 0, 0.0], [0, 0, 1.0, 0, 0], [0, 0, 0.5, 0, 0]])
uid = numpy.array(["a", "a", "b", "b"], dtype=object)
batch = DataProto.from_dict(
    tensors={"response_mask": mask, "token_level_rewards": rewards}, non_tensors={"uid": uid}
)
found = compute_advantage(batch, adv_estimator="turncredit").batch
packed = from_sequences(uid=uid, response_mask=mask, token_level_rewards=rewards)
expected = torch.from_numpy(packed.tokens(mt_grpo(packed.steps))).float()
assert torch.equal(found["advantages"], expected), (found["advantages"], expected)
assert torch.equal(found["returns"], expected) and found["advantages"].dtype == torch.float32
assert expected.abs().sum() > 0 and (expected[mask == 0] == 0).all()
assert len({tuple(row) for row in expected.tolist()}) == 4
grpo = compute_advantage(batch, adv_estimator="grpo").batch["advantages"]
assert not torch.equal(grpo, expected)
mask[3] = 0  # an empty response: verl's reward managers then write to the last column
rewards[3] = torch.tensor([0, 0, 0, 0, 3.0])
batch.batch["response_mask"], batch.batch["token_level_rewards"] = mask, rewards
found = compute_advantage(batch, adv_estimator="turncredit").batch["advantages"]
assert (found[3] == 0).all() and torch.isfinite(found).all()
assert found[2, 0] < 0 < expected[2, 0], found  # its turn earned less than the mean of both
print("ok")
"""


def test_verls_trainer_computes_our_advantages():
    code = documented.examples("python")[0] + documented.example("verl") + CHECK
    path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.splitlines()[-1] == "ok"
