"""The paper's CNN for CelebA (appendix, "Model Architectures"; LEAF's architecture), with BatchNorm."""

from torch import Tensor, nn


class CelebaCNN(nn.Module):
    """Four blocks of 3x3 convolution, BatchNorm, pooling and ReLU; 800 features; head. Input [B, 3, 84, 84].

    Args:
        classes: K, 2 in the paper (smiling or not).
    """

    head_name = "head"

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.body = nn.Sequential(_block(3), _block(32), _block(32), _block(32), nn.Flatten())
        self.head = nn.Linear(32 * 5 * 5, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits [B, K]."""
        return self.head(self.body(images))  # type: ignore[no-any-return]


def _block(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 32, kernel_size=3, padding="same"),
        nn.BatchNorm2d(32),
        nn.MaxPool2d(2),
        nn.ReLU(),
    )
