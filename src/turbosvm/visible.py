"""Text of others, shown so that it can do nothing: whatever steers a terminal or hides letters is spelt out."""

from unicodedata import category

JOINERS = "\u200c\u200d"
"""Letters that cannot be seen, but belong to how some languages, and pictograms, are written."""


def visible(text: str) -> str:
    """Return a text on one line, with control characters, and those that turn its direction, as `\\x1b`, `\\u202e`."""
    return text if text.isprintable() else "".join(map(_visible_letter, text))


def _visible_letter(letter: str) -> str:
    if letter.isprintable() or letter in JOINERS or category(letter) == "Zs":
        return letter
    return letter.encode("unicode_escape").decode()
