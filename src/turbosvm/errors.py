"""Errors that speak to the person: what was wrong, where, and what was expected."""

from collections.abc import Iterable
from difflib import get_close_matches

from turbosvm.visible import visible


class TurboSVMError(Exception):
    """Something the person can mend. Its text is one sentence; the command line ends with status 2 on it.

    What it quotes, such as names from files of others, is shown so that it can do nothing where it is printed.
    """

    def __str__(self) -> str:
        return visible(super().__str__())


def unknown(
    kind: str, name: str, allowed: Iterable[str], guesses: Iterable[str] = (), where: str = "", inside: str = ""
) -> TurboSVMError:
    """Build the error for a name that is not among the allowed ones, with a guess at what was meant.

    `guesses` are names that are allowed, too, but too many to list. `where` says what the names are of ("in the grid");
    `inside` is the key that those of a config stand under.
    """
    names = sorted(allowed)
    close = get_close_matches(str(name).lower(), [*names, *guesses], n=1, cutoff=0.55)
    before, among = (f"{inside}.", f" in '{inside}'") if inside else ("", "")
    guess = f" Did you mean '{before}{close[0]}'?" if close else ""
    of = f" {where}" if where else ""
    return TurboSVMError(f"Unknown {kind} '{before}{name}'{of}; allowed{among}: {', '.join(names)}.{guess}")


def in_one_line(error: BaseException) -> str:
    """Say an error of somebody else's code (a library, a person's own model) in one line."""
    try:
        return visible(f"{type(error).__name__}: {error}".splitlines()[0])
    except Exception:  # its text is somebody else's code, too
        return type(error).__name__
