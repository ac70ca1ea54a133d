"""Trackers: TensorBoard, MLflow, Weights & Biases, or one's own."""
