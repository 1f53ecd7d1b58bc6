"""Advantages inside a trainer of TRL: groups over several processes, truncated and failed completions."""

import json
import os
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from turncredit.credit import BadTable, gigpo, grpo, mt_grpo
from turncredit.credit.adapters import from_sequences, turn_advantages

torch = pytest.importorskip("torch")
NAN = float("nan")
plain_grpo = turn_advantages(grpo, scale="none")


def trainer_of(base_class: Any, rewards: Any, mask: Any, *, size: int, rank: int = 0, ranks: int = 1) -> Any:
    """A trainer that returns these rewards [B of all processes, functions] and this mask [B of this one, L]."""
    rewards = torch.tensor(rewards, dtype=torch.float32)
    rewards = rewards[:, None] if rewards.ndim == 1 else rewards

    class Base:
        num_generations = num_generations_eval = size
        reward_weights = torch.arange(1.0, rewards.shape[1] + 1)
        accelerator = SimpleNamespace(process_index=rank, num_processes=ranks)
        model = SimpleNamespace(training=True)

        def _calculate_rewards(self) -> Any:
            return rewards

        def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
            self._calculate_rewards()
            return {"completion_mask": torch.tensor(mask), "advantages": torch.zeros(len(inputs))}

    return type("Trainer", (base_class, Base), {})()


def advantages_of(trainer: Any, inputs: list[dict[str, Any]]) -> Any:
    return trainer._generate_and_score_completions([dict(row) for row in inputs])["advantages"]


def test_a_trainer_of_trl_gets_an_advantage_for_every_turn() -> None:
    mask = [[1, 0, 1], [1, 1, 1]]
    trainer = trainer_of(turn_advantages(mt_grpo), [[1.0, 0.5], [0.0, NAN]], mask, size=2)
    advantages = advantages_of(trainer, [{}, {}])
    packed = from_sequences(uid=[0, 0], response_mask=mask, rewards=[2.0, 0.0])
    assert advantages.dtype == torch.float32
    assert advantages.tolist() == pytest.approx(packed.tokens(mt_grpo(packed.steps)))
    assert advantages[0, 2] > 0 > advantages[1, 0]
    by_turn = [{"turn_rewards": [0.0, 1.0], "states": ["a", "b"]}, {"turn_rewards": [0.5], "states": ["a"]}]
    advantages = advantages_of(trainer, by_turn)
    packed = from_sequences(uid=[0, 0], response_mask=mask, turn_rewards=[[0.0, 1.0], [0.5]], state=[["a", "b"], ["a"]])
    assert advantages.numpy() == pytest.approx(packed.tokens(mt_grpo(packed.steps)), abs=1e-6)


def test_truncated_completions_count_in_the_mean_of_their_group() -> None:
    """TRL sets the mask of a completion without an end to zero (mask_truncated_completions)."""
    rewards, mask = [1.0, 1.0, 0.0, 0.0], [[1, 1], [1, 0], [0, 0], [0, 0]]
    found = advantages_of(trainer_of(plain_grpo, rewards, mask, size=4), [{"prompt": "p"}] * 4)
    wanted = np.array(rewards) - np.mean(rewards)
    assert found.tolist() == (wanted[:, None] * np.array(mask)).tolist() == [[0.5, 0.5], [0.5, 0.0], [0, 0], [0, 0]]


def test_completions_without_any_reward_do_not_count() -> None:
    """An episode that failed has none, whether or not it had turns before."""
    rewards, mask = [[1.0, 1.0], [0.0, NAN], [NAN, NAN], [NAN, NAN]], [[1, 1], [1, 0], [0, 0], [1, 1]]
    found = advantages_of(trainer_of(plain_grpo, rewards, mask, size=4), [{"prompt": "p"}] * 4)
    totals = np.array([1.0 * 1 + 1.0 * 2, 0.0])
    assert found[:, 0].tolist() == [*(totals - totals.mean()).tolist(), 0.0, 0.0]
    inputs = [{"prompt": "p", "turn_rewards": turns} for turns in ([3.0], [0.0], [], [100.0])]
    found = advantages_of(trainer_of(plain_grpo, rewards, mask, size=4), inputs)
    assert found[:, 0].tolist() == [1.5, -1.5, 0.0, 0.0]


RANKS: dict[str, list[tuple[str, float, list[int]]]] = {
    "six on each, groups of four": [*[("A", r, [1, 1]) for r in (1.0, 0.0, 0.0, 0.0)],
                                    *[("B", r, [1, 1]) for r in (1.0, 1.0, 0.0, 0.0)],
                                    *[("C", 5.0, [1, 1])] * 4],
}  # fmt: skip


def on_ranks(
    monkeypatch: pytest.MonkeyPatch, base_class: Any, rows: list[dict[str, Any]], size: int, ranks: int
) -> Any:
    """The advantages [B, L] of rows that lie on several processes, here threads that meet where they gather."""
    utilities = pytest.importorskip("accelerate.utils")
    meeting, held = threading.Barrier(ranks, timeout=30), dict[int, Any]()
    here = threading.local()

    def gather_object(own: list[Any]) -> list[Any]:
        held[here.rank] = json.loads(json.dumps([{**row, "mask": row["mask"].tolist()} for row in own]))  # no sharing
        meeting.wait()
        return [{**row, "mask": np.array(row["mask"], dtype=bool)} for rank in range(ranks) for row in held[rank]]

    monkeypatch.setattr(utilities, "gather_object", gather_object)
    share, found = len(rows) // ranks, dict[int, Any]()

    def play(rank: int) -> None:
        here.rank = rank
        own = rows[rank * share : (rank + 1) * share]
        longest = max(len(row["own"]) for row in own)  # each process pads to its own longest completion
        mask = [row["own"] + [0] * (longest - len(row["own"])) for row in own]
        trainer = trainer_of(base_class, [row["paid"] for row in rows], mask, size=size, rank=rank, ranks=ranks)
        inputs = [{key: value for key, value in row.items() if key not in ("own", "paid")} for row in own]
        try:
            found[rank] = advantages_of(trainer, inputs)
        except BadTable as error:
            found[rank] = error

    threads = [threading.Thread(target=play, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in found.values():
        if isinstance(result, BadTable):
            raise result
    return [found[rank].tolist() for rank in range(ranks)]


def test_a_group_may_be_divided_among_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"prompt": p, "paid": r, "own": own} for p, r, own in RANKS["six on each, groups of four"]]
    first, second = on_ranks(monkeypatch, plain_grpo, rows, 4, 2)
    assert [row[0] for row in first] == [0.75, -0.25, -0.25, -0.25, 0.5, 0.5]
    assert [row[0] for row in second] == [-0.5, -0.5, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_processes_change_no_advantage(monkeypatch: pytest.MonkeyPatch, ranks: int) -> None:
    """Turns, states and failed episodes as a rollout function returns them; the same rows on one process."""
    rng = np.random.default_rng(ranks)
    rows: list[dict[str, Any]] = []
    for number in range(12):
        turns = int(rng.integers(1, 4))
        own = [token for _ in range(turns) for token in (*[1] * int(rng.integers(1, 3)), 0)]
        failed = number % 7 == 3
        rows.append({
            "prompt": f"task {number // 6}",
            "paid": NAN if failed else float(rng.integers(0, 2)),
            "own": [0] if failed or number == 1 else own,
            "turn_rewards": [] if failed else rng.normal(size=turns).tolist(),
            "states": [] if failed else [f"s{rng.integers(0, 3)}" for _ in range(turns)],
            "valid": [] if failed else [True] * turns,
        })  # fmt: skip
    rule = turn_advantages(gigpo, gamma=0.9)
    parts = on_ranks(monkeypatch, rule, rows, 6, ranks)
    (whole,) = on_ranks(monkeypatch, rule, rows, 6, 1)
    found = [row for part in parts for row in part]
    assert sum(abs(value) for row in found for value in row) > 1
    for one, other in zip(found, whole, strict=True):
        width = max(len(one), len(other))
        assert one + [0.0] * (width - len(one)) == pytest.approx(other + [0.0] * (width - len(other)), abs=1e-6)


def test_groups_of_different_prompts_and_missing_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = [{"prompt": p, "paid": 1.0, "own": [1]} for p in "AAABBB"]
    with pytest.raises(BadTable, match="prompt 3 differs from prompt 2, the first of its group of 2"):
        on_ranks(monkeypatch, plain_grpo, mixed, 2, 2)
    alone = trainer_of(plain_grpo, [1.0, 1.0, 0.0, 0.0], [[1], [1]], size=4, rank=1)
    with pytest.raises(BadTable, match="rewards of 4 completions, but only 2"):
        advantages_of(alone, [{"prompt": "B"}] * 2)


REAL = """
import json, sys
sys.path[:0] = [{tests!r}]
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
from test_trl_trainer import RANKS, advantages_of, plain_grpo, trainer_of
rows = RANKS["six on each, groups of four"]
own = rows[accelerator.process_index * 6:][:6]
trainer = trainer_of(plain_grpo, [r for _, r, _ in rows], [mask for _, _, mask in own], size=4)
trainer.accelerator = accelerator
found = advantages_of(trainer, [{{"prompt": prompt}} for prompt, _, _ in own])
print("found", json.dumps(found[:, 0].tolist()))
"""


def test_two_processes_exchange_their_rows() -> None:
    pytest.importorskip("accelerate")
    from toys.ports import reserved_port  # the processes below import this module without the path to toys

    code = REAL.format(tests=os.path.dirname(__file__))
    with reserved_port() as port:
        shared = {**os.environ, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}  # fmt: skip
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", code],
                env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        said = [rank.communicate(timeout=240) for rank in ranks]
    found = [json.loads(out.partition("found ")[2] or json.dumps(error[-2000:])) for out, error in said]
    assert found == [[0.75, -0.25, -0.25, -0.25, 0.5, 0.5], [-0.5, -0.5, 0.0, 0.0, 0.0, 0.0]]
