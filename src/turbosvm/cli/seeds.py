"""Seeds on the command line."""

from turbosvm.errors import TurboSVMError


def parse_seeds(text: str) -> list[int]:
    """Turn '0,1,2' into seeds, each once."""
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise TurboSVMError(f"Seeds '{text}' are not whole numbers with commas between them, e.g. 0,1,2.") from error
    return list(dict.fromkeys(seeds))
