"""How data and models are called that were handed over in Python, and that no config can bring back."""

from turbosvm.errors import TurboSVMError

OWN = "(own) "


def refuse_own(name: str, argument: str) -> None:
    """Explain, where a saved config names such a thing, why it cannot be built."""
    if name.startswith(OWN):
        raise TurboSVMError(f"'{name}' was handed over in Python, so it must be handed over again ({argument}=...).")
