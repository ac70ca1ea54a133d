"""From stored samples to what a model sees."""

import torch
from torch import Tensor


def as_model_input(inputs: Tensor) -> Tensor:
    """Scale stored uint8 images to 0..1; leave tokens and floats as they are."""
    return inputs / 255.0 if inputs.dtype == torch.uint8 else inputs
