"""What to call runs where a person reads of several."""

from collections.abc import Mapping
from pathlib import Path

from turbosvm.experiment.config import Config
from turbosvm.report.records import data_name
from turbosvm.report.settings import labels_of, settings_of


def run_labels(configs: Mapping[Path, Config]) -> dict[Path, str]:
    """Name runs by their data where there are several sets, algorithm, the settings in which they differ, and seed."""
    names = {path: data_name(config.model_dump()) for path, config in configs.items()}
    labels: dict[Path, str] = {}
    for name in dict.fromkeys(names.values()):
        same = {path: config for path, config in configs.items() if names[path] == name}
        kinds = labels_of([(config.algorithm.name, settings_of(config.model_dump())) for config in same.values()])
        before = f"{name} " if len(set(names.values())) > 1 else ""
        for (path, config), kind in zip(same.items(), kinds, strict=True):
            labels[path] = f"{before}{kind} seed {config.seed}"
    if len(set(labels.values())) < len(labels):  # say, sets of one name in two places
        return {path: f"{label} ({path.name})" for path, label in labels.items()}
    return {path: labels[path] for path in configs}
