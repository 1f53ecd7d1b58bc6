"""Which engine answers which episode, and weights in chunks; without a cluster."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.engines.routing import ENDED, SURPLUS, Changes, Engine, EngineState, Routes

EPISODES = [f"task#{number}@0" for number in range(6)]
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(EPISODES)),
    st.tuples(st.just("forget"), st.sampled_from(EPISODES)),
    st.tuples(st.just("lose"), st.integers(0, 2)),
    st.tuples(st.just("start"), st.integers(0, 2)),
    st.tuples(st.just("drain"), st.integers(0, 2)),
    st.tuples(st.just("load"), st.integers(0, 2)),
)


@given(st.lists(STEPS, max_size=60))
def test_no_episode_goes_back_to_older_weights_or_leaves_a_live_engine(steps: list[tuple[str, Any]]) -> None:
    engines = [Engine(number, EngineState.READY) for number in range(3)]
    routes, current = Routes(engines), 0
    homes: dict[str, Engine] = {}
    seen: dict[str, int] = {}
    for what, which in steps:
        if what == "ask":
            found = routes.choose(which)
            home = homes.get(which)
            able = [one for one in engines if one.state is EngineState.READY and one.loads >= seen.get(which, 0)]
            if found is None:
                assert not able or (home is not None and home.state is EngineState.LOADING)
                continue
            assert found in able
            if home is not None and home in able:
                assert found is home
            elif home is None:
                others = [sum(one is engine for name, one in homes.items() if name != which) for engine in able]
                assert sum(one is found for name, one in homes.items() if name != which) == min(others)
            homes[which] = found
            seen[which] = found.loads
            routes.answered(which, found)
        elif what == "forget":
            assert routes.forget(which) is homes.pop(which, None)
            seen.pop(which, None)
        elif what == "lose" and engines[which].state is not EngineState.STARTING:
            engines[which].state = EngineState.STARTING
            routes.lost(engines[which])
            homes = {name: one for name, one in homes.items() if one is not engines[which]}
        elif what == "start" and engines[which].state is EngineState.STARTING:
            engines[which].state, engines[which].loads = EngineState.READY, current
        elif what == "drain" and engines[which].state is EngineState.READY:
            engines[which].state = EngineState.LOADING
        elif what == "load" and engines[which].state is EngineState.LOADING:
            current += 1
            engines[which].state, engines[which].loads = EngineState.READY, current
    for engine in engines:
        assert engine.episodes == {name for name, one in homes.items() if one is engine}


def test_forks_go_to_their_parents_engine_until_it_has_too_many_episodes() -> None:
    engines = [Engine(number, EngineState.READY) for number in range(3)]
    routes = Routes(engines)
    homes = [routes.choose(f"parent#{number}@0") for number in range(3)]
    assert homes == engines
    for ended in (False, True):
        if ended:
            routes.forget("parent#1@0")
        assert routes.choose(f"fork#{ended}@0", "parent#1@0") is engines[1]
    forks = [routes.choose(f"fork#{number}@0", "parent#1@0") for number in range(2, 12)]
    assert forks[:SURPLUS] == [engines[1]] * SURPLUS  # it had 2 episodes, and the others 1 each
    counts = [len(engine.episodes) for engine in engines]
    assert max(counts) - 1 <= SURPLUS + min(counts)
    assert routes.choose("fork#2@0", "parent#0@0") is engines[1]  # which has it already


def test_forks_of_parents_whose_engine_is_unknown_or_cannot_answer_go_where_the_fewest_episodes_are() -> None:
    engines = [Engine(number, EngineState.READY) for number in range(2)]
    routes = Routes(engines)
    assert routes.choose("parent#0@0") is engines[0]
    assert routes.choose("other#0@0") is engines[1]
    routes.forget("parent#0@0")
    for state in (EngineState.LOADING, EngineState.STARTING):
        engines[0].state = state
        assert routes.choose(f"fork {state}", "parent#0@0") is engines[1]
    routes.lost(engines[0])
    engines[0].state = EngineState.READY
    for number in range(3):  # its cache is lost
        assert routes.choose(f"later {number}", "parent#0@0") is engines[0]
    engines.append(Engine(2, EngineState.READY))
    assert routes.choose("last", "parent#0@0") is engines[2]
    for number in range(ENDED + 1):  # the first are forgotten
        routes.choose(f"short {number}")
        routes.forget(f"short {number}")
    assert len(routes._ended) == ENDED


def test_weights_are_the_same_behind_the_object_store() -> None:
    torch = pytest.importorskip("torch")
    from turncredit.engines.cluster.weight_chunks import join_chunks, split_weights

    tied = torch.randn(40, 8)
    weights = {
        "embed": tied,
        "half": torch.randn(7, 5, dtype=torch.bfloat16),
        "step": torch.tensor(3),
        "strided": torch.randn(6, 9).T,
        "last": tied,
        "flags": torch.tensor([True, False]),
    }
    chunks = list(split_weights(weights, size=100))
    assert len(chunks) > 1
    assert all(chunk.size < 100 or len(chunk.arrays) <= 3 for chunk in chunks)
    assert sum(chunk.size for chunk in chunks) == sum(one.nbytes for name, one in weights.items() if name != "last")
    found = join_chunks(pickle.loads(pickle.dumps(chunk)) for chunk in chunks)
    assert set(found) == set(weights)
    for name, tensor in weights.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
    assert found["last"] is found["embed"]
    assert len(list(split_weights(weights))) == 1


def test_parameters_travel_in_the_type_of_the_engines() -> None:
    torch = pytest.importorskip("torch")
    from turncredit.engines.cluster.weight_chunks import join_chunks, split_weights

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5))
    whole, half = (list(split_weights(module, dtype=dtype)) for dtype in ("", "bfloat16"))
    arrived = join_chunks(pickle.loads(pickle.dumps(half)))
    parameters = dict(module.named_parameters())
    for name, tensor in module.state_dict().items():
        assert arrived[name].dtype == (torch.bfloat16 if name in parameters else tensor.dtype)  # buffers stay exact
        assert torch.equal(arrived[name], tensor.to(arrived[name].dtype))
    saved = 2 * sum(parameter.numel() for parameter in parameters.values())
    assert sum(chunk.size for chunk in whole) - sum(chunk.size for chunk in half) == saved


def test_merged_adapters_travel_in_the_type_of_the_engines() -> None:
    torch = pytest.importorskip("torch")
    from turncredit.agents.models.weights import named_tensors
    from turncredit.engines.cluster.weight_chunks import join_chunks, split_weights
    from turncredit.training.learner.lora import LoraOptions, add_adapter
    from turncredit.training.learner.policy import build_policy

    model, _ = build_policy(["a b c d"] * 9, vocab=300, hidden=16, layers=1, heads=2, context=32)
    merged = add_adapter(model, LoraOptions(rank=2))
    arrived = join_chunks(split_weights(merged, dtype="bfloat16"))
    tensors = dict(named_tensors(merged))
    assert set(arrived) == set(tensors)
    for name, tensor in tensors.items():
        assert arrived[name].dtype == torch.bfloat16
        assert torch.equal(arrived[name], tensor.to(torch.bfloat16))


def test_a_change_looks_at_each_condition_once_and_wakes_in_order_those_for_whom_it_holds() -> None:
    looks, woken = 0, list[int]()

    async def wait(changes: Changes, number: int, open_: set[int]) -> None:
        def holds() -> bool:
            nonlocal looks
            looks += 1
            return number in open_

        await changes.until(holds)
        woken.append(number)

    async def everything() -> None:
        changes, open_ = Changes(), set[int]()
        tasks = [asyncio.create_task(wait(changes, number, open_)) for number in range(100)]
        await asyncio.sleep(0)
        tasks[7].cancel()
        await asyncio.sleep(0)
        for number in (50, 3, 7):
            open_.add(number)
        before = looks
        changes.notify()
        assert looks - before == 99
        await asyncio.sleep(0)
        assert woken == [3, 50]
        open_.update(range(100))
        changes.notify()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert woken == [3, 50, *(number for number in range(100) if number not in (3, 7, 50))]

    asyncio.run(everything())
