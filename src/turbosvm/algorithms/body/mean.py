"""FedAvg's rule: the mean of the clients' weights, weighted by their number of samples.

    theta_G <- sum_n |D_n| / |D_G| theta_n

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized
Data. AISTATS 2017.
"""

from dataclasses import dataclass

from turbosvm.averaging import weighted_mean
from turbosvm.types import Cohort, Merged, Weights


@dataclass(frozen=True)
class Mean:
    """The weighted mean. It has no hyperparameters and no state."""

    def init(self, weights: Weights) -> Weights:  # noqa: ARG002
        """Return the (empty) state."""
        return {}

    def merge(self, weights: Weights, cohort: Cohort, state: Weights) -> Merged:
        """Return the mean of the cohort's weights."""
        merged = {name: weighted_mean(cohort.parameters[name], cohort.samples) for name in weights}
        return Merged(merged, state, {})
