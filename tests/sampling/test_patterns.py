import pytest
import torch
from suites import check_pattern

from promask.errors import InputError
from promask.operators.fourier import fft_order
from promask.sampling.pattern import Pattern

ALL = [
    Pattern((6, 8), (0, 1)),
    Pattern((6, 8), (0,)),
    Pattern((6, 8), (1,)),
    Pattern((5, 6, 7), (0, 1, 2)),
    Pattern((5, 6, 7), (0, 2)),
    Pattern((5, 6, 7), (1,)),
    Pattern((1, 1), (0, 1)),
    Pattern((6, 8), (1,), extent=((0, 6), (1, 6))),
    Pattern((6, 8), (0, 1), extent=((2, 6), (0, 5))),
    Pattern((4, 6, 8), (0, 1), indexed="frame"),
    Pattern((4, 6, 8), (1,), indexed="frame"),
    Pattern((4, 6, 8), (0, 1, 2), indexed="contrast"),
    Pattern((6, 5, 8), (0, 2), indexed="frame", period=3, extent=((0, 6), (0, 5), (1, 7))),
]


@pytest.mark.parametrize("pattern", ALL, ids=str)
def test_properties(pattern):
    check_pattern(pattern)


def test_names_count_the_free_axes_and_take_the_last_ones():
    assert Pattern.named("2d", (4, 6)).free == (0, 1)
    assert Pattern.named("1d", (4, 6)).free == (1,)
    assert Pattern.named("1d", (4, 6), axis=[0]).free == (0,)
    assert Pattern.named("1d", (4, 6), axis=[-2]).free == (0,)
    assert Pattern.named("2d", (3, 4, 6), axis=[2, 0]).free == (0, 2)
    assert Pattern.named("3d", (3, 4, 6)).free == (0, 1, 2)


def test_lines_are_whole():
    mask = Pattern((3, 4), (1,)).expand(torch.tensor([True, False, False, True]))
    assert mask.tolist() == [[True, False, False, True]] * 3


@pytest.mark.parametrize(
    ("acceleration", "budget"), [(1, 48), (4, 12), (5, 9), (7.5, 6), (48, 1), (1.01, 47), (48 / 47, 47)]
)
def test_budget_is_the_floor(acceleration, budget):
    assert Pattern((6, 8), (0, 1)).budget(acceleration) == budget


def test_rounding_does_not_lose_a_unit():
    """33 / 1.1 is 30, though not in floating point; and an achieved acceleration gives its own budget again."""
    assert Pattern((3, 11), (0, 1)).budget(1.1) == 30
    for units in (192, 256, 43008):
        pattern = Pattern((units,), (0,))
        assert all(pattern.budget(units / budget) == budget for budget in range(1, min(units, 3000)))


@pytest.mark.parametrize(
    ("shape", "free"), [((7,), (0,)), ((6, 8), (0, 1)), ((5, 8), (0, 1)), ((4, 3, 6), (1, 2))]
)
def test_one_of_two_conjugate_twins_lies_in_the_half(shape, free):
    pattern = Pattern(shape, free)
    half = fft_order(pattern.half(), len(free))
    axes = tuple(range(len(free)))
    twins = half.flip(axes).roll([1] * len(free), axes)  # from k to -k
    torch.testing.assert_close(twins, -half)
    index = torch.arange(half.numel()).reshape(half.shape)
    torch.testing.assert_close(half == 0, index == index.flip(axes).roll([1] * len(free), axes))


@pytest.mark.parametrize("acceleration", [0.99, 0, -1, 48.1, float("nan"), float("inf")])
def test_impossible_accelerations(acceleration):
    with pytest.raises(InputError, match="from 1 to 48, the number of samples or lines"):
        Pattern((6, 8), (0, 1)).budget(acceleration)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pattern((4, 6), ()), "do not fit"),
        (lambda: Pattern((4, 6), (2,)), "do not fit"),
        (lambda: Pattern((4, 6), (1, 0)), "increasing"),
        (lambda: Pattern.named("4d", (4, 6)), "Unknown pattern '4d'"),
        (lambda: Pattern.named("3d", (4, 6)), "needs 3 axes"),
        (lambda: Pattern.named("1d", (4, 6), axis=[0, 1]), "frees 1 of the axes"),
        (lambda: Pattern.named("1d", (4, 6), axis=[2]), "do not fit"),
        (lambda: Pattern.named("2d", (4, 6), axis=[0, 0]), "increasing and different"),
        (lambda: Pattern((4, 6), (1,)).restrict(torch.eye(4, 6)), "whole units"),
        (lambda: Pattern((4, 6), (1,)).restrict(torch.ones(6, 4)), "does not fit"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_padding_is_neither_counted_nor_chosen():
    """fastMRI's widths: 332 of 372 columns were measured, those from 20 on."""
    pattern = Pattern((4, 372), (1,), extent=((0, 4), (20, 352)))
    assert pattern.units == 332
    assert pattern.budget(4) == 83
    assert pattern.budget(1) == 332
    values = torch.arange(372.0)
    chosen = pattern.largest(values, 10)
    assert chosen.nonzero().flatten().tolist() == list(range(342, 352))
    assert pattern.padding().nonzero().flatten().tolist() == [*range(20), *range(352, 372)]
    assert pattern.centre(400).sum() == 332


@pytest.mark.parametrize("extent", [((0, 6),), ((0, 6), (3, 3)), ((0, 6), (0, 9)), ((-1, 6), (0, 8))])
def test_an_extent_that_does_not_fit(extent):
    with pytest.raises(InputError, match="does not fit k-space of shape"):
        Pattern((6, 8), (1,), extent)
