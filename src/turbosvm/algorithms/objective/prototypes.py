"""FedProc's objective: features should lie near the global prototype of their class, and far from the others.

    alpha l_gpc + (1 - alpha) l_ce,   alpha = 1 - t / T
    l_gpc(x, y) = -log( e^{s(z, c_y) / tau} / sum_k e^{s(z, c_k) / tau} )

z is what the head sees of x, s the cosine, and c_k the mean of z over all samples of class k that the last cohort had,
each client having measured its own with its trained model. Early rounds shape the features, late rounds the classifier.

Mu, Shen, Cheng, Geng, Fu, Zhang, Zhang: FedProc: Prototypical Contrastive Federated Learning on Non-IID Data.
Future Generation Computer Systems 2023.

Before the first prototypes exist the loss is l_ce alone; a class that no client has had yet has none and is left out of
the sum, and samples of it are left to l_ce. A class that is missing from one round's cohort keeps its last prototype.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from turbosvm.algorithms.objective.plain import Plain
from turbosvm.algorithms.rules import Assignment, Batch, Left, Trained
from turbosvm.errors import TurboSVMError
from turbosvm.models.contract import Head
from turbosvm.types import Cohort, ModelState, Weights
from turbosvm.values import as_positive, as_real


@dataclass(frozen=True)
class Prototypes(Plain):
    """Cross-entropy and the global prototypical contrastive loss; `weight = 0` is the plain objective.

    Args:
        weight: alpha: "decreasing", or a number from 0 to 1.
        temperature: tau.
    """

    weight: Literal["decreasing"] | float = "decreasing"
    temperature: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", as_positive("FedProc's temperature", self.temperature))
        if self.weight != "decreasing":
            weight = as_real("FedProc's weight", self.weight)
            if not 0 <= weight <= 1:
                raise TurboSVMError(f"FedProc's weight is {weight}; it must be from 0 to 1, or 'decreasing'.")
            object.__setattr__(self, "weight", weight)

    def share(self, model: ModelState, head: Head) -> Weights:
        """Return no prototypes: zeros, each met by a count of zero samples."""
        weight = model.parameters[head.weight]
        return {"prototypes": torch.zeros_like(weight), "counts": weight.new_zeros(len(weight))}

    def loss(self, batch: Batch, client: Assignment) -> Tensor:
        """Return the loss of one batch."""
        plain = super().loss(batch, client)
        if self.weight == 0:
            return plain
        known = client.shared["counts"] > 0
        any_known = known.any()
        alpha = (1 - client.progress if isinstance(self.weight, str) else self.weight) * any_known
        features = functional.normalize(batch.features, dim=1)
        cosines = features @ functional.normalize(client.shared["prototypes"], dim=1).T
        logits = (cosines / self.temperature).masked_fill(any_known & ~known, -torch.inf)
        each = functional.cross_entropy(logits, batch.labels, reduction="none")
        contrastive = torch.where(known[batch.labels], each, 0.0).mean()
        return alpha * contrastive + (1 - alpha) * plain

    def finish(self, trained: Trained, client: Assignment) -> Left:  # noqa: ARG002
        """Send the sums and counts from which class means are made."""
        sums, counts = trained.class_features()
        return Left({"sums": sums, "counts": counts.to(sums)}, {})

    def merge(self, shared: Weights, sent: Weights, cohort: Cohort, population: int) -> Weights:  # noqa: ARG002
        """Return the mean features of each class over the cohort's samples."""
        counts = sent["counts"].sum(dim=0)
        means = sent["sums"].sum(dim=0) / counts.clamp(min=1).unsqueeze(1)
        seen = counts > 0
        return {
            "prototypes": torch.where(seen.unsqueeze(1), means, shared["prototypes"]),
            "counts": torch.where(seen, counts, shared["counts"]),
        }
