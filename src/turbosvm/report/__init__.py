"""Tables and pictures, made from records alone: nothing here needs PyTorch."""
