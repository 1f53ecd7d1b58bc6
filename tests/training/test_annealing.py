"""Temperatures that change within an answer: one function for sampler and learner, and where it is refused."""

import asyncio
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_training_loop import lines, make_run
from toys.training_helpers import VOCAB, play, random_advantages, tiny_llama, trajectory, turn

from turncredit.agents.agent import Agent
from turncredit.agents.annealing import Annealing, ead
from turncredit.agents.errors import AgentError, SamplerError
from turncredit.agents.prompts.prompt import View
from turncredit.agents.trajectory import Group
from turncredit.engines.base import Request
from turncredit.engines.token_requests import refuse_annealing
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.training import ConfigError, train
from turncredit.training.batch.batch import pack
from turncredit.training.batch.sampling_temperature import SamplingTemperature
from turncredit.training.learner.gradient import UpdateMeter, UpdatePlan, accumulate
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.vocabulary import token_logprobs
from turncredit.training.objectives import Objective
from turncredit.training.parts import prepare

torch.set_num_threads(1)
SOON = {"name": "ead", "scale": 30.0, "first": 3, "least": 0.4}


class Digits:
    """A tokenizer of a model whose last id ends an answer."""

    eos_token_id = VOCAB - 1

    def encode(self, text):
        return [int(digit) for digit in text]

    def decode(self, ids):
        return " ".join(str(int(i)) for i in ids)


def _halves(position, *, low=0.5):
    return 1.0 if position % 2 == 0 else low


def _growing(position):
    return 1.0 - position / 100


def test_ead_by_hand():
    """2.2 - e^(t / 500): 1.180, 0.979 and 0.551 at 10, 100 and 250; 2.2 - e^0.8 is negative, so 0.1."""
    assert [ead(position) for position in (0, 9)] == [1.0, 1.0]
    assert [round(ead(position), 3) for position in (10, 100, 250, 400)] == [1.18, 0.979, 0.551, 0.1]
    assert ead(10**9) == 0.1
    assert ead(10, warmth=0.5, scale=100.0, first=0) == pytest.approx(2.5 - math.exp(0.1))


def _requests(annealing, count=14):
    view = View(start="", observation="", admissible=None, turn=0)
    return [
        Request(
            episode=f"t#{k}@0", turn=0, prompt=(1, 2, 3 + k), messages=(), seed=k, view=view, temperature=0.8,
            annealing=annealing, max_tokens=60,
        )
        for k in range(count)
    ]  # fmt: skip


def test_sampler_and_learner_divide_by_the_same_numbers():
    """At temperatures from 0.96 down to 0.32; rounding in float32 grows as 1 / temperature."""
    annealing, model = Annealing.of(SOON), tiny_llama(dtype=torch.float32)

    async def answers():
        sampler = TransformersSampler(model, Digits(), context=200)
        try:
            return await asyncio.gather(*(sampler.sample(request) for request in _requests(annealing)))
        finally:
            sampler.close()

    requests, sampled = _requests(annealing), asyncio.run(answers())
    assert max(len(answer.tokens) for answer in sampled) > 20  # where it is colder than at first
    episodes = tuple(
        trajectory([turn(request.prompt, answer.tokens, logprobs=answer.logprobs)], name=request.episode)
        for request, answer in zip(requests, sampled, strict=True)
    )
    batch = pack([Group("t", episodes)], temperature=SamplingTemperature(0.8, annealing))
    for options in ({}, {"packing": True}, {"share_prefixes": True}, {"recompute_activations": True}):
        scores = TokenScorer(model, **options).score(batch, temperature=0.8, micro_tokens=100)
        np.testing.assert_allclose(scores.logprobs[batch.mask], batch.old[batch.mask], rtol=0, atol=1e-5)
    plain = TokenScorer(model).score(replace(batch, heat=None), temperature=0.8)
    assert np.abs(plain.logprobs - batch.old)[batch.mask].max() > 0.1


def test_factors_belong_to_positions_in_answers_however_turns_are_merged():
    first, second = turn([1, 2], [3, 4]), turn([1, 2, 3, 4, 5], [6, 7, 8])
    groups, annealing = [Group("t", (trajectory([first, second]),))], Annealing(_growing)
    merged, apart = (
        pack(groups, temperature=SamplingTemperature(1.0, annealing), merge=merge) for merge in (True, False)
    )
    assert merged.heat.tolist() == [[1, 1, 1, 0.99, 1, 1, 0.99, 0.98]]
    assert apart.heat.tolist() == [[1, 1, 1, 0.99, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0.99, 0.98]]
    assert apart.rows(np.array([0])).heat.tolist() == [[1, 1, 1, 0.99]]
    assert pack(groups).heat is None


def test_micro_batches_and_merged_turns_have_the_same_gradient():
    rng = np.random.default_rng(0)
    groups, annealing = play(rng, groups=2, size=3), Annealing(_halves)
    advantages, results = random_advantages(rng, groups), []
    for merge, micro_tokens, options in (
        (True, 10_000, {}),
        (True, 40, {}),
        (False, 40, {}),
        (False, 10_000, {"share_prefixes": True}),
        (True, 10_000, {"packing": True}),
    ):
        scorer, meter = TokenScorer(tiny_llama(), **options), UpdateMeter()
        plan = UpdatePlan(micro_tokens=micro_tokens, grad_clip=1e9, temperature=0.7)
        batch = pack(groups, advantages, merge=merge, temperature=SamplingTemperature(0.7, annealing))
        accumulate(scorer, batch, Objective(name="gspo", entropy=0.1), plan, meter)
        results.append(torch.cat([weight.grad.flatten() for weight in scorer.model.parameters()]))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-8, atol=1e-11)


def test_a_token_that_rows_share_at_two_positions_of_their_answers_has_two_temperatures():
    answers = [((1, 2), (3, 4, 5)), ((1, 2, 3), (4, 5, 6)), ((1, 2), (3, 4, 5))]
    episodes = [trajectory([turn(*answer)], name=f"t#{k}@0") for k, answer in enumerate(answers)]
    batch = pack([Group("t", tuple(episodes))], temperature=SamplingTemperature(1.0, Annealing(_halves)))
    shared, apart = (TokenScorer(tiny_llama(), share_prefixes=shares) for shares in (True, False))
    assert shared.cutting.shared
    wanted = apart.score(batch)
    np.testing.assert_allclose(shared.score(batch).logprobs, wanted.logprobs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(shared.score(batch).entropy, wanted.entropy, rtol=0, atol=1e-12)
    assert wanted.logprobs[0, 3] != pytest.approx(wanted.logprobs[1, 3])


@pytest.mark.parametrize("chunk", [2**25, 10])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("entropy", [True, False])
def test_one_temperature_a_token_is_each_token_at_its_own(chunk, bias, entropy):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    head = torch.nn.Linear(3, 7, bias=bias).double()
    tokens, heat = torch.tensor([0, 6, 3, 3, 1]), [1.0, 0.5, 2.0, 0.1, 1.0]

    def slopes(parts):
        head.zero_grad()
        chosen, spread = (torch.cat(column) for column in zip(*parts, strict=True))
        (chosen.sum() + (0.3 * spread).sum() if entropy else chosen.sum()).backward()
        return chosen, spread, [weight.grad.clone() for weight in head.parameters()]

    alone = slopes([
        token_logprobs(hidden[k : k + 1], head, tokens[k : k + 1], temperature=t, entropy=entropy)
        for k, t in enumerate(heat)
    ])  # fmt: skip
    column = torch.tensor(heat, dtype=torch.float64)[:, None]
    together = slopes([token_logprobs(hidden, head, tokens, temperature=column, entropy=entropy, chunk=chunk)])
    torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-12)


def test_an_annealing_is_named_checked_and_sent_to_other_processes():
    assert Annealing.of("") is None
    agent = Agent.from_options(temperature={**SOON, "value": 0.9})
    annealing, plain = agent.annealing, Agent.from_options(temperature=0.5)
    assert (agent.temperature, plain.temperature, plain.annealing) == (0.9, 0.5, None)
    assert annealing.factors(5) == [ead(position, scale=30.0, first=3, least=0.4) for position in range(5)]
    assert pickle.loads(pickle.dumps(annealing)) == annealing == Annealing.of(SOON)
    own = Annealing.of({"name": f"{__name__}:_halves", "low": 0.25})
    assert own.factors(3) == [1.0, 0.25, 1.0]
    request = _requests(own)[0]
    assert [request.temperature_at(position) for position in (0, 1)] == [0.8, pytest.approx(0.2)]
    assert replace(request, annealing=None).temperature_at(1) == 0.8


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"name": "ead", "value": 0.9}, "'ead' has no option 'value'"),
        ("eda", "unknown annealing 'eda'; did you mean 'ead'"),
        ({"scale": 3}, "must be a name or a table with a name"),
        ({"name": "ead", "scal": 3}, "'ead' has no option 'scal'; did you mean 'scale'"),
        ({"name": "ead", "scale": "3"}, "scale must be a finite number, got '3'"),
        ({"name": "ead", "scale": 0}, "'ead' has no factor at position 10: "),
        ({"name": "ead", "least": -1.0}, "must be a positive number, got -1.0 at position 1000"),
        (f"{__name__}:_growing", "must be a positive number, got 0.0 at position 100"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_sampled(choice, message):
    with pytest.raises(AgentError, match=message):
        Annealing.of(choice)


def test_engines_that_sample_an_answer_at_one_temperature_refuse():
    with pytest.raises(SamplerError, match=r'the engine vllm samples an answer at one temperature.*"transformers"'):
        refuse_annealing(_requests(Annealing(ead))[0], "vllm")
    refuse_annealing(_requests(None)[0], "vllm")
    with pytest.raises(ConfigError, match=r"which sampler\.engine 'vllm' cannot"):
        prepare(make_run("nowhere", "agent.temperature=ead", "sampler.engine=vllm"))


def test_a_run_trains_on_what_it_sampled_at_changing_temperatures(tmp_path):
    annealing = f'agent.temperature={{name="{__name__}:_halves", low=0.7, value=0.9}}'
    run = make_run(tmp_path / "run", "train.iterations=1", "evaluation.episodes=0", annealing)
    train(run)
    (event,) = [event for event in lines(tmp_path / "run") if event["phase"] == "train"]
    assert event["updates"] > 0
    assert event["gap_max"] < 1e-5  # nats, between the sampler's log-probabilities and the learner's
