"""Prefixes that rows share are computed once, with the loss and the gradient of rows that are computed apart."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_mask
from toys.training_helpers import VOCAB, forked, gradient, random_advantages, tiny_llama, trajectory, turn
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    FalconH1Config,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GptOssConfig,
    MambaConfig,
    MistralConfig,
    Phi3Config,
    Qwen2Config,
)
from transformers.integrations import flex_attention
from transformers.masking_utils import chunked_causal_mask_function

from turncredit.agents.trajectory import Group
from turncredit.training.batch.batch import pack
from turncredit.training.batch.cutting import Cutting
from turncredit.training.batch.model_inputs import shared
from turncredit.training.batch.prefix_forest import (
    PrefixForest,
    deal_prefixes,
    distinct_tokens,
    prefix_micro_batches,
)
from turncredit.training.config.run import Run
from turncredit.training.config.sections import PolicySection, TrainSection
from turncredit.training.errors import ConfigError
from turncredit.training.learner import make_learner, prefix_attention
from turncredit.training.learner.gradient import UpdateMeter, UpdatePlan, accumulate
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.objectives import Objective

torch.set_num_threads(1)
CPU = torch.device("cpu")
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FACTORS = {"short_factor": [1.0] * 4, "long_factor": [1.0, 3.0, 9.0, 27.0]}
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, **FACTORS}


def batch_of(seed=0, *, merge=True, drop=0.2, **sizes):
    rng = np.random.default_rng(seed)
    groups = forked(rng, **sizes)
    batch = pack(groups, random_advantages(rng, groups, drop), merge=merge)
    return replace(batch, reference=np.where(batch.mask, -3.0 + rng.normal(size=batch.mask.shape), 0.0))


def outcome(model, batch, objective=None, *, micro_tokens=40, temperature=0.8, **options):
    """Loss, gradient and scores of one mini-batch."""
    scorer = TokenScorer(model, **options)
    assert scorer.cutting.shared == bool(options.get("share_prefixes")), scorer.unshared
    model.zero_grad(set_to_none=True)
    plan, meter = UpdatePlan(micro_tokens=micro_tokens, grad_clip=1e9, temperature=temperature), UpdateMeter()
    accumulate(scorer, batch, objective or Objective(entropy=0.1), plan, meter)
    scores = scorer.score(batch, temperature=temperature, micro_tokens=micro_tokens)
    return np.array(meter.loss), gradient(model).double().numpy(), scores.logprobs, scores.entropy


def assert_same(ours, theirs, bound):
    """Equal up to a bound relative to the largest number."""
    for mine, other in zip(ours, theirs, strict=True):
        assert np.abs(mine - other).max() <= bound * max(1e-3, np.abs(other).max())


def model_of(config, kind=torch.float64, **options):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, **options).to(kind).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0.0, 0.3)
    return model


# -- the forest --

ROWS = st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=8)


def arrays(rows):
    tokens = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = row
    return tokens, np.array([len(row) for row in rows], dtype=np.int64)


@given(ROWS)
def test_a_forest_has_each_distinct_prefix_once(rows):
    tokens, lengths = arrays(rows)
    forest = PrefixForest.of(tokens, lengths)
    prefixes = {tuple(row[: k + 1]) for row in rows for k in range(len(row))}
    assert len(forest) == len(prefixes) == distinct_tokens(tokens, lengths)
    named = {}
    for number, row in enumerate(rows):
        assert (forest.at[number, len(row) :] == -1).all()
        for k, node in enumerate(forest.at[number, : len(row)].tolist()):
            assert named.setdefault(node, tuple(row[: k + 1])) == tuple(row[: k + 1])
            assert (forest.tokens[node], forest.depth[node]) == (row[k], k)
    for i, above in named.items():
        for j, below in named.items():
            assert (i <= j < forest.end[i]) == (below[: len(above)] == above)


@given(ROWS)
def test_the_path_of_a_branch_is_its_rows_tokens(rows):
    tokens, lengths = arrays(rows)
    forest = PrefixForest.of(tokens, lengths)
    bounds = np.cumsum([0, *forest.pieces])
    start, paths = 0, {tuple(row) for row in forest.at.tolist()}
    for branch in forest.branches:
        path = [node for piece in branch.path for node in range(bounds[piece], bounds[piece + 1])]
        assert path[branch.depth :] == list(range(start, start + branch.size))
        assert tuple(path + [-1] * (tokens.shape[1] - len(path))) in paths
        start += branch.size
    assert start == len(forest) == bounds[-1]


def test_rows_that_do_not_share_stay_in_order():
    tokens, lengths = arrays([[1, 2], [1, 2, 1], [], [0]])
    forest = PrefixForest.of(tokens, lengths, share=False)
    assert forest.tokens.tolist() == [1, 2, 1, 2, 1, 0]
    assert forest.depth.tolist() == [0, 1, 0, 1, 2, 0]
    assert forest.end.tolist() == [2, 2, 5, 5, 5, 6]


@given(ROWS, st.integers(1, 30))
def test_micro_batches_count_distinct_tokens(rows, budget):
    tokens, lengths = arrays(rows)
    cuts = prefix_micro_batches(tokens, lengths, budget)
    assert sorted(row for cut in cuts for row in cut.tolist()) == np.flatnonzero(lengths).tolist()
    sizes = [distinct_tokens(tokens[cut], lengths[cut]) for cut in cuts]
    assert sizes == sorted(sizes, reverse=True)
    assert all(size <= budget or len(cut) == 1 for size, cut in zip(sizes, cuts, strict=True))


@given(ROWS, st.integers(1, 4))
def test_neighbours_are_dealt_together(rows, ranks):
    tokens, lengths = arrays(rows)
    dealt = deal_prefixes(tokens, lengths, ranks)
    assert len(dealt) == ranks
    assert sorted(row for share in dealt for row in share.tolist()) == np.flatnonzero(lengths).tolist()


def test_members_of_a_group_are_dealt_to_one_rank():
    tokens = np.array([[1, 1, 1, k] for k in range(4)] + [[2, 2, 2, k] for k in range(4)])
    dealt = deal_prefixes(tokens[[0, 4, 1, 5, 2, 6, 3, 7]], np.full(8, 4), 2)
    assert [sorted(share.tolist()) for share in dealt] == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_a_loss_belongs_to_an_edge():
    """Two rows sample the same token after the same prefix, a third another: two edges, of one node."""
    rows = [([5, 6], [7, 8]), ([5, 6], [7, 9]), ([5, 6], [4])]
    groups = [Group("t", tuple(trajectory([turn(*row)], name=f"t#{k}@0") for k, row in enumerate(rows)))]
    inputs = shared(pack(groups), CPU)
    assert inputs.arguments["input_ids"].tolist() == [[5, 6, 7]]  # nothing comes after 4, 8 and 9
    edges = list(zip(inputs.before[1].tolist(), inputs.targets.tolist(), strict=True))
    assert edges == [(1, 4), (1, 7), (2, 8), (2, 9)]
    assert inputs.pairs.tolist() == [1, 2, 1, 3, 0]


# -- loss and gradient --

OBJECTIVES = {
    "ppo": {"entropy": 0.1},
    "divergence": {"kl": 0.1},
    "whole sequences": {"name": "gspo"},
    "whole mini-batch": {"name": "kl_cov", "entropy": 0.01},
    "token mean": {"aggregation": "token-mean"},
}
MODELS = {}


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from([5, 30, 10_000]),
    st.sampled_from(sorted(OBJECTIVES)),
    st.integers(1, 3),
    st.integers(1, 5),
    st.sampled_from([1, 2, VOCAB]),
    st.booleans(),
)
def test_loss_and_gradient_are_those_of_rows(seed, merge, micro_tokens, name, groups, size, words, again):
    """In float64, within 1e-10 of the largest number, whatever the trees look like and wherever they are cut."""
    batch = batch_of(seed, merge=merge, groups=groups, size=size, words=words)
    model = MODELS.setdefault("llama", tiny_llama())
    if not batch.rows_with_signal().size:
        return
    if batch.mask.sum() == 2 and name == "whole mini-batch":
        return  # two tokens have the same covariance, so that rounding chooses one of them
    objective = Objective(**OBJECTIVES[name])
    ours = outcome(
        model,
        batch,
        objective,
        micro_tokens=micro_tokens,
        share_prefixes=True,
        recompute_activations=again,
    )
    assert_same(ours, outcome(model, batch, objective), 1e-10)


FAMILIES = {
    "grouped heads": (Qwen2Config(**SIZES), {}),
    "windows everywhere": (MistralConfig(**SIZES, sliding_window=3), {}),
    "windows and full layers": (
        Gemma3TextConfig(**SIZES, head_dim=8, sliding_window=3, layer_types=["sliding_attention", "full_attention"]),
        {},
    ),
    "LongRoPE": (Phi3Config(**SIZES, original_max_position_embeddings=32, rope_parameters=LONGROPE), {}),
    "learned positions": (GPT2Config(vocab_size=VOCAB, n_embd=16, n_layer=2, n_head=2, n_positions=64), {}),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_families_of_models_have_the_same_gradient(name, attention):
    """Within 1e-6 in float32; eager attention and most norms compute in float32 whatever the model is in."""
    config, options = FAMILIES[name]
    model = model_of(config, torch.float32, attn_implementation=attention, **options)
    for merge in (True, False):
        batch = batch_of(3, merge=merge, groups=3)
        assert distinct_tokens(batch.tokens, batch.lengths) < 0.7 * batch.size
        assert_same(outcome(model, batch, share_prefixes=True), outcome(model, batch), 1e-5)


def test_caps_and_sinks_are_computed_by_the_models_own_attention():
    gemma = Gemma2Config(**SIZES, head_dim=8, sliding_window=3, attn_logit_softcapping=1.0)
    model = model_of(gemma, torch.float32, attn_implementation="eager")
    assert_same(outcome(model, batch_of(), share_prefixes=True), outcome(model, batch_of()), 1e-5)
    oss = GptOssConfig(**SIZES, head_dim=8, sliding_window=3, num_local_experts=2, num_experts_per_tok=1)
    model = model_of(oss, torch.float32, attn_implementation="eager")
    assert_same(outcome(model, batch_of(), share_prefixes=True), outcome(model, batch_of()), 1e-5)


def test_adapters_bfloat16_and_chunks_of_the_vocabulary(monkeypatch):
    model = add_adapter(tiny_llama(), LoraOptions(rank=3, alpha=6.0))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0.0, 0.1)
    batch = batch_of()
    plain = outcome(model, batch)
    assert_same(outcome(model, batch, share_prefixes=True, recompute_activations=True), plain, 1e-10)
    monkeypatch.setattr("turncredit.training.learner.vocabulary.CHUNK", 3 * VOCAB)
    assert_same(outcome(model, batch, share_prefixes=True), plain, 1e-10)
    half = tiny_llama(dtype=torch.float32)
    (_, ours, *_), (_, rows, *_) = outcome(half, batch, share_prefixes=True, bfloat16=True), outcome(half, batch)
    assert 0 < np.linalg.norm(ours - rows) < 0.05 * np.linalg.norm(rows)


def test_what_a_layer_sees_is_the_models_own_rule():
    """A rule of any kind, here chunks, holds at the depths of tokens."""
    tokens, lengths = arrays([[1, 2, 1, 1], [1, 2, 2]])
    forest = PrefixForest.of(tokens, lengths)
    token = prefix_attention._PASS.set(prefix_attention.ForestPass(forest, "sdpa"))
    rule = chunked_causal_mask_function(2, torch.zeros(1, dtype=torch.int64))
    mask = prefix_attention.forest_mask(1, 99, 99, mask_function=rule, device=CPU)
    prefix_attention._PASS.reset(token)
    assert mask[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]


def test_one_call_for_all_branches_with_flex_attention(monkeypatch):
    """On a CPU it has no gradient: its scores are compared, and the gradient with the same mask without blocks."""
    shapes = []

    def plain(query, key, value, training=False, **options):
        shapes.append(options["block_mask"].shape)
        return flex_attention.flex_attention(query, key, value, **options)

    def dense(query, key, value, training=False, **options):
        blocks = options["block_mask"]
        shapes.append(blocks.shape)
        seen = create_mask(blocks.mask_mod, *blocks.shape, device=query.device)
        names = {"scale": options["scale"], "enable_gqa": options["enable_gqa"]}
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=seen, **names)

    gemma, _ = FAMILIES["windows and full layers"]
    batch = batch_of()
    for model, bound in ((tiny_llama(), 1e-10), (model_of(gemma), 1e-5)):
        wanted = outcome(model, batch)
        monkeypatch.setattr(flex_attention, "compile_friendly_flex_attention", dense)
        assert_same(outcome(model, batch, share_prefixes="flex"), wanted, bound)
        monkeypatch.setattr(flex_attention, "compile_friendly_flex_attention", plain)
        with torch.no_grad():
            scores = TokenScorer(model, share_prefixes="flex").score(batch, temperature=0.8)
        assert_same([scores.logprobs, scores.entropy], wanted[2:], 1e-5)
        size = len(shared(batch, CPU).arguments["input_ids"][0])
        assert shapes[-2:] == [(1, 1, size, size)] * 2  # of two layers


# -- models that cannot --

UNABLE = {
    "a recurrent state": (MambaConfig(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, state_size=4), "Mamba"),
    "biases for distances": (BloomConfig(vocab_size=VOCAB, hidden_size=16, n_layer=2, n_head=2), "Bloom"),
    "attention beside a state": (
        FalconH1Config(**SIZES, mamba_d_ssm=16, mamba_n_heads=2, mamba_d_head=8, mamba_d_state=4, mamba_n_groups=1),
        "FalconH1",
    ),
}


@pytest.mark.parametrize("name", UNABLE)
def test_models_that_cannot_are_computed_in_rows_and_told(name):
    config, family = UNABLE[name]
    model, notes = model_of(config, torch.float32), []
    learner = Learner(model, None, share_prefixes=True, note=notes.append)
    assert learner.scorer.cutting == Cutting()
    (sentence,) = notes
    assert sentence.startswith(
        f"train.micro_batch.share_prefixes has no effect: {family}ForCausalLM computes no trees, since "
    )
    stats = learner.update(batch_of(), Objective(), UpdatePlan())
    assert stats["updates"] == 1


def test_a_model_that_hides_a_longer_reach_is_found_out():
    """An untrained model hardly reacts to its context; the check measures an error against that reaction."""
    model = model_of(Qwen2Config(**SIZES), torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(0.05)
    layer = model.model.layers[0]
    layer.register_forward_hook(lambda _, __, out: out + 0.05 * out.cumsum(1))  # each token sees all before it
    assert "see more than their own row" in TokenScorer(model, share_prefixes=True).unshared


def test_longrope_is_still_limited():
    config, _ = FAMILIES["LongRoPE"]
    scorer = TokenScorer(model_of(config), share_prefixes=True)
    batch = pack([Group("t", (trajectory([turn([3] * 30, [4] * 3)]),))])
    with pytest.raises(ConfigError, match=r"longer than 32 tokens"):
        scorer(batch)


@pytest.mark.parametrize("kind", [{}, {"packed": True}, {"shared": True}])
def test_the_tokens_that_are_computed_are_those_between_the_spans(kind):
    batch, cutting = batch_of(groups=2), Cutting(**kind)
    begun, ends = cutting.spans(batch)
    assert int((ends - begun).sum()) == (
        batch.size if "packed" in kind else cutting.tokens(batch, np.arange(len(batch)))
    )
    nothing = cutting.spans(batch.rows(np.zeros(0, dtype=np.int64)))  # a rank without rows
    assert [len(column) for column in nothing] == [0, 0]


# -- in a run --


def test_a_model_attends_as_before_afterwards():
    model, batch = tiny_llama(), batch_of()
    ids = torch.tensor([[1, 2, 3]])
    before = model(input_ids=ids).logits
    chosen, _ = TokenScorer(model, share_prefixes=True, recompute_activations=True)(batch)
    assert model.config._attn_implementation == "sdpa"
    chosen.sum().backward()
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(model(input_ids=ids).logits, before)


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_the_work(processes):
    batch = batch_of(groups=4)
    weights = []
    for options, plan in (({}, {}), ({"share_prefixes": True}, {"processes": processes})):
        learner = Learner(tiny_llama(), None, lr=1e-2, **options)
        learner.optimizer = torch.optim.SGD(learner.model.parameters(), lr=1.0)
        learner.update(batch, Objective(), UpdatePlan(optimizer_steps=2, micro_tokens=40, **plan))
        weights.append(torch.cat([parameter.detach().flatten() for parameter in learner.model.parameters()]))
    torch.testing.assert_close(*weights, rtol=0, atol=1e-9)


def test_fewer_tokens_are_computed_and_micro_batches_halved_where_memory_runs_out():
    batch, sizes = batch_of(groups=3), []
    model = tiny_llama()

    def forward(module, args, kwargs):
        sizes.append(kwargs["input_ids"].numel())
        if sizes[-1] > 40:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    learner, notes = Learner(model, None, share_prefixes=True), []
    learner.limit._note = notes.append
    model.model.register_forward_pre_hook(forward, with_kwargs=True)
    stats = learner.update(batch, Objective(), UpdatePlan(micro_tokens=10_000))
    distinct = distinct_tokens(batch.tokens, batch.needed)
    assert sizes[0] <= distinct < 0.7 * batch.size
    assert f"memory ran out with micro-batches of {sizes[0]} tokens" in notes[0]
    assert max(sizes[-2:]) <= 40
    assert 0.3 < stats["shared"] < 1 - distinct / batch.size + 0.1
    alone = Learner(tiny_llama(), None).update(batch, Objective(), UpdatePlan(micro_tokens=10_000))
    assert stats["flops"] == alone["flops"]
    assert stats["hardware_flops"] < 0.8 * alone["hardware_flops"]


def test_only_large_models_share_by_default(monkeypatch):
    made = []
    monkeypatch.setattr(make_learner, "Learner", lambda *_, **options: made.append(options["share_prefixes"]) or Mock())
    monkeypatch.setattr(make_learner, "require_memory", lambda *args: None)

    def make(attention="", **section):
        run = Run()
        needs = make_learner.memory_needs(
            run.policy, run.train, engine_dtype="float32", here=True, reference=False, ranks=1
        )
        factory = make_learner.LearnerFactory(
            policy=PolicySection(attention=attention),
            train=TrainSection(micro_batch=section),
            needs=needs,
            device="cpu",
            threads=1,
            leader=None,
            note=made.append,
        )
        factory(tiny_llama(), None)
        return made.pop()

    assert make() is False
    assert make(share_prefixes=True) is True
    monkeypatch.setattr(make_learner, "SMALL_MODEL", 10)
    assert make() is True
    assert make("flash_attention_2") is False
    assert make("flash_attention_2", share_prefixes=True) is True
    assert make(share_prefixes=False) is False
    with pytest.raises(ConfigError, match=r'"flex" needs policy\.device = "cuda"'):
        make(share_prefixes="flex")
