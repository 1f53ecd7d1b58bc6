"""What the tests of training share: made-up trajectories and a very small Llama in float64."""

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.credit.advantages import Advantages

VOCAB = 23


def tiny_llama(seed=0, dtype=torch.float64, **changes):
    torch.manual_seed(seed)
    sizes = {
        "vocab_size": VOCAB,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 256,
    }
    model = LlamaForCausalLM(LlamaConfig(**sizes | changes))
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is LlamaRMSNorm:  # transformers computes it in float32, whatever the model is in
                setattr(module, name, torch.nn.RMSNorm(child.weight.shape[0], eps=child.variance_epsilon))
    model = model.to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0.0, 0.3)
    return model


def turn(prompt, response, *, logprobs=None, state="s", action="a", reward=0.0, valid=True):
    logprobs = tuple(-1.0 - 0.1 * k for k in range(len(response))) if logprobs is None else logprobs
    return Turn(
        prompt=tuple(prompt),
        response=tuple(response),
        logprobs=logprobs,
        version=0,
        observation="o",
        text="t",
        action=action,
        state=state,
        reward=reward,
        valid=valid,
    )


def trajectory(turns, *, name="t#0@0", task="t", stop="terminated", won=False):
    return Trajectory(
        id=name,
        task=task,
        task_type=None,
        seed=0,
        turns=tuple(turns),
        stop=stop,
        won=won,
        score=float(won),
        final_state="end",
        final_observation="o",
        error="broken" if stop == "error" else None,
        seconds=0.0,
    )


def conversation(rng, turns):
    """Turns of which each prompt is all that came before and something new."""
    made, sequence = [], ()
    for _ in range(turns):
        prompt = sequence + tuple(int(i) for i in rng.integers(0, VOCAB, rng.integers(1, 6)))
        response = tuple(int(i) for i in rng.integers(0, VOCAB, rng.integers(1, 5)))
        logprobs = tuple(float(x) for x in -rng.uniform(2.0, 4.0, len(response)))
        made.append(turn(prompt, response, logprobs=logprobs))
        sequence = prompt + response
    return made


def play(rng, groups=2, size=3, most=4):
    """Groups of conversations of different lengths."""
    return [
        Group(
            f"task{g}",
            tuple(
                trajectory(conversation(rng, int(rng.integers(1, most + 1))), name=f"task{g}#{k}@0", task=f"task{g}")
                for k in range(size)
            ),
        )
        for g in range(groups)
    ]


def forked(rng, groups=2, size=4, turns=3, words=2):
    """Groups of conversations that begin with the same prompt, and part where their few words happen to differ."""
    played = []
    for number in range(groups):
        prompt = tuple(int(token) for token in rng.integers(0, VOCAB, rng.integers(1, 8)))
        episodes = []
        for k in range(size):
            sequence, made = prompt, []
            for _ in range(int(rng.integers(1, turns + 1))):
                response, more = (tuple(int(i) for i in rng.integers(0, words, rng.integers(1, 4))) for _ in range(2))
                logprobs = tuple(float(x) for x in -rng.uniform(2.0, 4.0, len(response)))
                made.append(turn(sequence, response, logprobs=logprobs))
                sequence = sequence + response + more
            episodes.append(trajectory(made, name=f"task{number}#{k}@0", task=f"task{number}"))
        played.append(Group(f"task{number}", tuple(episodes)))
    return played


def random_advantages(rng, groups, drop=0.0):
    steps = steps_of(groups)
    keep = rng.random(len(steps)) >= drop
    return Advantages.of(steps, rng.normal(size=len(steps)), keep=keep)


def gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def plain_descent(learner):
    """Use an optimizer whose step is the gradient."""
    trained = [parameter for parameter in learner.model.parameters() if parameter.requires_grad]
    learner.optimizer = torch.optim.SGD(trained, lr=1.0)


def weights(learner):
    """Copies of the trained weights of a learner, by name."""
    model = learner.weights()
    return {name: one.detach().numpy().copy() for name, one in model.named_parameters() if one.requires_grad}


def same(found, wanted, tolerance):
    assert found.keys() == wanted.keys()
    for name, one in wanted.items():
        np.testing.assert_allclose(found[name], one, rtol=0, atol=tolerance, err_msg=name)
