"""Text of others can do nothing where it is shown."""

import sys
from unicodedata import category

import pytest

from turbosvm.errors import TurboSVMError, in_one_line
from turbosvm.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b2J", "\\x9b2J"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("\u202etxt.exe\u2066\u2069", "\\u202etxt.exe\\u2066\\u2069"),
        ("\udc80\0\x7f\u2028", "\\udc80\\x00\\x7f\\u2028"),
        ("\u200f\u200b\ufeff\U000e0041", "\\u200f\\u200b\\ufeff\\U000e0041"),
        *[(kept, kept) for kept in ("a±b é 中文", "\u0645\u06cc\u200c\u062e", "👩\u200d🔬", "10\u00a0%")],
    ],
)
def test_what_steers_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


def test_no_letter_steers_a_terminal_or_turns_text() -> None:
    for letter in map(chr, range(sys.maxunicode + 1)):
        if category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter not in "\u200c\u200d":
            assert visible(letter).isascii(), hex(ord(letter))


def test_errors_show_what_they_quote() -> None:
    assert str(TurboSVMError("Unknown '\x1b[2J\u202e'.")) == "Unknown '\\x1b[2J\\u202e'."
    assert in_one_line(ValueError("\x1b]0;x\x07")) == "ValueError: \\x1b]0;x\\x07"
