import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turbosvm.data.windows import Places, Windows, as_segments
from turbosvm.errors import TurboSVMError

PAD = 9


def spelt_out(lines: list[list[int]], length: int) -> tuple[list[list[int]], list[int]]:
    """Every window of every line after a lead-in, the long way."""
    windows, labels = [], []
    for line in lines:
        padded = [PAD] * length + line
        windows += [padded[at : at + length] for at in range(len(line))]
        labels += line
    return windows, labels


def made_of(lines: list[list[int]], length: int) -> Windows:
    text = np.array([token for line in lines for token in [PAD] * length + line], dtype=np.uint8)
    return Windows(text, np.cumsum([0, *map(len, lines)]), length)


def own_tokens(counts: Places, length: int) -> Places:
    """Where text lies between lead-ins."""
    ends = np.cumsum(counts + length)
    return np.concatenate([np.arange(end - count, end) for end, count in zip(ends, counts, strict=True)] or [counts])


LINES = st.lists(st.lists(st.integers(0, 8), max_size=9), min_size=1, max_size=6)


@given(LINES, st.integers(1, 5))
def test_windows_and_labels_are_those_of_the_lines(lines: list[list[int]], length: int) -> None:
    windows = made_of(lines, length)
    expected, labels = spelt_out(lines, length)
    assert windows.shape == (len(labels), length)
    assert windows[:].tolist() == expected


def test_any_way_of_indexing_gives_the_same_windows() -> None:
    windows = made_of([[1, 2, 3, 4], [], [5, 6]], length=3)
    whole = np.asarray(windows)
    assert whole.tolist()[:2] == [[9, 9, 9], [9, 9, 1]]
    assert np.array_equal(windows[2:5], whole[2:5])
    assert np.array_equal(windows[::-2], whole[::-2])
    assert np.array_equal(windows[4], whole[4])
    assert np.array_equal(windows[-1], whole[-1])
    assert np.array_equal(windows[np.array([5, 0, 0, -2])], whole[[5, 0, 0, -2]])
    with pytest.raises(IndexError):
        windows[6]


@given(LINES, st.integers(1, 5), st.randoms(use_true_random=False))
def test_windows_in_any_order_become_text_and_back(lines: list[list[int]], length: int, random: object) -> None:
    windows, every_label = made_of(lines, length), np.array([label for line in lines for label in line], dtype=np.uint8)
    order = np.random.default_rng(random.randrange(2**32)).permutation(len(windows))  # type: ignore[attr-defined]
    for places in (np.arange(len(windows)), order):
        shown, labels = windows[places], every_label[places]
        text, counts = as_segments(shown, labels)
        again = Windows(text, np.concatenate([[0], np.cumsum(counts)]), length)
        assert np.array_equal(again[:], shown)
        assert np.array_equal(text[own_tokens(counts, length)], labels)


def test_whole_lines_cost_one_lead_in_each() -> None:
    windows = made_of([[1, 2, 3, 4, 5], [6, 7, 8]], length=4)
    text, counts = as_segments(windows[:], np.arange(1, 9, dtype=np.uint8))
    assert counts.tolist() == [5, 3]
    assert len(text) == 8 + 2 * 4


def test_a_text_of_another_length_is_refused() -> None:
    with pytest.raises(TurboSVMError, match="need a text of 7 tokens, not 6"):
        Windows(np.zeros(6, dtype=np.uint8), np.array([0, 5]), 2)
    with pytest.raises(TurboSVMError, match="rise from 0"):
        Windows(np.zeros(6, dtype=np.uint8), np.array([0, 5, 4]), 2)
