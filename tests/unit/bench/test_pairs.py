from __future__ import annotations

from pairs import FEWEST, Comparison, compare, compare_all


def test_the_ratio_is_the_median_of_the_pairs_not_of_the_rates():
    result = Comparison(ours=[50.0, 100.0, 10.0], base=[100.0, 100.0, 100.0])
    assert result.ratios == [0.5, 1.0, 0.1]
    assert result.as_dict() == {
        "ratio": 0.5,
        "ratio_low": 0.1,
        "ratio_high": 1.0,
        "pairs": 3,
        "per_s": 50,
        "base_per_s": 100,
    }
    assert str(result) == "ratio 0.50  (95 %: 0.10 to 1.00, 3 pairs)   50 /s against 100 /s"


def measured(seconds, most=15):
    order = []

    def ours():
        order.append("A")
        return 1.0

    def base():
        order.append("B")
        return 2.0

    return compare(ours, base, seconds=seconds, most=most), "".join(order)


def test_the_two_take_turns_in_going_first_after_a_pair_that_does_not_count():
    result, order = measured(seconds=60, most=4)
    assert order == "AB" + "AB" + "BA" + "AB" + "BA"
    assert result.ratios == [0.5] * 4


def test_there_are_never_too_few_pairs():
    result, _ = measured(seconds=0)
    assert len(result.ratios) == FEWEST


def test_the_interval_leaves_out_what_chance_allows():
    def interval(pairs):
        return Comparison(ours=[float(n) for n in range(1, pairs + 1)], base=[1.0] * pairs).interval

    # Order statistics of the binomial distribution: Conover, Practical Nonparametric Statistics, table A3.
    assert interval(5) == (1.0, 5.0)
    assert interval(6) == (1.0, 6.0)
    assert interval(9) == (2.0, 8.0)
    assert interval(15) == (4.0, 12.0)


def test_several_rates_are_measured_in_one_pair():
    results = compare_all(lambda: {"a": 1.0, "b": 3.0}, lambda: {"a": 2.0, "b": 2.0}, seconds=0)
    assert results["a"].ratios == [0.5] * FEWEST
    assert results["b"].ratios == [1.5] * FEWEST
