"""Names for objects of transformers, whose classes depend on the model and have no types.

Model       a model for images and text
Processor   what makes ids and tensors of texts and images
Library     the package transformers itself
"""

from typing import Any

Model = Any
Processor = Model
Library = Model
