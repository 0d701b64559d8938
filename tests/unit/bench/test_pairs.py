from __future__ import annotations

from pairs import FEWEST, Comparison, compare


def test_the_ratio_is_the_median_of_the_pairs_not_of_the_rates():
    result = Comparison(ours=[50.0, 100.0, 10.0], base=[100.0, 100.0, 100.0])
    assert result.ratios == [0.5, 1.0, 0.1]
    assert result.as_dict() == {
        "ratio": 0.5,
        "ratio_min": 0.1,
        "ratio_max": 1.0,
        "pairs": 3,
        "per_s": 50,
        "base_per_s": 100,
    }
    assert str(result) == "ratio 0.50  (0.10 to 1.00, 3 pairs)   50 /s against 100 /s"


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
