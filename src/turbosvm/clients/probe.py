"""Some inputs to try a model on."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from turbosvm.data.federated import FederatedData
from turbosvm.inputs import as_model_input


def probe(data: FederatedData, users: Sequence[int], count: int, device: torch.device) -> Tensor:
    """So many inputs, the first of the user who has most; where these are too few, those that lie behind too."""
    largest = max(users, key=lambda user: int(data.counts[user]))
    first = int(data.offsets[largest])
    places = np.arange(first, min(first + count, len(data.labels)))
    return as_model_input(data.tensors(places, device)[0])
