"""Which experts the routers of a mixture choose: recorded from a forward pass, or prescribed to it.

A router scores all experts and takes the best K with `topk`. Here the numbers that `topk` returns are read or replaced,
and its values are then those of the prescribed experts. The model's own code goes on from there, so that the weights of
the experts have the gradient and the normalisation of the family: over all experts (Mixtral, Qwen 3 MoE), over the
chosen ones (GPT-OSS), or of sigmoids with a bias that decides the choice alone (DeepSeek V3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from turncredit.agents.errors import ModelError
from turncredit.agents.token_experts import experts_dtype

Choose = Callable[[int, Tensor], Tensor]
"""Returns the experts of the tokens of a pass, int64 [N, K], given the number of the router's layer among those with a
router, and its own choice."""

COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""Attributes of routers, and of configurations, with the number of experts."""


@dataclass(frozen=True, slots=True)
class Routers:
    """The routers of a model.

    Attributes:
        modules: in the order of the layers.
        top: experts of each token.
        count: experts of each layer.
        layers: number of each one's layer among all of the model; () if their names do not say it.
    """

    modules: tuple[nn.Module, ...]
    top: int
    count: int
    layers: tuple[int, ...] = ()

    @classmethod
    def of(cls, model: nn.Module) -> Routers:
        """Return the routers of a model of transformers; each is a module that knows how many experts it chooses.

        Raises:
            ModelError: there are none, or they choose different numbers of experts.
        """
        named = [(*pair, shape) for pair in model.named_modules() if (shape := _shape(pair[1])) is not None]
        shapes = {shape for _, _, shape in named}
        if len(shapes) != 1:
            problem = f"its routers choose {_shown(shapes)} experts" if shapes else "it has no router of experts"
            raise ModelError(f"experts cannot be recorded or replayed for {type(model).__name__}: {problem}")
        top, count = shapes.pop()
        numbers = [int(match[1]) for name, _, _ in named if (match := re.search(r"(?:^|\.)(\d+)\.", name))]
        distinct = len(set(numbers)) == len(named)
        return cls(tuple(module for _, module, _ in named), top, count, tuple(numbers) if distinct else ())

    @classmethod
    def checked(cls, model: nn.Module) -> Routers:
        """Return the routers of a model, after checking on three tokens that experts can be prescribed to it.

        Raises:
            ModelError: they cannot.
        """
        routers = cls.of(model)
        routers.check(model)
        return routers

    @property
    def shape(self) -> tuple[int, int]:
        """Layers with a router, and experts of a token in each."""
        return len(self.modules), self.top

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The type in which experts are stored."""
        return experts_dtype(self.count)

    @contextmanager
    def choosing(self, choose: Choose) -> Iterator[None]:
        """Let a function see, and decide, the choices of all routers in the forward passes within the block."""
        with ExitStack() as stack:
            for layer, module in enumerate(self.modules):
                modes: list[_Choice] = []
                enter = partial(self._enter, modes, partial(choose, layer))
                leave = partial(_leave, modes)
                stack.enter_context(module.register_forward_pre_hook(enter))
                stack.enter_context(module.register_forward_hook(leave, always_call=True))
            yield

    def _enter(self, modes: list[_Choice], choose: Callable[[Tensor], Tensor], *_: object) -> None:
        modes.append(_Choice(self.top, self.count, choose))
        modes[-1].__enter__()  # type: ignore[no-untyped-call]

    @contextmanager
    def recording(self) -> Iterator[list[Tensor]]:
        """Return a list that receives the experts of each layer of one forward pass, int64 [N, K]."""
        choices: list[Tensor] = []

        def record(layer: int, own: Tensor) -> Tensor:
            choices.append(own)
            return own

        with self.choosing(record):
            yield choices

    def replaying(self, experts: Tensor, prescribed: Tensor) -> AbstractContextManager[None]:
        """Return a context in which the tokens of a pass have prescribed experts.

        Args:
            experts: integers [N, layers, K], in the order in which routers see the tokens; of the layers with a
                router, or of all layers.
            prescribed: bool [N], tokens that have any; the others have those that the routers choose.
        """
        if experts.shape[1] != len(self.modules) and self.layers:
            experts = experts[:, list(self.layers)]

        def replay(layer: int, own: Tensor) -> Tensor:
            return torch.where(prescribed[:, None], experts[:, layer].to(own), own)

        return self.choosing(replay)

    def check(self, model: nn.Module) -> None:
        """Check on three tokens that experts can be prescribed to a model.

        Raises:
            ModelError: a router is not asked once in each pass, or the model has other experts than those prescribed.
        """
        tokens = torch.tensor([[1, 2, 3]], device=next(iter(model.parameters())).device)
        with torch.no_grad():
            own = self._pass(model, tokens, None)
            usable = len(own) == len(self.modules) and all(choice.shape == (3, self.top) for choice in own)
            if usable:
                others = torch.stack([(choice + 1) % self.count for choice in own], dim=1)
                usable = _same(self._pass(model, tokens, others), list(others.unbind(1)))
        if not usable:
            raise ModelError(
                f"experts cannot be recorded or replayed for {type(model).__name__}: its routers do not choose the "
                f"best {self.top} of {self.count} once in each pass"
            )

    def _pass(self, model: nn.Module, tokens: Tensor, experts: Tensor | None) -> list[Tensor]:
        """Return the experts that routers gave the tokens of a pass, int64 [N, K] of each layer.

        Args:
            model: of these routers.
            tokens: int64 [B, L].
            experts: int64 [N, layers, K], prescribed to them; None: they choose.
        """
        chosen: list[Tensor] = []

        def choose(layer: int, own: Tensor) -> Tensor:
            return own if experts is None else experts[:, layer]

        def note(_: nn.Module, __: object, output: object) -> None:
            chosen.extend(tensor for tensor in _tensors(output) if tensor.dtype == torch.int64)

        with ExitStack() as stack:
            stack.enter_context(self.choosing(choose))
            for module in self.modules:
                stack.enter_context(module.register_forward_hook(note))
            model(input_ids=tokens, use_cache=False)
        return chosen


class _Choice(TorchFunctionMode):
    """Replaces the choice of the best K of all experts within the forward of one router."""

    def __init__(self, top: int, count: int, choose: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._top, self._count, self._choose = top, count, choose

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: Sequence[Tensor] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        if func not in (torch.topk, Tensor.topk) or not isinstance(result, tuple):
            return result
        scores, (_, best) = args[0], result
        # that of groups of experts, which some families choose first, has other sizes
        if scores.ndim != 2 or scores.shape[1] != self._count or best.shape[1] != self._top:
            return result
        indices = self._choose(best)
        if indices is best:
            return result
        return torch.return_types.topk((scores.gather(1, indices), indices))


def _leave(modes: list[_Choice], *_: object) -> None:
    if modes:
        modes.pop().__exit__(None, None, None)  # type: ignore[no-untyped-call]


def _shape(module: nn.Module) -> tuple[int, int] | None:
    """Return how many experts a router chooses, and of how many; None for other modules."""
    top, weight = getattr(module, "top_k", None), getattr(module, "weight", None)
    count = next((value for name in COUNTS if isinstance(value := getattr(module, name, None), int)), None)
    if not isinstance(top, int) or count is None or not isinstance(weight, Tensor):
        return None
    return (top, count) if weight.ndim == 2 and weight.shape[0] == count else None


def _shown(shapes: set[tuple[int, int]]) -> str:
    return " and ".join(f"{top} of {count}" for top, count in sorted(shapes))


def _tensors(output: object) -> Iterator[Tensor]:
    for value in output if isinstance(output, tuple) else (output,):
        if isinstance(value, Tensor):
            yield value


def _same(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    return len(first) == len(second) and all(map(torch.equal, first, second))
