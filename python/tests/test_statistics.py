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


@pytest.mark.parametrize("seed", range(3))
def test_ratio_of_pairs(seed):
    draw = random.Random(100 + seed)
    base = [draw.lognormvariate(0, 0.3) for _ in range(25)]
    variant = [b * draw.gauss(1.1, 0.1) for b in base]
    value, ours, p, effect = _wattif.ratio(variant, base)
    differences = [v - b for v, b in zip(variant, base)]
    theirs = stats.bootstrap(
        (variant, base),
        lambda v, b, axis: v.mean(axis=axis) / b.mean(axis=axis),
        paired=True,
        n_resamples=20_000,
        method="BCa",
        rng=1,
    )
    low, high = theirs.confidence_interval
    assert value == pytest.approx(sum(variant) / sum(base))
    assert ours == pytest.approx((low, high), abs=0.08 * (high - low))
    expected = stats.permutation_test(
        (variant, base), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", n_resamples=20_000, rng=1
    )
    assert p == pytest.approx(expected.pvalue, abs=0.01)
    # d of paired samples is Student's t of them, over the root of n.
    assert effect == pytest.approx(stats.ttest_1samp(differences, 0).statistic / 25**0.5)


def test_too_few_values_have_no_interval():
    assert _wattif.statistics([1.0, 2.0, 3.0])[0] is None
    assert _wattif.statistics([1.0, 2.0, 3.0, 4.0])[0] is not None
