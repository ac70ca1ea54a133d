from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from turbosvm.data import contact_sheet, text_sheet
from turbosvm.data.federated import FederatedData
from turbosvm.data.windows import Windows

LETTERS = "\n abcdefgh"
LENGTH = 8


def told(texts: dict[str, list[str]], lead_in: str = " " * LENGTH) -> FederatedData:
    """Users with lines of text, each a segment after the same lead-in."""
    lines = [line for own in texts.values() for line in own]
    text = np.array([LETTERS.index(letter) for line in lines for letter in lead_in + line], dtype=np.uint8)
    segments = np.concatenate([[0], np.cumsum([len(line) for line in lines])])
    offsets = np.concatenate([[0], np.cumsum([sum(map(len, own)) for own in texts.values()])])
    windows = Windows(text, segments, LENGTH)
    labels = np.array([LETTERS.index(letter) for line in lines for letter in line], dtype=np.uint8)
    return FederatedData("told", windows, labels, offsets, tuple(texts), tuple(LETTERS), tokens=True)


def test_a_line_shows_the_window_the_guess_and_what_follows() -> None:
    (line,) = text_sheet.lines(told({"u": ["abc\ndef", "hhh"]}, lead_in="aabbccdd"))
    assert (line.user, line.lead_in, line.before, line.guess, line.after) == ("u", 0, "aabbccdd", "a", "bc↵def")


def test_an_empty_lead_in_is_counted_and_a_later_sample_taken() -> None:
    (line,) = text_sheet.lines(told({"u": ["abc def", "hhh"]}))
    assert (line.lead_in, line.before, line.guess, line.after) == (4, "    abc ", "d", "ef")


def test_a_space_to_guess_can_be_seen() -> None:
    (line,) = text_sheet.lines(told({"u": ["abcd efgh"]}))
    assert (line.before, line.guess, line.after) == ("    abcd", "␣", "efgh")


def test_users_come_from_all_over_the_data_and_have_samples() -> None:
    data = told({f"u{place}": [] if place == 40 else ["abc"] for place in range(41)})
    shown = [line.user for line in text_sheet.lines(data)]
    assert len(shown) == 16
    assert (shown[0], shown[-1]) == ("u0", "u39")


def test_characters_go_from_the_most_frequent_on() -> None:
    shares = text_sheet.shares(told({"u": ["aab", "a"], "v": ["cc\na"]}))
    assert shares[:4] == (("a", 0.5), ("c", 0.25), ("\n", 0.125), ("b", 0.125))
    assert shares[4] == (" ", 0.0)


@pytest.mark.parametrize(("character", "shown"), [("\n", "↵"), (" ", "␣"), ("a", "a"), ("<pad>", "□"), ("\x07", "□")])
def test_every_character_can_be_seen(character: str, shown: str) -> None:
    assert text_sheet.sign(character) == shown


def test_long_names_are_shortened_in_the_middle_until_they_fit() -> None:
    name = "THE_TRAGEDY_OF_HAMLET_PRINCE_OF_DENMARK_ROSENCRANTZ"
    short = text_sheet.fitted(name, 120)
    assert text_sheet.pixels(short) <= 120 < text_sheet.pixels(name)
    begin, end = short.split("…")
    assert name.startswith(begin)
    assert name.endswith(end)
    assert abs(len(begin) - len(end)) <= 1
    assert text_sheet.fitted(short, 120) == short
    assert text_sheet.fitted(name, 1) == "…"


def test_text_gets_a_sheet(tmp_path: Path) -> None:
    contact_sheet.save(tmp_path / "sheet.png", told({f"$user$ {place}": ["abc def\n"] for place in range(3)}))
    picture = imread(tmp_path / "sheet.png")
    assert picture.shape[0] == 44 + 3 * 24 + 14
    left_half = picture[:, : picture.shape[1] // 2, :3]
    blue = np.all(np.abs(left_half - np.array([0, 0x72, 0xB2]) / 255) < 0.01, axis=-1)
    guesses = np.any(blue, axis=1)
    assert np.diff(guesses.astype(int)).clip(0).sum() == 3  # a box in each of three rows
