"""The paper's CNN for FEMNIST (appendix, "Model Architectures"; LEAF's architecture): 6,603,710 parameters."""

from torch import Tensor, nn


class FemnistCNN(nn.Module):
    """Two 5x5 convolutions, one hidden linear layer, head. Input [B, 1, 28, 28].

    Pooling comes before ReLU: the same function (both are monotone), on a quarter of the numbers.

    Args:
        classes: K, 62 in FEMNIST.
        embedding: size of a class embedding (before the bias), 2048 in the paper's main tables.
    """

    head_name = "head"

    def __init__(self, classes: int = 62, embedding: int = 2048) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=5, padding="same"),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=5, padding="same"),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, embedding),
            nn.ReLU(),
        )
        self.head = nn.Linear(embedding, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits [B, K]."""
        return self.head(self.body(images))  # type: ignore[no-any-return]
