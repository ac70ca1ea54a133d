"""The paper's stacked LSTM for Shakespeare (appendix, "Model Architectures"; LEAF's architecture)."""

from torch import Tensor, nn


class ShakespeareLSTM(nn.Module):
    """Characters embedded in 8 numbers, two LSTM layers of 256, head on the last step. Input [B, T] of tokens.

    Args:
        classes: K, the size of the vocabulary; 80 in LEAF.
    """

    head_name = "head"

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, 8)
        self.lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits [B, K] for the character after the last one."""
        outputs, _ = self.lstm(self.embedding(tokens))
        return self.head(outputs[:, -1])  # type: ignore[no-any-return]
