"""Names that mean something wherever configs are read: by runs, and by reports, which know nothing of runs."""

from turbosvm.errors import TurboSVMError

OWN = "(own) "
"""In front of the names of data and models that were handed over in Python, and that no config can bring back."""
HOW = ("device", "threads", "engine", "client_memory_mb", "checkpoint_every", "trackers")
"""Settings that say how a run is computed, not what."""
CHANGES_NO_BIT = ("client_memory_mb", "checkpoint_every", "trackers")
"""Those of them that no number depends on, not even in its last bit."""


def refuse_own(name: str, argument: str) -> None:
    """Explain, where a saved config names such a thing, why it cannot be built."""
    if name.startswith(OWN):
        raise TurboSVMError(f"'{name}' was handed over in Python, so it must be handed over again ({argument}=...).")
