"""JSON that vouches for itself: an object with the SHA-256 of all else in it, so that any damage is noticed."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from turbosvm.bounded import parse_json

SEAL = "sha256"
"""The key of the digest, which comes last."""


def sealed(about: Mapping[str, Any]) -> str:
    """Return the text of an object, with its seal."""
    return json.dumps({**about, SEAL: seal_of(about)}, indent=1, allow_nan=False) + "\n"


def unsealed(content: bytes) -> dict[str, Any]:
    """Return the object of such a text, without its seal.

    Raises:
        ValueError: it is not what was written.
    """
    about = parse_json(content)
    if not isinstance(about, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 (the text is wrong, not the call)
    if SEAL not in about:
        raise ValueError(f"it has no {SEAL}")
    rest = {key: value for key, value in about.items() if key != SEAL}
    if about[SEAL] != seal_of(rest):
        raise ValueError(f"it is not what was written: its {SEAL} differs")
    return rest


def seal_of(about: Mapping[str, Any]) -> str:
    """Return the seal of an object."""
    return sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
