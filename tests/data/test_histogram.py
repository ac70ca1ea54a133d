import io

import numpy as np
import pytest

from turbosvm.data.histogram import PLAIN_BLOCKS, bar, draw, histogram, lines, pillars


def test_few_different_counts_get_a_bin_each() -> None:
    bars = histogram(np.array([5, 7, 7, 8]))
    assert bars.names == ("5", "6", "7", "8")
    assert bars.users == (1, 0, 2, 1)


def test_bins_have_round_widths_and_begin_at_round_numbers() -> None:
    bars = histogram(np.array([33, 120, 121, 324]))
    assert bars.edges == tuple(range(20, 360, 20))
    assert bars.names[0] == "20 - 39"
    assert bars.users[0] == 1
    assert bars.users[5] == 2


def test_a_long_tail_ends_in_an_open_bin() -> None:
    bars = histogram(np.concatenate([np.arange(1000), [50_000]]))
    assert bars.open_end
    assert bars.names[-1] == "1,000 and more"
    assert bars.users[-1] == 1
    assert sum(bars.users) == 1001


@pytest.mark.parametrize("counts", [[], [0, 0], [7], [0, 10**12], [3] * 99 + [10**9]])
def test_every_user_is_in_one_bin(counts: list[int]) -> None:
    bars = histogram(np.array(counts, dtype=np.int64))
    assert sum(bars.users) == len(counts)
    assert len(bars.names) == len(bars.users) <= 21


def test_lines_show_bins_bars_and_numbers() -> None:
    bars = histogram(np.array([5, 7, 7, 8]))
    assert lines(bars, width=4) == ["5 ██ 1", "6  0", "7 ████ 2", "8 ██ 1"]
    assert lines(bars, width=4, blocks=PLAIN_BLOCKS)[2] == "7 #### 2"


def test_a_bar_has_eighths_and_what_is_there_can_be_seen() -> None:
    assert bar(0.5, 3) == "█▌"
    assert bar(1e-9, 3) == "▏"
    assert bar(0, 3) == ""
    assert pillars([0, 1, 400, 800]) == " ▁▄█"


def test_the_picture_has_a_bar_for_each_bin_and_names_the_tail() -> None:
    counts = np.concatenate([np.arange(1000), [50_000]])
    bars = histogram(counts)
    figure = draw(bars, counts, "some $ data $")
    (panel,) = figure.axes
    assert [patch.get_height() for patch in panel.patches] == list(bars.users)  # type: ignore[attr-defined]
    assert [text.get_text() for text in panel.texts] == ["1,000 and more\n(up to 50,000)", "mean 549.0"]
    figure.savefig(io.BytesIO(), format="png")
