"""Position encodings that depend on the longest row of a batch: which they are, up to where, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import toys.corridor
from toys.training_helpers import VOCAB, tiny_llama, trajectory, turn
from transformers import AutoModelForCausalLM, Gemma3TextConfig, LlamaConfig, Phi3Config, Phi3ForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from turncredit.agents.models.rotary import rotary_limit
from turncredit.agents.trajectory import Group
from turncredit.engines.transformers.kvcache import unsupported_reason
from turncredit.training.batch.batch import pack
from turncredit.training.config.run import Run
from turncredit.training.engine.first_prompts import check_context
from turncredit.training.errors import ConfigError
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.policy import build_policy
from turncredit.training.objectives import Objective
from turncredit.training.parts import prepare

torch.set_num_threads(1)
LIMIT = 32
HEAD = 8
FACTORS = {"short_factor": [1.0] * (HEAD // 2), "long_factor": [1.0, 3.0, 9.0, 27.0]}
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
TYPES = {
    "default": {},
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": LIMIT},
    "longrope": {**FACTORS, "factor": 4.0, "original_max_position_embeddings": LIMIT},
    "llama3": {
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": LIMIT,
    },
    "proportional": {"factor": 2.0},
}


def config_of(kind, **sizes):
    return LlamaConfig(**SIZES | sizes, rope_parameters={"rope_type": kind, "rope_theta": 1e4, **TYPES[kind]})


def phi(**changes):
    """A tiny model of the kind of Phi-3.5, whose rotary factors change beyond LIMIT tokens."""
    torch.manual_seed(0)
    rope = {"rope_type": "longrope", "rope_theta": 1e4, **FACTORS}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    sizes = SIZES | special | {"original_max_position_embeddings": LIMIT, "rope_parameters": rope} | changes
    model = Phi3ForCausalLM(Phi3Config(**sizes)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0.0, 0.3)
    return model


def rows_of(*lengths, seed=0):
    """A batch with one row of each length, all of it sampled but the first two tokens."""
    rng = np.random.default_rng(seed)
    made = []
    for number, length in enumerate(lengths):
        ids = rng.integers(3, VOCAB, length).tolist()
        made.append(trajectory([turn(ids[:2], ids[2:])], name=f"t#{number}@0"))
    return pack([Group("t", tuple(made))])


def alone(model, batch, row):
    """The log-probabilities of a row's sampled tokens in a forward pass of that row and nothing else."""
    ids = torch.from_numpy(batch.tokens[row, : batch.lengths[row]])[None]
    with torch.no_grad():
        scores = model(input_ids=ids).logits[0].log_softmax(-1)
    return [scores[at - 1, ids[0, at]].item() for at in np.flatnonzero(batch.mask[row])]


@pytest.mark.parametrize("kind", sorted(ROPE_INIT_FUNCTIONS))
def test_the_limit_is_where_the_factors_of_a_short_row_begin_to_change(kind):
    """Every type that the installed transformers has, found by computing it: a short row beside longer ones."""
    assert kind in TYPES, f"transformers has a new type of rotary encodings, {kind}: does it depend on the batch?"
    limit = rotary_limit(config_of(kind))

    def first_positions(longest):
        model = AutoModelForCausalLM.from_config(config_of(kind))  # a new one, since "dynamic" remembers
        cos, _ = model.model.rotary_emb(torch.zeros(1), torch.arange(longest)[None])
        return cos[0, :8]

    own = first_positions(8)
    changed = [length for length in (16, 31, 32, 33, 64, 127, 128, 129, 200) if (first_positions(length) != own).any()]
    if limit is None:
        assert not changed
    else:
        assert changed
        assert changed[0] == limit.tokens + 1


def test_limits_are_read_from_every_place_where_models_keep_them():
    assert rotary_limit(phi().config).tokens == LIMIT
    assert rotary_limit(config_of("dynamic")).tokens == 128
    assert rotary_limit(tiny_llama().config) is None
    layers = {
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        "full_attention": {"rope_type": "longrope", "rope_theta": 1e4, **TYPES["longrope"]},
    }
    kinds = ["sliding_attention", "full_attention"]
    nested = Gemma3TextConfig(**SIZES, layer_types=kinds, rope_parameters=layers)
    assert rotary_limit(nested).tokens == LIMIT
    assert "longrope" in unsupported_reason(nested, 128, "sdpa")

    older = SimpleNamespace(max_position_embeddings=128, original_max_position_embeddings=LIMIT)
    older.rope_scaling = {"type": "longrope", **FACTORS}  # as transformers 4 writes it
    older.get_text_config = lambda: older
    assert rotary_limit(older).tokens == LIMIT


def test_rows_within_the_limit_do_not_depend_on_the_batch_and_longer_ones_are_refused():
    model, batch = phi(), rows_of(15, LIMIT, 7)
    for packing in (False, True):
        scorer = TokenScorer(model, packing=packing)
        found = scorer.score(batch).logprobs
        for row in range(len(batch)):
            assert found[row, batch.mask[row]].tolist() == pytest.approx(alone(model, batch, row), abs=1e-6)
        long = rows_of(15, 65)
        moved = model(input_ids=torch.from_numpy(long.tokens)).logits[0, :15].log_softmax(-1)
        apart = model(input_ids=torch.from_numpy(long.tokens[:1, :15])).logits[0].log_softmax(-1)
        assert (moved - apart).abs().max() > 0.01  # what nobody would see
        with pytest.raises(ConfigError, match=r"a row has 65 tokens, but the position .*\(longrope\).* than 32"):
            scorer.score(long)
    learner = Learner(model, None)
    with pytest.raises(ConfigError, match="a row has 33 tokens"):
        learner.update(rows_of(15, LIMIT + 1), Objective(), UpdatePlan())
    assert learner.update(batch, Objective(), UpdatePlan())["updates"] == 1


def test_a_sampler_keeps_a_cache_up_to_the_limit_and_none_beyond():
    config = phi().config
    assert unsupported_reason(config, LIMIT, "sdpa") is None
    assert "longrope" in unsupported_reason(config, LIMIT + 1, "sdpa")


@pytest.mark.parametrize("context", [60, 61])
def test_a_run_says_which_context_such_a_model_allows(tmp_path, context):
    _, tokenizer = build_policy(["You are in a corridor of 3 rooms. go left, go right, wait"] * 3, vocab=300, hidden=32)
    table = {
        "output": str(tmp_path / "run"),
        "threads": 1,
        "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3]}},
        "agent": {"max_turns": 2, "max_tokens": 1},
        "policy": {"context": context},
        "imitation": {"episodes": 2},
        "evaluation": {"episodes": 0},
    }
    prepared = prepare(Run.parse(table, []))
    config = phi(original_max_position_embeddings=60).config
    if context > 60:
        with pytest.raises(ConfigError, match=r"policy.context is 61, .*\(longrope\).* policy.context to at most 60"):
            check_context(prepared.prompts, prepared.agent(tokenizer), tokenizer, config)
    else:
        check_context(prepared.prompts, prepared.agent(tokenizer), tokenizer, config)
