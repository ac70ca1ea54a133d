"""TurboSVM-FL's head rule: average the support vectors only, then spread the classes along the SVMs' normals.

The method is `turbosvm.heads`, which knows nothing of this framework; here it becomes a rule of the catalogue, with the
round and the seed of the run. The old global head plays no part: the new one is made of the clients' alone.

Wang, Bodonhelyi, Bozkir, Kasneci: TurboSVM-FL: Boosting Federated Learning through SVM Aggregation for Lazy Clients.
AAAI 2024.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from turbosvm.algorithms.rules import MergedHead
from turbosvm.heads.merge import HeadState, merge_with
from turbosvm.heads.options import HeadOptions
from turbosvm.heads.warm import warm_up
from turbosvm.types import Moment, Weights


@dataclass(frozen=True)
class TurboSVM(HeadOptions):
    """The head rule; its hyperparameters are those of `HeadOptions`."""

    def init(self, embeddings: Tensor) -> Weights:
        """Return the optimiser's moments before the first step."""
        return self.server_optimiser.init(embeddings.to(torch.promote_types(embeddings.dtype, torch.float32)))

    def warm_up(self, embeddings: Tensor, clients: int) -> None:
        """Have the SVMs' compiled loops ready."""
        warm_up(self, embeddings, clients)

    def merge(self, embeddings: Tensor, clients: Tensor, samples: Tensor, state: Weights, moment: Moment) -> MergedHead:  # noqa: ARG002
        """Return the embeddings merged from the clients'."""
        before = HeadState(moment.round - 1, dict(state))
        merged = merge_with(self, clients, samples, before, moment.rounds, moment.seed)
        return MergedHead(merged.head, merged.state.moments, merged.diagnostics)
