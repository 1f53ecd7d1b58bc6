"""The phases of a weight transfer over HTTP: which requests a sender causes, and what a server is refused for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from turncredit.agents.errors import EngineFailed, SamplerError  # noqa: E402
from turncredit.agents.models.weights import Weights  # noqa: E402
from turncredit.engines.background import BackgroundLoop  # noqa: E402
from turncredit.engines.openai.options import OpenAIOptions  # noqa: E402
from turncredit.engines.openai.phases import make_sender, meet_engine  # noqa: E402
from turncredit.engines.openai.weights import ServedWeights  # noqa: E402
from turncredit.engines.weight_transfer import GroupPlace, join, received  # noqa: E402

ROOT = "http://127.0.0.1:8000"
TENSORS = {"a": torch.randn(3, 4), "b": torch.arange(5)}


class FakeServer:
    """A client of a server whose only worker is a thread; it keeps the commands, and what the worker received."""

    root, url = ROOT, f"{ROOT}/v1"

    def __init__(self, described: Mapping[str, object], fails: str = "") -> None:
        self.described, self.fails = described, fails
        self.commands: list[str] = []
        self.weights: dict[str, Any] = {}
        self._group: Any = None

    async def command(self, url: str, body: Mapping[str, Any]) -> Any:
        body = json.loads(json.dumps(body))
        name = body.get("method") or url.removeprefix(f"{ROOT}/")
        self.commands.append(name)
        if name == self.fails:
            raise EngineFailed(f"{url}: HTTP 500")
        if name == "init_weight_transfer_engine":
            self._group = await asyncio.to_thread(join, GroupPlace(**body["init_info"]), 1)
        if name == "update_weights":
            self.weights = await asyncio.to_thread(self._receive, body["update_info"])
        return {"results": [self.described]} if name == "describe_engine" else {}

    def _receive(self, info: Mapping[str, Any]) -> dict[str, Any]:
        from turncredit.engines.weight_pieces import Piece

        columns = zip(info["names"], info["shapes"], info["dtype_names"], strict=True)
        return dict(received(self._group, [Piece(name, tuple(shape), kind) for name, shape, kind in columns]))


GLOO = {"dtype": "bfloat16", "backend": "turncredit_gloo", "workers": 1}
PHASES = ["check_tensors", "start_weight_update", "update_weights", "finish_weight_update", "reset_prefix_cache"]


@pytest.fixture
def run() -> Iterator[Any]:
    """Runs coroutines on one loop, as a sampler does."""
    loop = BackgroundLoop()
    yield lambda work: loop.call(work, 30.0)
    loop.close()


def served(server: Any, transfer: str = "gloo", device: str = "cpu") -> ServedWeights:
    return ServedWeights(server, OpenAIOptions.read({"transfer": transfer}), device)


def test_a_server_receives_tensors_in_its_own_type(run: Any) -> None:
    server = FakeServer(GLOO)
    weights = served(server)
    for version in (1, 2):
        assert run(weights.load(Weights(TENSORS), version)) == ""
        assert torch.equal(server.weights["a"], TENSORS["a"].bfloat16())
        assert torch.equal(server.weights["b"], TENSORS["b"])
        assert not weights.lost
    assert server.commands == [
        "describe_engine",
        PHASES[0],
        "init_weight_transfer_engine",
        *PHASES[1:],
        *PHASES,
    ]


@pytest.mark.parametrize(
    ("fails", "lost"), [("check_tensors", False), ("start_weight_update", True), ("finish_weight_update", True)]
)
def test_weights_that_a_server_does_not_take_are_an_error(run: Any, fails: str, lost: bool) -> None:
    server = FakeServer(GLOO, fails)
    weights = served(server)
    with pytest.raises(EngineFailed, match=r"could not load the new weights: .*HTTP 500"):
        run(weights.load(Weights(TENSORS), 1))
    assert weights.lost is lost
    assert ("abandon_weight_update" in server.commands) is lost
    server.fails = ""
    run(weights.load(Weights(TENSORS), 2))
    assert not weights.lost


def test_a_server_that_was_started_for_another_way_is_refused(run: Any) -> None:
    for described in ({}, {**GLOO, "backend": ""}, {**GLOO, "backend": "ipc"}):
        server: Any = FakeServer(described)
        with pytest.raises(EngineFailed, match="start it with `turncredit serve model MODEL transfer=gloo`"):
            run(meet_engine(server, "gloo"))


def test_a_learner_on_a_cpu_has_no_memory_of_a_gpu_to_share(run: Any) -> None:
    server: Any = FakeServer({**GLOO, "backend": "ipc"})

    async def try_to_make() -> None:
        engine = await meet_engine(server, "ipc")
        make_sender("ipc", server, engine, "cuda:1")
        make_sender("ipc", server, engine, "cpu")

    with pytest.raises(SamplerError, match="shares memory of the learner's GPU, and its device is cpu"):
        run(try_to_make())


def test_the_option_is_one_of_the_choices() -> None:
    with pytest.raises(SamplerError, match="'transfer' of the openai sampler"):
        OpenAIOptions.read({"transfer": "nccl"})
