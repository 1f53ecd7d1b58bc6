"""Transforms of token advantages in a run: what they see, what they leave, and that a run with one can go on."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_training_loop import assert_same_weights, lines, make_run, weights
from toys.training_helpers import gradient, play, random_advantages, tiny_llama, trajectory, turn

from turncredit.agents.trajectory import Group
from turncredit.credit import CreditError
from turncredit.credit.tokens import hicra, transforms
from turncredit.training import ConfigError, train
from turncredit.training.batch.batch import pack
from turncredit.training.batch.token_advantages import AppliedTransform, TokenLayout, planning_tokens
from turncredit.training.learner.gradient import UpdateMeter, UpdatePlan, accumulate
from turncredit.training.learner.group_arrays import group_arrays
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.objectives import Objective
from turncredit.training.parts import prepare

torch.set_num_threads(1)
SHORT = ("train.iterations=2", "checkpoints.every=1", "checkpoints.keep=3", "evaluation.episodes=0")
OPTIONS = {"hicra": {"planning": ["BC", "e"], "alpha": 0.5}, "gtpo": {"entropy_limit": 9.0}}
WORDS = {name: {**options, "planning": ["go", "e"]} if "planning" in options else options
         for name, options in OPTIONS.items()}  # fmt: skip


def letters(ids):
    """Each token is one letter."""
    return "".join(chr(ord("a") + token) for token in ids)


def _group(groups):
    return np.array([number for number, group in enumerate(groups) for _ in group.finished])


def _transformed(name, groups, advantages, *, merge, **options):
    """The batch of a transform with a float64 policy, and what the batch was before."""
    batch = pack(groups, advantages, merge=merge)
    scores = TokenScorer(tiny_llama(1)).score(batch)
    batch = replace(batch, reference=TokenScorer(tiny_llama(2)).score(batch).logprobs)
    transform = AppliedTransform.from_choice({"name": name, **OPTIONS.get(name, {}), **options})
    tempered = {key: TokenScorer(tiny_llama(1)).score(batch, temperature=t) for key, t in transform.tempered.items()}
    compared = group_arrays(Learner(tiny_llama(1), None), batch, transform.compared)
    found, stats = transform(batch, groups, decode=letters, scores=scores, tempered=tempered, compared=compared)
    return batch, found, stats


def _by_turn(batch, array):
    """The numbers of each turn's tokens, in the order of turns."""
    on = batch.turn >= 0
    return array[on][np.argsort(batch.turn[on], kind="stable")]


@pytest.mark.parametrize("name", transforms())
@pytest.mark.parametrize("drop", [0.0, 0.3])
def test_merged_and_unmerged_turns_are_transformed_alike(name, drop):
    rng = np.random.default_rng(4)
    groups = play(rng, groups=3, size=4)
    advantages = random_advantages(rng, groups, drop=drop)
    both = (_transformed(name, groups, advantages, merge=merge) for merge in (True, False))
    (_, merged, one), (_, apart, other) = both
    assert len(merged) < len(apart)
    assert one == pytest.approx(other)
    np.testing.assert_array_equal(_by_turn(merged, merged.mask), _by_turn(apart, apart.mask))
    np.testing.assert_allclose(_by_turn(merged, merged.advantages), _by_turn(apart, apart.advantages), atol=1e-12)
    slope = _slope(merged)
    torch.testing.assert_close(slope, _slope(apart), rtol=1e-9, atol=1e-12)
    assert slope.abs().max() > 1e-6


def _slope(batch):
    """The gradient of one optimizer step on a batch."""
    model = tiny_llama(1)
    accumulate(TokenScorer(model), batch, Objective(), UpdatePlan(grad_clip=1e9), UpdateMeter())
    return gradient(model)


def test_only_what_carries_loss_changes_and_the_shares_say_how_much():
    rng = np.random.default_rng(5)
    groups = play(rng)
    before, after, stats = _transformed("hicra", groups, random_advantages(rng, groups, drop=0.2), merge=True)
    planning = planning_tokens(before, OPTIONS["hicra"]["planning"], letters)
    assert 0 < planning.sum() < before.mask.sum()
    np.testing.assert_array_equal(planning & ~before.mask, False)
    expected = hicra(before.advantages, before.mask, planning=planning, alpha=0.5).values
    np.testing.assert_array_equal(after.advantages, expected)
    tokens = before.mask.sum()
    assert stats == pytest.approx(
        {
            "transform_changed": (after.advantages != before.advantages).sum() / tokens,
            "transform_kept": 1.0,
            "transform_planning": planning.sum() / tokens,
        }
    )
    assert stats["transform_changed"] == stats["transform_planning"]  # no advantage is zero here


def test_what_is_dropped_is_context_without_loss():
    rng = np.random.default_rng(6)
    groups = play(rng, groups=2, size=4)
    before, after, stats = _transformed("d3s", groups, random_advantages(rng, groups), merge=True)
    assert 0 < after.mask.sum() < before.mask.sum()
    assert not (after.mask & ~before.mask).any()
    assert stats["transform_kept"] == pytest.approx(after.mask.sum() / before.mask.sum())
    assert (after.advantages[~after.mask] == 0).all()
    assert (after.old[~after.mask] == 0).all()
    np.testing.assert_array_equal(after.tokens, before.tokens)
    assert after.weights("token-mean").sum() == pytest.approx(1.0)
    trajectories = np.unique(after.trajectory[after.mask.any(axis=1)])
    assert np.bincount(_group(groups)[trajectories], minlength=2).tolist() == [2, 2]  # half of each group
    stats = Learner(tiny_llama(1), None).update(after, Objective(), UpdatePlan())
    assert stats["updates"] == 1


def test_a_trajectory_is_one_sequence_of_its_tokens():
    rng = np.random.default_rng(7)
    batch = pack(play(rng, groups=2, size=2), merge=False)
    layout = TokenLayout.of(batch)
    assert layout.mask.sum(axis=1).tolist() == [
        int(batch.mask[batch.trajectory == number].sum()) for number in range(4)
    ]
    numbers = np.arange(batch.mask.size).reshape(batch.mask.shape) + 1
    for row, number in enumerate(layout.trajectory):
        rows = batch.trajectory == number
        assert layout.gather(numbers)[row][layout.mask[row]].tolist() == numbers[rows][batch.mask[rows]].tolist()
    np.testing.assert_array_equal(layout.scatter(layout.gather(numbers)), np.where(batch.mask, numbers, 0))


@pytest.mark.parametrize("name", transforms())
def test_nothing_at_all_is_transformed_to_nothing(name):
    groups = play(np.random.default_rng(8))
    advantages = random_advantages(np.random.default_rng(8), groups, drop=1.1)
    _, after, stats = _transformed(name, groups, advantages, merge=True)
    assert not after.mask.any()
    assert set(stats.values()) == {0.0}


def _answers(*answers):
    """One trajectory with these answers, given as token ids."""
    turns, sequence = [], (0,)
    for answer in answers:
        turns.append(turn(sequence, answer))
        sequence = (*sequence, *answer, 1)
    return pack([Group("t", (trajectory(turns),))])


def test_a_phrase_marks_every_token_that_it_touches():
    batch = _answers((0, 1, 2, 0, 1), (2, 0, 1, 1, 2))  # abcab, cabbc

    def marked(*phrases):
        found = planning_tokens(batch, phrases, letters)
        assert not found[~batch.mask].any()
        return "".join("x" if one else "." for one in found[batch.mask])

    assert marked("ab") == "xx.xx.xx.."
    assert marked("AB", "Bb") == "xx.xx.xxx."
    assert marked("bca", "cab") == ".xxxxxxx.."  # overlapping ones, each whole
    assert marked("abca", "abc", "bc") == "xxxx....xx"
    assert marked("abcabc") == ".........."  # across two answers
    assert marked("a.c") == ".........."  # no pattern but a text


def test_tokens_that_are_parts_of_characters_are_found():
    """Token k is the k-th byte of "é" (two bytes) and "x": alone the first two say nothing."""
    batch = _answers(tuple("éx".encode()))

    def decode(ids):
        return bytes(ids).decode(errors="replace")

    assert planning_tokens(batch, ["x"], decode)[batch.mask].tolist() == [False, False, True]
    assert planning_tokens(batch, ["É"], decode)[batch.mask].tolist()[0]


# ---- in a run ----


def _overrides(name):
    return (*SHORT, f"credit.token_transform={_toml({'name': name, **WORDS.get(name, {})})}")


def _toml(options):
    from turncredit.training.config.toml import literal

    return "{" + ", ".join(f"{key} = {literal(value)}" for key, value in options.items()) + "}"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    train(make_run(folder, *SHORT))
    return weights(folder, 2)


@pytest.mark.parametrize("name", transforms())
def test_a_run_with_a_transform_goes_on_to_the_same_weights(name, tmp_path, plain):
    train(make_run(tmp_path / "whole", *_overrides(name)))
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    shutil.rmtree(tmp_path / "parts/checkpoints/000002")  # as if it had been killed before
    train(make_run(tmp_path / "parts", *_overrides(name)), resume=True)
    assert_same_weights(weights(tmp_path / "whole", 2), weights(tmp_path / "parts", 2))
    with pytest.raises(AssertionError):
        assert_same_weights(weights(tmp_path / "whole", 2), plain)
    events = [event for event in lines(tmp_path / "whole") if event["phase"] == "train"]
    assert (max(event["transform_changed"] for event in events) > 0.0) == (name != "d3s")  # which only drops
    assert all((event["transform_kept"] < 1.0) == (name == "d3s") for event in events)
    assert all(("transform_planning" in event) == (name == "hicra") for event in events)
    assert (tmp_path / "whole/reference").is_dir() == (name == "ace")


def test_without_a_transform_nothing_is_said_of_one(tmp_path):
    run = make_run(tmp_path / "run", *SHORT, "train.iterations=1")
    train(run)
    (event,) = [event for event in lines(tmp_path / "run") if event["phase"] == "train"]
    assert not [key for key in event if key.startswith("transform")]
    assert prepare(run).token_transform is None


def _choice(name, options):
    return [f"credit.token_transform={{name = '{name}', {options}}}"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["credit.token_transform=hicar"], "unknown token transform 'hicar'; did you mean 'hicra'"),
        (_choice("gtpo", "wieght = 2.0"), "no option 'wieght'; did you mean 'weight'"),
        (_choice("gtpo", "weight = -1.0"), "weight"),
        (_choice("d3s", "tokens = 0.0"), "tokens"),
        (_choice("ace", "over = 'men'"), "over"),
        (_choice("ace", "planning = ['a']"), "no option 'planning'"),
        (["credit.token_transform=hicra"], "needs `planning`, a list of phrases"),
        (_choice("hicra", "planning = []"), "a list of phrases"),
        (_choice("hicra", "planning = 'first'"), "a list of phrases"),
        (_choice("hicra", "planning = ['first', ' ']"), "' ' is not a phrase"),
        (_choice("hicra", "planning = [3]"), "3 is not a phrase"),
        (_choice("hicra", "planning = ['a'], alhpa = 1.0"), "did you mean 'alpha'"),
        (["credit.token_transform={alpha = 1.0}"], "must be a name or a table with a name"),
        (["credit.token_transfrom=hicra"], "did you mean 'credit.token_transform'"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_played(overrides, message):
    with pytest.raises((ConfigError, CreditError), match=message):
        _prepared(*overrides)


def _prepared(*overrides):
    prepare(make_run("nowhere", *overrides))
