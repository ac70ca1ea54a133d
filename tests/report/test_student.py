import pytest
from scipy import stats

from turbosvm.report.student import Interval, interval, quantile


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 29, 100, 1001])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_quantiles_are_scipys(freedom: int, level: float) -> None:
    assert quantile(level, freedom) == pytest.approx(stats.t.ppf((1 + level) / 2, freedom), rel=1e-11)


def test_the_interval_is_scipys() -> None:
    values = [3.0, -1.0, 4.5, 2.0]
    found = interval(values)
    assert isinstance(found, Interval)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert (found.mean, found.n) == (2.125, 4)


def test_two_values_by_hand() -> None:
    found = interval([1.0, 3.0])  # mean 2, standard error 1, t of one degree of freedom 12.7062
    assert found is not None
    assert (found.low, found.high) == pytest.approx((2 - 12.7062, 2 + 12.7062), abs=1e-4)


def test_one_value_has_no_interval() -> None:
    assert interval([1.0]) is None
    assert interval([]) is None
