"""A small image encoder for screens, as a model of transformers: convolutions, and a vector for each patch.

It stands in the place of the vision tower of a LLaVA model, so that a new small policy that sees has the interface of
the large ones. Screens are flat and sharp, and their words matter: the first convolution reads blocks of pixels, later
ones look at the patches around, and each patch learns where on the screen it is.

Not included: images of several sizes; the processor scales all to one.
"""

from __future__ import annotations

import torch
import transformers
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling

from turncredit.former_name import FORMER

__all__ = ["ScreenTower", "ScreenTowerConfig"]


class ScreenTowerConfig(transformers.PretrainedConfig):  # type: ignore[misc]
    """Sizes of a `ScreenTower`.

    Attributes:
        image_height, image_width: of an image, in pixels; multiples of `patch_size`.
        patch_size: height and width of a patch, in pixels; a multiple of 4.
        hidden_size: size of the vector of a patch.
        layers: number of blocks that look at the patches around.
    """

    model_type = "turncredit_screen_tower"

    def __init__(
        self,
        image_height: int = 240,
        image_width: int = 108,
        patch_size: int = 12,
        hidden_size: int = 128,
        layers: int = 2,
        **options: object,
    ) -> None:
        """Keep the sizes."""
        super().__init__(**options)
        self.image_height, self.image_width = image_height, image_width
        self.patch_size, self.hidden_size, self.layers = patch_size, hidden_size, layers


class _AroundPatch(nn.Module):
    """x + f(x): a convolution over the patches around, then over the channels."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, size)
        self.around = nn.Conv2d(size, size, 3, padding=1)
        self.mix = nn.Conv2d(size, size, 1)

    def forward(self, images: Tensor) -> Tensor:
        changed: Tensor = self.mix(nn.functional.gelu(self.around(self.norm(images))))
        return images + changed


class ScreenTower(transformers.PreTrainedModel):  # type: ignore[misc]
    """Encodes images float [B, 3, height, width] as vectors [B, patches, hidden size], row by row."""

    config_class: type[ScreenTowerConfig] = ScreenTowerConfig
    base_model_prefix = "tower"
    main_input_name = "pixel_values"
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = True  # it has no attention

    def __init__(self, config: ScreenTowerConfig) -> None:
        """Make the layers, with weights that are drawn."""
        super().__init__(config)
        size, patch = config.hidden_size, config.patch_size
        rows, columns = config.image_height // patch, config.image_width // patch
        self.fine = nn.Conv2d(3, size // 2, 4, stride=4)
        self.near = nn.Conv2d(size // 2, size // 2, 3, padding=1)
        self.coarse = nn.Conv2d(size // 2, size, patch // 4, stride=patch // 4)
        self.row = nn.Parameter(torch.randn(size, rows, 1) * 0.5)
        self.column = nn.Parameter(torch.randn(size, 1, columns) * 0.5)
        self.blocks = nn.ModuleList(_AroundPatch(size) for _ in range(config.layers))
        self.norm = nn.LayerNorm(size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Leave the layers as torch draws them."""

    def forward(self, pixel_values: Tensor, **_: object) -> BaseModelOutputWithPooling:
        """Return the vectors of the patches as the last and only hidden state."""
        pixels = pixel_values.to(self.fine.weight.dtype)
        fine = nn.functional.gelu(self.fine(pixels))
        patches = self.coarse(fine + nn.functional.gelu(self.near(fine))) + self.row + self.column
        for block in self.blocks:
            patches = block(patches)
        vectors = self.norm(patches.flatten(2).transpose(1, 2))
        return BaseModelOutputWithPooling(last_hidden_state=vectors, hidden_states=(vectors,))


class FormerScreenTowerConfig(ScreenTowerConfig):
    """The sizes in a folder that was written under the project's former name."""

    model_type = f"{FORMER}_screen_tower"

    def __init__(self, **options: object) -> None:
        """Keep the sizes; transformers writes a constructor of its own for a class that has none."""
        super().__init__(**options)  # type: ignore[arg-type]


class FormerScreenTower(ScreenTower):
    """The encoder in such a folder."""

    config_class = FormerScreenTowerConfig


for tower in (ScreenTower, FormerScreenTower):
    transformers.AutoConfig.register(tower.config_class.model_type, tower.config_class, exist_ok=True)
    transformers.AutoModel.register(tower.config_class, tower, exist_ok=True)
