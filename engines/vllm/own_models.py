"""Models of turncredit's own, which vLLM and transformers do not know by themselves.

The entry point `vllm.general_plugins` of the package lets each of vLLM's processes call `register_models`.
"""

from __future__ import annotations

from turncredit.agents.json_types import JsonObject
from turncredit.former_name import FORMER

__all__ = ["architecture_of", "register_models"]

ARCHITECTURE = "TurncreditScreenLlava"
TOWERS = ("turncredit_screen_tower", f"{FORMER}_screen_tower")
"""Types of the image encoder `turncredit.agents.vision.screen_tower`, today's and that of older folders."""
CLASS = "turncredit.engines.vllm.screen_model:ScreenLlava"


def architecture_of(config: JsonObject) -> JsonObject:
    """Return the changes with which vLLM reads the configuration of a model of turncredit's own; {} for other models.

    Args:
        config: config.json of the model.
    """
    tower = config.get("vision_config", {}).get("model_type")
    return {"architectures": [ARCHITECTURE]} if tower in TOWERS else {}


def register_models() -> None:
    """Let vLLM and transformers know them in this process."""
    from vllm import ModelRegistry

    import turncredit.agents.vision.screen_tower  # noqa: F401 - transformers knows it from here on

    ModelRegistry.register_model(ARCHITECTURE, CLASS)
