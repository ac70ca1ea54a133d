"""`nn.LSTM` with its recurrence in kernels of our own, for many small LSTMs side by side on one GPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from turbosvm.layers.lstm_cuda import Recurrence, fits

MOST_ROWS = 1024
"""Of larger batches, such as those of an evaluation, the products take most of the time, which cuDNN does best."""


class QuickLSTM(nn.LSTM):
    """An `nn.LSTM` on CUDA; what the kernels do not take goes the ordinary way."""

    def forward(self, inputs, state=None):  # type: ignore[no-untyped-def]
        """Return outputs and (h, c), as `nn.LSTM` does."""
        if state is not None or not isinstance(inputs, Tensor) or inputs.ndim != 3 or not self._taken(inputs):
            return super().forward(inputs, state)
        layer = inputs if self.batch_first else inputs.transpose(0, 1)
        hidden, cells = [], []
        for index in range(self.num_layers):
            weights = [getattr(self, f"{name}_l{index}") for name in ("weight_ih", "weight_hh")]
            biases = [getattr(self, f"{name}_l{index}") for name in ("bias_ih", "bias_hh")] if self.bias else []
            projected = functional.linear(layer, weights[0], sum(biases) if biases else None)
            layer, last = Recurrence.apply(projected, weights[1])  # type: ignore[no-untyped-call]
            hidden.append(layer[:, -1])
            cells.append(last)
        outputs = layer if self.batch_first else layer.transpose(0, 1)
        return outputs, (torch.stack(hidden), torch.stack(cells))

    def _taken(self, inputs: Tensor) -> bool:
        plain = not (self.bidirectional or self.proj_size or (self.dropout and self.training))
        plain = plain and not torch.is_autocast_enabled("cuda")
        plain = plain and inputs.shape[0 if self.batch_first else 1] <= MOST_ROWS
        return plain and inputs.is_cuda and inputs.dtype == torch.float32 and fits(self.hidden_size)
