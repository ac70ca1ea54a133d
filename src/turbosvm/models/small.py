"""A small CNN for the built-in glyphs: the shape of the paper's CNN for FEMNIST, at a sixtieth of its size."""

from torch import Tensor, nn


class SmallCNN(nn.Module):
    """Two 5x5 convolutions, one hidden linear layer, head. Input [B, 1, 28, 28].

    Pooling comes before ReLU: the same function (both are monotone), on a quarter of the numbers.

    Args:
        classes: K, 62 in glyphs.
        embedding: size of a class embedding, before the bias.
    """

    head_name = "head"

    def __init__(self, classes: int = 62, embedding: int = 128) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, kernel_size=5, padding="same"),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(8, 16, kernel_size=5, padding="same"),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * 7 * 7, embedding),
            nn.ReLU(),
        )
        self.head = nn.Linear(embedding, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits [B, K]."""
        return self.head(self.body(images))  # type: ignore[no-any-return]
