"""Very small mixtures of experts, the experts that they choose, and routers that are forced, written out by hand."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from toys.families import CONTEXT, FAMILIES
from toys.training_helpers import VOCAB

from turncredit.agents.token_experts import TurnExperts

MIXTURES = ("Mixtral", "Qwen 3 MoE", "GPT-OSS", "DeepSeek V3")


def mixture(name, seed=0, dtype=torch.float64, vocab=VOCAB, context=CONTEXT, scale=0.3):
    """A model of a family that predicts few tokens, with all that is computed in `dtype` where the family lets it."""
    config = FAMILIES[name].config()
    config.vocab_size, config.max_position_embeddings = vocab, context
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, experts_implementation="eager")
    for module in list(model.modules()):
        for child_name, child in list(module.named_children()):
            if type(child).__name__.endswith("RMSNorm"):
                setattr(module, child_name, torch.nn.RMSNorm(len(child.weight), eps=child.variance_epsilon))
    model = model.to(dtype).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim >= 2:
                weight.normal_(0.0, scale)
        for buffer_name, buffer in model.named_buffers():
            if "correction_bias" in buffer_name:
                buffer.normal_(0.0, 0.3)
    return model


def routers(model):
    return [module for module in model.modules() if "Router" in type(module).__name__]


def shape_of(model):
    found = routers(model)
    return len(found), found[0].top_k, found[0].num_experts


def own_experts(model, ids):
    """The experts that a plain pass over some ids chooses, uint8 [tokens, layers, K]."""
    chosen = []
    handles = [module.register_forward_hook(lambda _, __, out: chosen.append(out[2])) for module in routers(model)]
    with torch.no_grad():
        model(input_ids=torch.tensor([list(ids)]), use_cache=False)
    for handle in handles:
        handle.remove()
    return torch.stack(chosen, dim=1).numpy().astype(np.uint8)


def gate_weights(module, hidden, chosen):
    """The weights of chosen experts [N, K], as each family's paper has them."""
    name = type(module).__name__
    if "GptOss" in name:
        return F.softmax(F.linear(hidden, module.weight, module.bias).gather(1, chosen), dim=1)
    if "Deepseek" in name:
        scores = F.linear(hidden.float(), module.weight.float()).sigmoid().gather(1, chosen)
        scores = scores / (scores.sum(1, keepdim=True) + 1e-20) if module.norm_topk_prob else scores
        return scores * module.routed_scaling_factor
    scores = F.softmax(F.linear(hidden, module.weight).float(), dim=-1).gather(1, chosen)
    if getattr(module, "norm_topk_prob", True):
        scores = scores / scores.sum(1, keepdim=True)
    return scores if "Mixtral" in name else scores.to(hidden.dtype)


@contextmanager
def forced(model, experts):
    """Routers that give every token the experts [tokens, layers, K]; nothing is chosen."""
    for layer, module in enumerate(routers(model)):
        chosen = torch.from_numpy(experts[:, layer].astype(np.int64))

        def forward(hidden, module=module, chosen=chosen):
            hidden = hidden.reshape(-1, hidden.shape[-1])
            return None, gate_weights(module, hidden, chosen), chosen

        module.forward = forward
    try:
        yield
    finally:
        for module in routers(model):
            del module.forward


def with_experts(groups, choose):
    """The same groups with recorded experts: `choose(ids)` of every prompt and response without its last token."""
    return [
        replace(
            group, trajectories=tuple(replace(member, turns=_turns(member, choose)) for member in group.trajectories)
        )
        for group in groups
    ]


def _turns(member, choose):
    made = []
    for turn in member.turns:
        before = made[-1].experts if made else None
        made.append(replace(turn, experts=TurnExperts.after(before, choose((turn.prompt + turn.response)[:-1]))))
    return tuple(made)


def by_prefix(shape, seed=0):
    """A choice of experts that depends on a token and all before it, as that of an engine does."""
    layers, top, count = shape

    def choose(ids):
        rows = []
        for end in range(1, len(ids) + 1):
            rng = np.random.default_rng([seed, *ids[:end]])
            rows.append([rng.permutation(count)[:top] for _ in range(layers)])
        return np.array(rows, dtype=np.uint8).reshape(len(ids), layers, top)

    return choose
