import json
import math
import os
import random
import re
import signal
import threading
import time
from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
import torch
import toys.corridor
from hypothesis import given
from hypothesis import strategies as st
from toys.training_helpers import conversation, gradient, tiny_llama, trajectory

from turncredit.agents.agent import Agent
from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group
from turncredit.credit.advantages import Advantages
from turncredit.engines.expert import Expert
from turncredit.envs.errors import EnvError
from turncredit.training.config.run import Run
from turncredit.training.config.sections import ImitationSection
from turncredit.training.errors import ConfigError, NoDemonstrations
from turncredit.training.imitation.imitation import _accumulate, _steps, demonstration_batch, imitate, interruptible
from turncredit.training.imitation.noisy_expert import NoisyDemonstrator, slip, typo
from turncredit.training.learner.gradient import UpdateMeter, UpdatePlan, accumulate
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.policy import build_policy
from turncredit.training.objectives import Objective
from turncredit.training.parts import prepare
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.warm_start_recovery import WarmStartRecovery

torch.set_num_threads(1)


def _learner(model=None):
    return Learner(model or tiny_llama(), None)


def _batch(count=6, context=1000, keep=None):
    rng = np.random.default_rng(0)
    groups = [Group("t", (trajectory(conversation(rng, 3), name=f"t#{k}@0", won=True),)) for k in range(count)]
    advantages = Advantages.of(steps_of(groups), np.ones(3 * count), keep=keep)
    return demonstration_batch(groups, advantages, context=context)


def _setup(tmp_path, world=None, /, **imitation):
    return prepare(
        Run.parse(
            {
                "output": str(tmp_path),
                "env": world or {"id": f"toys.corridor:{toys.corridor.ID}"},
                "agent": {"max_turns": 12},
                "imitation": {"episodes": 12, **imitation},
                "evaluation": {"episodes": 0},
            }
        )
    )


def test_the_loss_is_the_mean_over_what_was_said():
    batch, model = _batch(), tiny_llama()
    wanted = -_learner(model).score(batch).logprobs[batch.mask].mean()
    losses = []
    imitate(
        _learner(model),
        batch,
        ImitationSection(lr=1e-9, batch_tokens=10_000),
        on_step=lambda event: losses.append(event["loss"]),
    )
    assert losses == pytest.approx([wanted])


def test_one_token_rollout_has_the_gradient_of_its_objective():
    gradients = []
    for loss in ("likelihood", "otr"):
        learner, batch = _learner(), _batch()
        _accumulate(loss, learner, batch, 60)
        gradients.append(gradient(learner.model))
    learner, meter = _learner(), UpdateMeter()
    accumulate(learner.scorer, batch, Objective(name="otr"), UpdatePlan(grad_clip=1e9), meter)
    torch.testing.assert_close(gradients[1], gradient(learner.model), rtol=1e-9, atol=1e-12)
    assert (gradients[0] - gradients[1]).abs().max() > 1e-3
    stats = imitate(learner, batch, ImitationSection(loss="otr", batch_tokens=10_000), micro_tokens=60)
    plain = imitate(_learner(), batch, ImitationSection(batch_tokens=10_000), micro_tokens=60)
    assert stats["loss"] == pytest.approx(plain["loss"])  # of the first step, -log p in both


def test_micro_batches_do_not_change_what_is_learned():
    ends = []
    for micro_tokens in (30, 10_000):
        model = tiny_llama()
        imitate(
            _learner(model), _batch(), ImitationSection(lr=1e-3, epochs=2, batch_tokens=60), micro_tokens=micro_tokens
        )
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("budget", [500, 1000, 4000])
def test_steps_are_even_and_hold_every_demonstration_once(budget):
    """Lengths as of household demonstrations."""
    lengths = np.random.default_rng(1).gamma(8.0, 34.0, 2000).astype(np.int64) + 1
    steps = _steps(lengths, budget, np.random.default_rng(0))
    assert sorted(np.concatenate(steps)) == list(range(2000))  # every demonstration once
    tokens = np.sort([lengths[rows].sum() for rows in steps])
    assert abs(tokens[1:] - budget).max() < 2 * lengths.max()  # one step is the rest
    assert all((a == b).all() for a, b in zip(steps, _steps(lengths, budget, np.random.default_rng(0)), strict=True))
    longest = np.array([lengths[rows].max() for rows in steps])
    assert abs(np.corrcoef(longest[:-1], longest[1:])[0, 1]) < 0.3  # short ones do not all come first


def test_demonstrations_become_likely():
    batch, model = _batch(), tiny_llama()
    before = _learner(model).score(batch).logprobs[batch.mask].mean()
    stats = imitate(_learner(model), batch, ImitationSection(epochs=40, lr=1e-2, batch_tokens=60))
    after = _learner(model).score(batch).logprobs[batch.mask].mean()
    assert after > before + 1.0
    assert stats["loss"] == pytest.approx(-after, abs=0.3)
    assert stats["skipped"] == 0
    assert stats["tokens"] == 40 * batch.size


def test_turns_that_are_not_kept_are_not_learned():
    keep = np.arange(18) % 3 != 1
    part, whole = _batch(keep=keep), _batch()
    assert 0 < part.mask.sum() < whole.mask.sum()
    assert part.tokens.tolist() == whole.tokens.tolist()


def test_what_was_seen_is_learned_by_its_weight():
    rng = np.random.default_rng(0)
    groups = [Group("t", (trajectory(conversation(rng, 3), won=True),))]
    keep = np.array([True, False, True])
    advantages = Advantages.of(steps_of(groups), np.ones(3), keep=keep)
    batch = demonstration_batch(groups, advantages, context=99, observations=0.25)
    answered = np.isin(batch.turn, (0, 2))
    seen = (batch.turn == -1) & (np.arange(batch.tokens.shape[1]) > 0)
    assert (batch.advantages == answered + 0.25 * seen).all()
    assert (batch.mask == (answered | seen)).all()
    losses, model = [], tiny_llama()
    scores = -_learner(model).score(batch).logprobs
    imitate(_learner(model), batch, ImitationSection(lr=1e-9), on_step=lambda event: losses.append(event["loss"]))
    assert losses == pytest.approx([scores[answered].mean()])


def test_a_warm_start_ends_when_its_loss_is_down_to_the_target():
    batch = _batch(count=40)
    whole: list[dict[str, float]] = []
    imitate(_learner(), batch, ImitationSection(epochs=5, lr=1e-2, batch_tokens=1), on_step=whole.append)
    losses = [event["loss"] for event in whole]
    assert len(losses) == 200
    target = float(np.mean(losses[90:100]))
    arrival = next(k for k in range(10, 200) if np.mean(losses[k - 10 : k]) <= target)
    early: list[dict[str, float]] = []
    stats = imitate(
        _learner(), batch, ImitationSection(epochs=5, lr=1e-2, batch_tokens=1, target_loss=target), on_step=early.append
    )
    assert stats["steps"] == len(early) == arrival
    assert early == whole[:arrival]


def test_what_is_beyond_the_context_is_cut():
    batch = _batch(context=9)
    assert batch.tokens.shape[1] <= 9
    assert batch.lengths.max() <= 9
    with pytest.raises(NoDemonstrations, match="within a context of 1 tokens"):
        _batch(context=1)


def test_what_is_not_finite_is_skipped_and_counted():
    batch, model = _batch(), tiny_llama()
    with torch.no_grad():
        model.lm_head.weight[0] = math.inf
    before = [p.detach().clone() for p in model.parameters()]
    assert imitate(_learner(model), batch, ImitationSection(batch_tokens=10_000))["skipped"] == 1
    assert all(torch.equal(first, other) for first, other in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_noise_is_played_and_not_imitated(tmp_path, noise):
    setup = _setup(tmp_path, demonstrator={"noise": noise})
    played = setup.demonstrations().demonstrate(setup.environments.tasks[:12])
    turns = [(episode.id, k, turn) for episode in played.trajectories for k, turn in enumerate(episode.turns)]
    assert all(episode.won for episode in played.trajectories)
    assert all(turn.valid for name, k, turn in turns if (name, k) not in played.mistakes)
    noisy = [turn for name, k, turn in turns if (name, k) in played.mistakes]
    assert bool(noisy) == bool(noise)
    _, tokenizer = build_policy(played.texts, vocab=280, hidden=16, layers=1, heads=1, context=1000)
    groups, advantages = played.tokenized(Agent(max_turns=12), tokenizer)
    assert advantages.keep.sum() == len(turns) - len(noisy)
    batch = demonstration_batch(groups, advantages, context=1000)
    learned = sum(len(turn.response) for g in groups for episode in g.trajectories for turn in episode.turns)
    assert (batch.mask.sum() == learned) == (not noise)
    assert len(batch) == len(groups)  # every conversation is one sequence


def test_a_share_of_the_demonstrations_follows_a_hint(tmp_path):
    setup = _setup(tmp_path, hinted=0.5, episodes=60, demonstrator={"name": "expert", "noise": 0.5})
    tasks = setup.environments.tasks
    demonstrations = setup.demonstrations().demonstrate((tasks * 60)[:60])
    hinted = [item for item in demonstrations.trajectories if item.hint]
    assert 15 < len(hinted) < 45
    for item in hinted:
        imitated = [
            f"{number + 1}. {turn.action}"
            for number, turn in enumerate(item.turns)
            if (item.id, number) not in demonstrations.mistakes
        ]
        assert item.turns[0].observation.endswith(f"Hint: Begin with these actions: {' '.join(imitated)}")
        assert item.won
    assert any(len(item.turns) > item.hint.count(". ") for item in hinted)


@pytest.mark.parametrize(("slips", "invalid"), [(0.0, False), (1.0, True)])
def test_slips_are_what_cannot_be_done(tmp_path, slips, invalid):
    setup = _setup(tmp_path)
    player = NoisyDemonstrator(Expert(), noise=0.5, slips=slips)
    groups = rollout(setup.agent(None), player, setup.environments.tasks[:12], make=setup.environments.make)
    played = [episode for group in groups for episode in group.trajectories]
    noisy = [turn for episode in played for k, turn in enumerate(episode.turns) if (episode.id, k) in player.mistakes]
    assert noisy
    assert {turn.valid for turn in noisy} == {not invalid}


@given(st.lists(st.text(" ab", max_size=5), min_size=1), st.lists(st.text(" ab", max_size=5)), st.integers())
def test_a_slip_is_drawn_from_any_actions(admissible, earlier, seed):
    action = slip(admissible, [*earlier, *admissible], random.Random(seed))
    assert isinstance(action, str)
    assert action not in admissible or set(earlier) <= set(admissible)


def kind(piece):
    return "1" if piece[0].isdigit() else "a" if piece[0].isalpha() else " " if piece.isspace() else "+"


PIECES = re.compile(r"\d+|[^\W\d]\w*|[^\w\s]+|\s+")


@given(st.text("ab1 2(+", max_size=12), st.lists(st.text("ab1 2(+c3", max_size=8), max_size=3), st.integers())
def test_a_typo_changes_one_piece_for_one_that_was_seen(action, seen, seed):
    pieces, others = PIECES.findall(action), PIECES.findall("\n".join([*seen, action]))
    may = {
        "".join([*pieces[:at], other, *pieces[at + 1 :]])
        for at in range(1, len(pieces))
        for other in others
        if other != pieces[at] and kind(other) == kind(pieces[at]) != " "
    }
    misspelt = typo(action, seen, random.Random(seed))
    assert misspelt in may or (misspelt is None and not may)


def test_a_typo_needs_another_piece_of_the_kind():
    assert typo("submit", ["a b c"], random.Random(0)) is None
    assert typo("say a", ["a 3 +"], random.Random(0)) == "say say"
    assert {typo("add 1 + b", ["2"], random.Random(seed)) for seed in range(99)} == {
        "add 2 + b",
        "add 1 + add",
    }


def test_an_expert_comes_back_from_typos(tmp_path):
    setup = _setup(tmp_path, {"id": "turncredit/Code-v0", "kwargs": {"level": "tiny"}}, demonstrator={"typos": 0.6})
    played = setup.demonstrations().demonstrate(setup.environments.tasks[:12])
    assert played.mistakes
    assert all(episode.won for episode in played.trajectories)
    for episode in played.trajectories:
        for turn, after in pairwise(enumerate(episode.turns)):
            if (episode.id, turn[0]) in played.mistakes:
                assert turn[1].action.startswith("replace")
                changed = "is now:" in after[1].observation
                assert (after[1].action == "test") == changed, "what was changed is tested before it is mended"


def test_the_same_demonstrations_come_again(tmp_path):
    setup = _setup(tmp_path, demonstrator={"noise": 0.3})
    first, other = (setup.demonstrations().demonstrate(setup.environments.tasks[:6]) for _ in range(2))
    assert [t.turns for t in first.trajectories] == [t.turns for t in other.trajectories]
    assert first.mistakes == other.mistakes


def test_more_tasks_may_be_demonstrated_than_are_practised(tmp_path):
    content = {
        "output": str(tmp_path),
        "env": {"kwargs": {"level": "tiny"}},
        "imitation": {"episodes": 40},
        "evaluation": {"episodes": 0},
        "train": {"distinct_tasks": 5},
    }
    prepared = prepare(Run.parse(content, ["imitation.distinct_tasks=20"]))
    demonstrated, practised = prepared.demonstrated.tasks, prepared.environments.tasks
    assert (len(set(demonstrated)), len(practised)) == (20, 5)
    played = prepared.demonstrations().demonstrate(demonstrated)
    assert {trajectory.task for trajectory in played.trajectories} == set(demonstrated)
    assert prepare(Run.parse(content)).demonstrated.tasks == practised


def test_a_template_that_lists_actions_can_be_imitated(tmp_path):
    """From the expert's bare plan to a step of training, from memory and from a file alike."""

    def setup(demonstrator):
        content = {
            "output": str(tmp_path),
            "env": {"kwargs": {"level": "tiny"}},
            "agent": {"template": "react", "parser": "think-action"},
            "imitation": {"episodes": 3, "demonstrator": demonstrator},
            "evaluation": {"episodes": 0},
            "train": {"distinct_tasks": 3},
        }
        return prepare(Run.parse(content))

    prepared = setup("expert")
    stored = str(tmp_path / "demonstrations.jsonl")
    with TrajectoryWriter(stored) as writer:
        played = prepared.demonstrations().demonstrate(prepared.environments.tasks, writer.write)
    other = setup(stored)
    read = other.demonstrations().demonstrate(other.environments.tasks)
    model, tokenizer = build_policy(played.texts, vocab=300, hidden=16, layers=1, heads=1, context=8192)
    agent = prepared.agent(tokenizer)
    groups, advantages = played.tokenized(agent, tokenizer)
    by_id = {group.trajectories[0].id: group.trajectories[0] for group in groups}
    for group in read.tokenized(agent, tokenizer)[0]:
        assert group.trajectories[0].turns == by_id[group.trajectories[0].id].turns
    for group in groups:
        for turn in group.trajectories[0].turns:
            assert tokenizer.decode(turn.response[:-1]) == f"<think></think><action>{turn.action}</action>"
            listed = "Possible actions: " + ", ".join(turn.admissible)
            assert turn.action in turn.admissible
            assert listed in tokenizer.decode(turn.prompt[-3 * len(listed) :])
    batch = demonstration_batch(groups, advantages, context=8192)
    before = _learner(model).score(batch).logprobs[batch.mask].mean()
    imitate(_learner(model), batch, ImitationSection(epochs=3, lr=1e-2))
    assert _learner(model).score(batch).logprobs[batch.mask].mean() > before + 0.1


def test_what_an_expert_plays_without_a_plan_is_not_imitated(tmp_path, monkeypatch):
    def plan(self, whole=toys.corridor.Corridor.plan):
        if self._room == 2:
            raise EnvError("there is no way from room 2")
        return whole(self)[:1]

    monkeypatch.setattr(toys.corridor.Corridor, "plan", plan)
    setup = _setup(tmp_path, won_only=False)
    played = setup.demonstrations().demonstrate(setup.environments.tasks[:12])
    assert len(played.trajectories) == 12
    assert len(played.mistakes) >= 12  # everybody has to pass room 2
    starts = {(episode.id, 0) for episode in played.trajectories}
    assert not starts & played.mistakes
    assert all(turn.valid for episode in played.trajectories for turn in episode.turns)


def test_other_tasks_are_demonstrated_than_practised(tmp_path, monkeypatch):
    """imitation.env changes the tasks of demonstrations alone, and the same ones are drawn as without it."""
    shop = {"id": "turncredit/WebShop-v0", "kwargs": {"level": "tiny", "catalogues": 3}}
    plain = _setup(tmp_path, shop, demonstrator="careful")
    setup = _setup(tmp_path, shop, demonstrator="careful", env={"catalogue_seed": 50})
    assert setup.environments.tasks == plain.environments.tasks == plain.demonstrated.tasks
    assert not set(setup.environments.tasks) & set(setup.demonstrated.tasks)
    assert len(setup.demonstrated.tasks) == len(setup.environments.tasks)
    assert {task.split("/")[1] for task in setup.demonstrated.tasks} == {f"tiny@{seed}" for seed in (50, 51, 52)}
    played = setup.demonstrations().demonstrate(setup.demonstrated.tasks[:4]).trajectories
    assert [episode.task for episode in played] == list(setup.demonstrated.tasks[:4])

    def recorded(_source, tasks, *_):
        raise NoDemonstrations(" ".join(tasks))

    monkeypatch.setattr("turncredit.training.imitation.demonstration_source.DemonstrationSource.demonstrate", recorded)
    with pytest.raises(NoDemonstrations) as asked:
        setup.warm_start(report := Reporter(None, None), WarmStartRecovery(tmp_path, report, keep=1)).learner()
    assert len(str(asked.value).split()) == 12
    assert set(str(asked.value).split()) <= set(setup.demonstrated.tasks)


def test_stored_demonstrations_have_no_environment_of_their_own(tmp_path):
    stored = tmp_path / "played.jsonl"
    stored.touch()
    with pytest.raises(ConfigError, match=r"imitation\.env has no effect: the demonstrations come from a file"):
        _setup(tmp_path, demonstrator=str(stored), env={"lengths": [3]})


def test_a_searcher_demonstrates_in_the_household(tmp_path):
    setup = prepare(
        Run.parse(
            {
                "output": str(tmp_path),
                "env": {"kwargs": {"level": "tiny"}},
                "imitation": {"episodes": 6, "demonstrator": {"name": "searcher", "noise": 0.2}},
                "evaluation": {"episodes": 0},
                "train": {"distinct_tasks": 6},
            }
        )
    )
    played = setup.demonstrations().demonstrate(setup.environments.tasks)
    assert len(played.trajectories) >= 3
    assert played.mistakes
    assert all(episode.won for episode in played.trajectories)


def test_conversations_of_other_programs_are_imitated(tmp_path):
    messages = [{"from": "human", "value": "room 1 of 3"}, {"from": "gpt", "value": "east", "loss": False}] * 2
    rows = [{"conversations": [*messages, {"from": "human", "value": "room 2"}, {"from": "gpt", "value": "west"}]}] * 3
    (stored := tmp_path / "sharegpt.json").write_text(json.dumps(rows))
    setup = _setup(tmp_path, demonstrator=str(stored))
    played = setup.demonstrations().demonstrate(setup.environments.tasks)
    assert len(played.trajectories) == 3
    assert len({episode.id for episode in played.trajectories}) == 3
    assert played.mistakes == {(episode.id, turn) for episode in played.trajectories for turn in (0, 1)}
    _, tokenizer = build_policy(played.texts, vocab=300, hidden=16, layers=1, heads=1, context=8192)
    groups, advantages = played.tokenized(setup.agent(tokenizer), tokenizer)
    batch = demonstration_batch(groups, advantages, context=8192)
    learned = batch.mask & (batch.advantages > 0)
    assert {tokenizer.decode(row[mask]).strip() for row, mask in zip(batch.tokens, learned, strict=True)} == {
        "west<|end|>"
    }


@pytest.mark.parametrize("hooks", [True, False])
def test_a_signal_ends_a_backward_pass_between_two_layers(hooks):
    """Without hooks, Python sees the signal after the whole pass: the signal comes in its middle, from a thread."""
    model = torch.nn.Sequential(*(torch.nn.Linear(1400, 1400) for _ in range(12)))
    output = model(torch.randn(1400, 1400))
    begun = threading.Event()
    output.register_hook(lambda _: begun.set())

    def press():
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    def train():
        with interruptible(model) if hooks else nullcontext():
            output.sum().backward()
            thread.join()
            time.sleep(0.1)  # to notice the signal

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        train()
    thread.join()
    reached = sum(parameter.grad is not None for parameter in model.parameters())
    assert (reached < 24) == hooks
    if hooks:
        assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())
