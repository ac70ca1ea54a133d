"""Your own model and data in a federated comparison: `python examples/own_model_and_data.py`."""

import numpy as np
import torch
from torch import nn

import turbosvm

# Your data: for each user, inputs and labels. Here 40 users read three sensors, each with an offset of its own.
rng = np.random.default_rng(0)
centres = rng.normal(size=(5, 3)) * 3
samples = {}
for user in range(40):
    labels = rng.integers(0, 5, size=rng.integers(20, 60))
    offset = rng.normal(size=3) / 2
    readings = centres[labels] + offset + rng.normal(size=(len(labels), 3))
    samples[f"user-{user}"] = (readings.astype(np.float32), labels)
data = turbosvm.FederatedData.from_users(samples, classes=["rest", "walk", "run", "ride", "climb"], name="sensors")

# Your model: any module whose last layer is linear. That layer is the head; here it is called "2".
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 5))

comparison = turbosvm.compare(
    ["fedavg", "fedavgm", "turbosvm"],
    seeds=[0, 1, 2],
    data=data,
    model=model,
    head="2",
    rounds=40,
    target=0.8,
    client={"learning_rate": 0.05},
)
print(comparison.table.to_string(index=False))
comparison.plot("own_model_and_data.png")
print("Curves: own_model_and_data.png")
