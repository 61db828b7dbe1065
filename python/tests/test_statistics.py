"""Our statistics against scipy's."""

import random

import pytest
from scipy import stats
from wattif import _wattif


@pytest.mark.parametrize("seed", range(5))
def test_bca_interval_of_the_mean(seed):
    draw = random.Random(seed)
    values = [draw.lognormvariate(0, 0.5) for _ in range(30)]
    ours, _, _ = _wattif.statistics(values)
    theirs = stats.bootstrap((values,), lambda v, axis: v.mean(axis=axis), n_resamples=20_000, method="BCa", rng=1)
    low, high = theirs.confidence_interval
    # Two bootstraps with different draws: ends agree within a few per cent of the width.
    assert ours == pytest.approx((low, high), abs=0.08 * (high - low))


@pytest.mark.parametrize("n", [6, 10, 40])
def test_paired_permutation(n):
    draw = random.Random(n)
    values = [draw.gauss(0.4, 1) for _ in range(n)]
    _, ours, _ = _wattif.statistics(values)
    theirs = stats.permutation_test(
        (values,),
        lambda v, axis: v.mean(axis=axis),
        permutation_type="samples",
        n_resamples=20_000,
        vectorized=True,
        rng=1,
    )
    assert ours == pytest.approx(theirs.pvalue, abs=1e-9 if n <= 10 else 0.015)


def test_holm_step_down():
    p = [0.01, 0.04, 0.03, 0.005, 0.2]
    _, _, ours = _wattif.statistics(p)
    order = sorted(range(5), key=p.__getitem__)
    expected, least = [0.0] * 5, 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, p[i] * (5 - rank)))
        expected[i] = least
    assert ours == pytest.approx(expected)
