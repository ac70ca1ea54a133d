"""FedAvg's rule: the mean of the clients' weights, weighted by their number of samples.

    theta_G <- sum_n |D_n| / |D_G| theta_n

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized
Data. AISTATS 2017.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from turbosvm.averaging import weighted_means
from turbosvm.errors import unknown
from turbosvm.types import Cohort, Merged, Weights

Weighting = Literal["samples", "equal"]


@dataclass(frozen=True)
class Mean:
    """The mean of the clients' weights. It has no state.

    Args:
        weighting: "samples" counts a client as often as it has samples, "equal" counts each once.
    """

    weighting: Weighting = "samples"

    def __post_init__(self) -> None:
        if self.weighting not in get_args(Weighting):
            raise unknown("weighting", self.weighting, get_args(Weighting))

    def init(self, weights: Weights) -> Weights:  # noqa: ARG002
        """Return the (empty) state."""
        return {}

    def merge(self, weights: Weights, cohort: Cohort, state: Weights) -> Merged:
        """Return the mean of the cohort's weights."""
        counts = cohort.samples if self.weighting == "samples" else torch.ones_like(cohort.samples)
        return Merged(weighted_means(cohort.parameters, counts, weights), state, {})
