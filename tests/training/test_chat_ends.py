"""A run whose chat template ends answers with another token than the tokenizer's end: it stops where it was taught."""

import pytest
import torch
import toys.corridor
from toys.tokens import CHATML

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.training import Run, train
from turncredit.training.audit import audit
from turncredit.training.learner.policy import build_policy, save_policy

torch.set_num_threads(1)
ROOMS = ["You are in room 1.", "Exits: go right, go left.", "take key", "open door", "You have the key.\n> go right"]


@pytest.mark.parametrize("special", [True, False], ids=["one token", "several tokens"])
def test_a_run_ends_answers_as_its_demonstrations_do(special, tmp_path):
    model, tokenizer = build_policy(ROOMS * 3, vocab=300, hidden=48, layers=2, heads=2, context=1200, seed=1)
    if special:
        tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    tokenizer.chat_template = CHATML
    save_policy(model, tokenizer, tmp_path / "policy")
    table = {
        "threads": 1,
        "trajectory_format": ".jsonl",
        "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3]}},
        "agent": {"max_turns": 5, "max_tokens": 24},
        "policy": {"model": str(tmp_path / "policy"), "context": 1200},
        "imitation": {"episodes": 60, "epochs": 8, "lr": 5e-3, "batch_tokens": 600},
        "train": {"iterations": 1, "groups": 2, "group_size": 4, "lr": 1e-4},
        "checkpoints": {"every": 1},
        "evaluation": {"episodes": 0},
    }
    train(Run.parse(table, [f'output="{tmp_path / "run"}"']))
    (file,) = (tmp_path / "run" / "trajectories").glob("*.jsonl")
    turns = [turn for trajectory in read_trajectories(file) for turn in trajectory.turns]
    ended = [turn for turn in turns if turn.finish == "stop"]
    assert len(ended) > 0.8 * len(turns)
    assert not any("<|im_end|>" in turn.text for turn in turns)
    assert sum(turn.valid for turn in turns) > 0.5 * len(turns)
    if special:
        end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        assert {turn.response[-1] for turn in ended} == {end} != {tokenizer.eos_token_id}, "not the end of a text"
    report = audit(tmp_path / "run")
    assert report.passed, [str(problem) for one in report.checks for problem in one.problems]
