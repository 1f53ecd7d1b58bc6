"""Names for objects of transformers, whose classes depend on the model and have no types."""

from typing import Any

CausalLM = Any
"""A causal language model."""

ModelConfig = Any
"""The configuration of a model."""

PolicyTokenizer = Any
"""The tokenizer of a model, which also writes itself to a folder."""
