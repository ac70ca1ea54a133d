"""Whether a model has diverged, or only some of the samples that it is measured on are at fault."""

import math
from collections.abc import Mapping
from typing import Any

SAMPLES, OF, USER = "not_finite_samples", "not_finite_of", "not_finite_user"
"""Columns of a round's record, where there is something to tell: how many held-out samples got logits that are not
finite, of how many, and the user whose sample was the first."""


def has_diverged(record: Mapping[str, Any]) -> bool:
    """Whether an evaluated round's loss is not a number, and that is the model's fault: for most samples it is so.

    Records of older versions do not tell for how many. What is right is finite, so accuracy tells enough.
    """
    loss = record.get("loss")
    if loss is not None and math.isfinite(loss):
        return False
    if count_of(record) == 0:
        return float(record["accuracy"]) <= 0.5
    return 2 * count_of(record) > int(record[OF])


def count_of(record: Mapping[str, Any]) -> int:
    """How many samples got logits that are not finite; 0 where nothing is told of that."""
    told = record.get(SAMPLES)
    return 0 if told is None or math.isnan(told) else int(told)


def why_not_finite(record: Mapping[str, Any]) -> str:
    """Say of a model that has not diverged why its loss is not a number, or nothing if it is one."""
    if count := count_of(record):
        share = f"{count:,} of {int(record[OF]):,} held-out samples"
        return f"its answers are not finite for {share}, first of user '{record[USER]}'; these count as wrong"
    loss = record.get("loss")
    known = loss is not None and math.isfinite(loss)
    return "" if known or has_diverged(record) else "its loss is not finite, though most of its answers are right"
