"""Data sets from the Hugging Face hub, through its own client library, which keeps what it has fetched."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from turbosvm.errors import TurboSVMError, in_one_line

PREFIX = "hub:"
REPOSITORIES = {
    "femnist": "flwrlabs/femnist",
    "celeba": "flwrlabs/celeba",
    "shakespeare": "flwrlabs/shakespeare",
}
PATTERNS = ["*.parquet", "*.csv"]
PATIENCE = 10.0


@dataclass(frozen=True)
class HubPlace:
    """A data set of the hub: its repository, and the revision of it."""

    repository: str
    revision: str = "main"

    def __str__(self) -> str:
        return f"{PREFIX}{self.repository}" + (f"@{self.revision}" if self.revision != "main" else "")


def parse(text: str, task: str) -> HubPlace:
    """Understand 'hub:', 'hub:OWNER/NAME' or 'hub:OWNER/NAME@REVISION'; the task has a repository of its own."""
    repository, _, revision = text.removeprefix(PREFIX).partition("@")
    repository = repository or REPOSITORIES.get(task, "")
    if repository.count("/") != 1 or not all(repository.split("/")):
        raise TurboSVMError(f"'{text}' names no data set of the hub; write hub:OWNER/NAME, or hub:OWNER/NAME@REVISION.")
    return HubPlace(repository, revision or "main")


def fetch(place: HubPlace, offline: bool) -> Path:
    """Fetch the tables of a repository; without a network, find them among those fetched before."""
    from huggingface_hub import HfApi, errors, snapshot_download

    download = partial(
        snapshot_download, place.repository, repo_type="dataset", revision=place.revision, allow_patterns=PATTERNS
    )
    unreachable: Exception | None = None
    try:
        if not offline:  # asked here first, as the client would wait for ever for a server that does not answer
            HfApi().dataset_info(place.repository, revision=place.revision, timeout=PATIENCE)
    except errors.GatedRepoError as error:
        raise TurboSVMError(
            f"{place} wants its terms accepted on its page, and you signed in on this machine (hf auth login)."
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError) as error:
        raise TurboSVMError(f"{place} is not on the hub, or not for everyone to see.") from error
    except Exception as error:  # the hub's client and what it talks through have errors of many kinds
        unreachable = error
    try:
        folder = Path(download(local_files_only=offline or unreachable is not None))
    except Exception as error:
        why = "--offline forbids it" if offline else f"the hub cannot be reached ({in_one_line(unreachable or error)})"
        raise TurboSVMError(
            f"{place} has not been fetched to this machine yet, and {why}. Fetch it once where there is a network, or "
            "give the path of its files (--from PATH)."
        ) from error
    if missing := _missing(folder):
        raise TurboSVMError(f"Only a part of {place} is on this machine: {missing} is missing; fetch it again.")
    return folder


def _missing(folder: Path) -> str | None:
    """The first of the parts, numbered as in 'train-00000-of-00003.parquet', that is not there."""
    for file in sorted(folder.rglob("*-of-*")):
        if found := re.fullmatch(r"(.*)-(\d+)-of-(\d+)(\.\w+)", file.name):
            stem, number, parts, suffix = found.groups()
            for part in range(int(parts)):
                name = f"{stem}-{part:0{len(number)}}-of-{parts}{suffix}"
                if not file.with_name(name).exists():
                    return name
    return None
