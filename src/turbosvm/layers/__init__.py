"""Layers that compute what PyTorch's do, with the same parameters, in less time."""
