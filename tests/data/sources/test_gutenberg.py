"""LEAF's rule for the Gutenberg text, on a small text in its manner, and on the lines that make the rule needed."""

from pathlib import Path

import numpy as np
import pytest

from turbosvm.data.sources.gutenberg import lines_by_user, read_text
from turbosvm.data.sources.text import VOCABULARY, encode
from turbosvm.errors import TurboSVMError

TEXT = """First line, which never counts

THE SONNETS

by William Shakespeare

  Nobody. This is before the second title,
    and so it does not count.
    Not at all.
    At all.


THE KITCHEN, A PLAY OF SOUP


by William Shakespeare

  Cook. What's burning?
  Boy. No, look yourself. Open that and tell me.
    And quickly.
  Cook. Long may it simmer!
                Enter a Cat.
  BOY. Carrots?
  Cook. He.
 not indented enough
  Once. One line,
    and two.

THE COMEDY OF ERRORS

by William Shakespeare

DUKE. Baker of the village,
knead no more;

I am not hungry.
<<A notice of the publisher>>
which is nobody's
BAKER. Pray,
my lord,
taste one more roll.
ACT II. Scene 1
is not a person

ALONE

by William Shakespeare

  Self. One
    two
    three
"""


def test_speakers_and_lines_are_those_of_leafs_rule() -> None:
    assert lines_by_user(TEXT) == {
        "THE_KITCHEN__A_PLAY_OF_SOUP_COOK": [
            "What's burning?",
            "Long may it simmer!",
            "            Enter a Cat.",
            "He.",
        ],
        "THE_KITCHEN__A_PLAY_OF_SOUP_BOY": [
            "No, look yourself. Open that and tell me.",
            "And quickly.",
            "Carrots?",
        ],
        "THE_COMEDY_OF_ERRORS_DUKE": ["Baker of the village,", "knead no more;", "", "I am not hungry."],
        "THE_COMEDY_OF_ERRORS_BAKER": ["Pray,", "my lord,", "taste one more roll."],
    }


def test_a_users_lines_are_one_text_with_single_spaces(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT.replace("Baker of the village,", "Baker  of   the village, " + "x" * 80))
    chunks = {chunk.user: chunk for chunk in read_text(tmp_path / "a.txt")}
    text = f"Baker of the village, {'x' * 80} knead no more; I am not hungry. "
    duke = chunks["THE_COMEDY_OF_ERRORS_DUKE"]
    assert np.array_equal(duke.inputs, encode(text))
    assert np.array_equal(duke.labels, encode(text)[80:])
    assert duke.segments is not None
    assert duke.segments.tolist() == [len(text) - 80]
    assert not len(chunks["THE_COMEDY_OF_ERRORS_BAKER"].labels)  # these few characters are no window


def test_every_character_has_its_token() -> None:
    assert len(VOCABULARY) == 80
    assert encode(VOCABULARY).tolist() == list(range(80))
    assert encode("aé~\ud800a").tolist() == [53, 255, 255, 255, 53]


def test_a_strange_character_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT.replace("my lord", "my l*rd"))
    (bad,) = [sentence for chunk in read_text(tmp_path / "a.txt") for sentence in chunk.bad]
    assert bad == (
        "a.txt: user 'THE_COMEDY_OF_ERRORS_BAKER', in the line 'my l*rd,': '*' is not one of LEAF's 80 characters."
    )


@pytest.mark.parametrize("text", ["", "by William Shakespeare\n" * 3, TEXT.replace("by William", "by Bill")])
def test_another_text_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(TurboSVMError, match=r"a\.txt has no plays that LEAF's rule finds"):
        list(read_text(tmp_path / "a.txt"))
