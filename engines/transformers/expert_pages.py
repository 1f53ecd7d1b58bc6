"""The experts that computed the tokens in a KV cache, in the same pages as their keys and values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from turncredit.agents.token_experts import Experts
from turncredit.engines.transformers.expert_routing import Routers
from turncredit.engines.transformers.kvcache import NewTokens, to_device


class ExpertPages:
    """Pages of the experts of tokens: a block [pages, width, layers, K], which grows as those of the cache do."""

    def __init__(self, routers: Routers, width: int, device: torch.device) -> None:
        """Make it without any page.

        Args:
            routers: of the model.
            width: tokens in a page.
            device: of the model.
        """
        self.routers, self.width = routers, width
        # torch computes little with uint16
        kind = torch.uint8 if routers.dtype == np.uint8 else torch.int16
        self._block = torch.zeros((0, width, *routers.shape), dtype=kind, device=device)

    def reserve(self, pages: int) -> None:
        """Make room for a number of pages, and keep the contents of those in use."""
        missing = pages - len(self._block)
        if missing > 0:
            self._block = torch.cat([self._block, self._block.new_zeros((missing, *self._block.shape[1:]))])

    def write(self, new: NewTokens, choices: Sequence[Tensor]) -> None:
        """Write the experts of a pass.

        Args:
            new: where its new tokens go.
            choices: int64 [rows * columns, K] of each layer.
        """
        chosen = torch.stack(list(choices), dim=1).to(self._block.dtype)
        source = to_device(new.rows * new.length + new.columns, self._block.device)
        target = to_device(new.pages * self.width + new.offsets, self._block.device)
        self._block.view(-1, *self.routers.shape)[target] = chosen[source]

    @torch.inference_mode()
    def copy_pages(self, sources: list[int], targets: list[int]) -> None:
        """Copy the contents of pages over those of others."""
        source, target = (
            to_device(np.array(pages, dtype=np.int64), self._block.device) for pages in (sources, targets)
        )
        self._block[target] = self._block[source]

    def read(self, spans: Sequence[tuple[list[int], int, int]]) -> list[Experts]:
        """Return the experts of tokens, [stop - start, layers, K] for each (pages, start, stop)."""
        places = []
        for pages, start, stop in spans:
            span = np.arange(start, stop)
            places.append(np.array(pages, dtype=np.int64)[span // self.width] * self.width + span % self.width)
        index = to_device(np.concatenate(places), self._block.device)
        read = self._block.view(-1, *self.routers.shape)[index].cpu().numpy().astype(self.routers.dtype)
        return np.split(read, np.cumsum([len(entry) for entry in places])[:-1])
