"""Models that see, in folders: their class in transformers, and how they read images."""

from __future__ import annotations

from pathlib import Path

from turncredit.agents.errors import ModelError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.vision.image_reader import ImageReader
from turncredit.agents.vision.untyped import Library, Model, Processor

__all__ = ["class_of", "load_reader", "model_class"]


def model_class(transformers: Library, table: JsonObject) -> Library:
    """Return the class of transformers that loads the model with this config.json; see `class_of`."""
    if "vision_config" not in table:
        return transformers.AutoModelForCausalLM
    import turncredit.agents.vision.screen_tower  # noqa: F401 - transformers knows it from here on

    return class_of(transformers, transformers.AutoConfig.for_model(table.get("model_type", "")))


def class_of(transformers: Library, config: Model) -> Library:
    """Return the class of transformers for a model: one for text, or where there is none, for images and text.

    Args:
        transformers: the package.
        config: of the model.
    """
    of_text = not hasattr(config, "vision_config") or type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    return transformers.AutoModelForCausalLM if of_text else transformers.AutoModelForImageTextToText


def load_reader(transformers: Library, folder: Path, table: JsonObject, tokenizer: Processor) -> ImageReader | None:
    """Return how the model of a folder reads images; None if it reads text only, or the folder has no processor.

    Args:
        transformers: the package.
        folder: of the model.
        table: its config.json.
        tokenizer: of the model, which the processor shares.

    Raises:
        ModelError: its processor cannot be read, or does not say what stands for an image.
    """
    token = table.get("image_token_id", table.get("image_token_index"))
    files = ("processor_config.json", "preprocessor_config.json")
    if "vision_config" not in table or token is None or not any((folder / name).is_file() for name in files):
        return None
    try:
        processor = transformers.AutoProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # of transformers, Pillow and what else a processor needs
        raise ModelError(f"the processor in {folder} could not be read: {error}") from error
    processor.tokenizer = tokenizer
    if not getattr(tokenizer, "chat_template", None) and getattr(processor, "chat_template", None):
        tokenizer.chat_template = processor.chat_template
    return ImageReader(processor, int(token))
