"""Episodes that begin inside an answer of another: the ids that they take over, and what samplers make of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from toys.corridor import Corridor
from toys.tokens import Bytes
from toys.training_helpers import tiny_llama
from toys.wanderer import Parrot, Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, StoreError
from turncredit.agents.files.trajectory_files import from_json, to_json
from turncredit.agents.rollouts.forks import Fork
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Trajectory, member_order
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.engines.wrappers import SamplerWrapper

LONGEST = 7
AGENT = Agent(max_turns=4, max_tokens=LONGEST, temperature=0.0)


def model(version: int = 0) -> TransformersSampler:
    module = tiny_llama(dtype=torch.float32, vocab_size=257, max_position_embeddings=2048)
    return TransformersSampler(module, Bytes(), context=2048, version=version)


def played(agent: Agent, sampler: TransformersSampler) -> Trajectory:
    (group,) = rollout(agent, sampler, ["open-3-1"], make=Corridor, seed=3)
    return group.trajectories[0]


def fork(agent: Agent, sampler: object, parent: Trajectory, turn: int, tokens: int, size: int = 1) -> list[Trajectory]:
    (group,) = rollout(agent, sampler, [Fork(parent, turn, tokens=tokens)], make=Corridor, size=size)  # type: ignore[arg-type]
    return list(group.trajectories)


def test_at_temperature_0_a_branch_repeats_its_parent() -> None:
    sampler = model()
    parent = played(AGENT, sampler)
    assert [len(turn.response) for turn in parent.turns] == [LONGEST] * 4
    for turn in range(4):
        for tokens in range(1, LONGEST):
            (child,) = fork(AGENT, sampler, parent, turn, tokens)
            assert (child.fork_of, child.fork_turn, child.fork_tokens) == (parent.id, turn, tokens)
            assert child.stop == parent.stop
            for one, other in zip(child.turns, parent.turns, strict=True):
                assert (one.prompt, one.response, one.text) == (other.prompt, other.response, other.text)
                assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
            joined, before = child.turns[turn], parent.turns[turn]
            assert joined.logprobs[:tokens] == before.logprobs[:tokens]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_answer_begins_with_the_parents_tokens_and_goes_on_by_itself(temperature: float) -> None:
    agent, sampler = replace(AGENT, temperature=temperature), model()
    parent = played(agent, sampler)
    children = fork(agent, sampler, parent, 1, 3, size=6)
    before = parent.turns[1]
    for child in children:
        joined = child.turns[1]
        assert child.turns[:1] == parent.turns[:1]
        assert joined.prompt == before.prompt
        assert joined.response[:3] == before.response[:3]
        assert joined.logprobs[:3] == before.logprobs[:3]
        assert len(joined.response) <= LONGEST
        assert joined.text == sampler.tokenizer.decode(joined.response)
        with torch.no_grad():
            logits = sampler._model(torch.tensor([[*joined.prompt, *joined.response]])).logits[0]
        table = torch.log_softmax(logits.double() / temperature, -1)
        start = len(joined.prompt) - 1
        expected = [float(table[start + at, token]) for at, token in enumerate(joined.response)]
        assert joined.logprobs == pytest.approx(expected, abs=1e-4)
    assert len({child.turns[1].response for child in children}) > 1
    assert [child.id for child in children] == [f"open-3-1#0/1:3.{number}@3" for number in range(6)]


def test_tokens_keep_their_versions() -> None:
    agent = replace(AGENT, temperature=1.0)
    parent = played(agent, model(version=4))
    (child,) = fork(agent, model(version=6), parent, 2, 4)
    assert [turn.version for turn in child.turns] == [4, 4, 4, 6]
    assert child.turns[2].versions == (4,) * 4 + (6,) * (len(child.turns[2].response) - 4)
    (grandchild,) = fork(agent, model(version=7), child, 2, 5)
    assert grandchild.turns[2].versions == (4,) * 4 + (6,) + (7,) * (len(grandchild.turns[2].response) - 5)


def test_a_stop_string_may_lie_across_the_place() -> None:
    parent = played(replace(AGENT, temperature=0.0), sampler := model())
    answer = sampler.tokenizer.decode(parent.turns[0].response)
    stop = next(answer[at : at + 2] for at in range(1, 5) if answer[at : at + 2].isprintable())
    agent = replace(AGENT, stop=(stop,))
    stopped = played(agent, sampler)
    end = len(stopped.turns[0].response)
    assert sampler.tokenizer.decode(stopped.turns[0].response).endswith(stop)
    (child,) = fork(agent, sampler, stopped, 0, end - 1)
    assert child.turns[0].response == stopped.turns[0].response
    assert child.turns[0].finish == "stop"


def test_the_wrapper_of_a_sampler_goes_on_as_it_does() -> None:
    parent = played(AGENT, sampler := model())
    (child,) = fork(AGENT, SamplerWrapper(sampler), parent, 1, 2)
    assert child.turns[1].response == parent.turns[1].response
    assert not SamplerWrapper(Wanderer(tokenizer=Bytes(), parser="bare")).continues


def test_a_sampler_that_cannot_go_on_is_named() -> None:
    parent = played(AGENT, model())
    parrot = Parrot([turn.text for turn in parent.turns], Bytes())
    with pytest.raises(AgentError, match="inside an answer, after 2 of its tokens, and the sampler Parrot does not"):
        fork(AGENT, parrot, parent, 1, 2)
    assert not parrot.asked


def test_a_sampler_that_does_not_go_on_although_it_says_so_is_found() -> None:
    class Forgetful(Parrot):
        continues = True

    parent = played(AGENT, model())
    with pytest.raises(AgentError, match="does not begin with the 2 tokens that it got"):
        fork(AGENT, Forgetful(["push"] * 4, Bytes()), parent, 1, 2)


def test_places_inside_an_answer() -> None:
    parent = played(AGENT, model())
    for tokens in (-1, LONGEST, LONGEST + 1):
        with pytest.raises(AgentError, match=f"fewer tokens than the {LONGEST} of the answer there; got {tokens}"):
            Fork(parent, 1, tokens=tokens)
    with pytest.raises(AgentError, match="repeats an answer or begins inside it, not both"):
        Fork(parent, 1, repeat=True, tokens=2)


def test_names_are_ordered_and_stored() -> None:
    parent = played(AGENT, sampler := model())
    children = [fork(AGENT, sampler, parent, 1, tokens)[0] for tokens in (0, 5, 2)]
    assert [one.id for one in sorted([*children, parent], key=member_order)] == [
        "open-3-1#0@3",
        "open-3-1#0/1.0@3",
        "open-3-1#0/1:2.0@3",
        "open-3-1#0/1:5.0@3",
    ]
    for child in children:
        assert from_json(to_json(child)) == child
    with pytest.raises(StoreError, match="fork_tokens must be some of the tokens of turn fork_turn, got 9"):
        from_json(to_json(children[1]).replace('"fork_tokens":5', '"fork_tokens":9'))
