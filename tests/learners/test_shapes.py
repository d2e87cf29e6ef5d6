"""Masks of a few numbers: budget, block and padding hold for all of them, each map does what its name says."""

import pytest
import torch
from masks import PATTERNS

from helpers import samples_of, seeded, smooth_images
from promask.baselines import baseline_mask
from promask.data.arrays import from_images
from promask.learners.shape_race import log_energy, shapes
from promask.operators.fourier import centred, fft_order
from promask.sampling.pattern import Pattern

GRIDS = {
    **{name: PATTERNS[name] for name in ("locations", "columns", "odd", "padded lines", "padded locations")},
    "volume": Pattern((6, 7, 5), (0, 1, 2)),
    "lines in a volume": Pattern((6, 7, 5), (0, 2)),
}
SQUARE = Pattern((15, 15), (0, 1))


def random_energy(pattern, seed=0):
    """In FFT order, falling from the centre."""
    noise = torch.randn(pattern.unit_shape, generator=seeded(seed), dtype=torch.float64)
    return fft_order(torch.exp(noise - 5 * pattern.distance()), len(pattern.free))


def family(pattern, energy, acceleration=4, centre=0):
    axes = len(pattern.free)
    always, never = (fft_order(units, axes) for units in (pattern.centre(centre), pattern.padding()))
    return shapes(log_energy(energy), pattern, pattern.budget(acceleration), always, never)


def random_weights(of, seed, size=1.0):
    return size * torch.randn(len(of.names), generator=seeded(seed))


def chosen(of, **weights):
    return of.mask(of.weights(**weights)) > 0


def reflected(units, axes):
    """The unit at -k instead of k, along these axes, in FFT order."""
    return units.flip(axes).roll([1] * len(axes), axes)


@pytest.mark.parametrize("pattern", GRIDS.values(), ids=GRIDS)
def test_budget_block_and_padding_hold_for_any_weights(pattern):
    """Also for weights far larger than learning ever comes to."""
    axes = len(pattern.free)
    energy = random_energy(pattern)
    always, never = fft_order(pattern.centre(2), axes), fft_order(pattern.padding(), axes)
    energy[always], energy[never] = 1e-9, 1e9  # the wrong way round
    of = family(pattern, energy, acceleration=2.5, centre=2)
    free = set()
    for seed in range(20):
        mask = of.mask(random_weights(of, seed, size=1 + seed))
        assert mask.shape == pattern.unit_shape
        assert ((mask == 0) | (mask == 1)).all()
        assert int(mask.sum()) == pattern.budget(2.5)
        assert (mask[always] == 1).all()
        assert not mask[never].any()
        free.add(tuple(mask.flatten().tolist()))
        score = of.score(random_weights(of, seed))
        assert torch.equal(score[always | never], of.base[always | never]), "no weight has a say there"
    assert len(free) > 2, "the weights say something about the rest"
    assert all(int(of.mask(weights).sum()) == pattern.budget(2.5) for weights in of.candidates())


@pytest.mark.parametrize("centre", [0, 3])
@pytest.mark.parametrize("pattern", GRIDS.values(), ids=GRIDS)
def test_without_weights_it_is_the_energy_mask(pattern, centre):
    images = smooth_images(3, channels=2, size=pattern.shape)
    of = family(pattern, samples_of(images).mean_energy(pattern), acceleration=3, centre=centre)
    data = from_images(images, volumes=len(pattern.shape) == 3)
    expected = baseline_mask("energy", data, pattern, 3, centre=centre)
    assert torch.equal(pattern.expand(centred(chosen(of), len(pattern.free))), expected)
    assert torch.equal(of.candidates()[0], torch.zeros(len(of.names)))


def test_twins_of_real_images_tie():
    """Which of them is acquired does not matter: there is as much energy in the mask."""
    pattern = GRIDS["locations"]
    images = smooth_images(3, phase=False)
    energy = samples_of(images).mean_energy(pattern)
    expected = pattern.restrict(baseline_mask("energy", from_images(images), pattern, 5))
    found = chosen(family(pattern, energy, acceleration=5))
    assert float(energy[found].sum()) == pytest.approx(float(energy[fft_order(expected, 2)].sum()))


@pytest.mark.parametrize("pattern", [GRIDS["locations"], GRIDS["columns"], GRIDS["odd"], GRIDS["volume"]])
def test_of_two_twins_one_half_is_preferred(pattern):
    energy = random_energy(pattern)
    everywhere = tuple(range(len(pattern.free)))
    energy = energy + reflected(energy, everywhere)
    of = family(pattern, energy, acceleration=3)
    half = fft_order(pattern.half(), len(everywhere))
    mask = chosen(of, half=0.35)
    assert not (mask & (half < 0) & ~reflected(mask, everywhere)).any(), "a twin without the preferred one"
    assert int(mask[half > 0].sum()) > int(mask[half < 0].sum())
    assert torch.equal(chosen(of, half=-0.35), reflected(mask, everywhere))
    # So large a weight that the other half has to wait for the last of the preferred one.
    mask = chosen(of, half=1000.0)
    assert mask[half < 0].sum() == 0 or mask[half > 0].all()


def test_lines_have_no_directions():
    names = family(GRIDS["columns"], random_energy(GRIDS["columns"])).names
    assert names == ("half", "smooth", "distance")
    two, three = (len(family(GRIDS[name], random_energy(GRIDS[name])).names) for name in ("locations", "volume"))
    assert (two, three) == (3 + 2 + 1 + 1, 3 + 3 + 2 + 3)


def test_a_mirrored_direction_gives_the_mirrored_mask():
    energy = random_energy(SQUARE)
    of, mirrored = family(SQUARE, energy), family(SQUARE, reflected(energy, [0]))
    weights = {"towards 0": 0.8, "towards 1": -0.3, "along 0": 0.9, "across 1 0": 0.7, "distance": -0.2}
    flipped = weights | {"towards 0": -0.8, "across 1 0": -0.7}
    mask = chosen(of, **weights)
    assert torch.equal(chosen(mirrored, **flipped), reflected(mask, [0]))
    assert not torch.equal(chosen(mirrored, **weights), reflected(mask, [0]))


def test_with_the_axes_swapped_the_mask_is_transposed():
    energy = random_energy(SQUARE)
    of, turned = family(SQUARE, energy), family(SQUARE, energy.T)
    mask = chosen(of, **{"towards 0": 0.8, "towards 1": -0.3, "along 0": 0.9, "across 1 0": 0.7, "smooth": 0.4})
    swapped = {"towards 1": 0.8, "towards 0": -0.3, "along 0": -0.9, "across 1 0": 0.7, "smooth": 0.4}
    assert torch.equal(chosen(turned, **swapped), mask.T)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("towards 0", lambda y, x: y > 0),
        ("towards 1", lambda y, x: x > 0),
        ("along 0", lambda y, x: y.abs() > x.abs()),
        ("across 1 0", lambda y, x: x * y > 0),
        ("distance", lambda y, x: x.square() + y.square() > 16),
    ],
)
def test_a_weight_moves_units_to_where_its_map_is_large(name, more):
    y, x = torch.meshgrid(*[15 * torch.fft.fftfreq(15)] * 2, indexing="ij")
    of = family(SQUARE, random_energy(SQUARE))
    counts = [int(chosen(of, **{name: value})[more(y, x)].sum()) for value in (-1.0, 0.0, 1.0)]
    assert counts[0] < counts[1] < counts[2]


def test_smoothing_fills_a_hole():
    pattern = Pattern((24, 24), (0, 1))
    energy = fft_order(torch.exp(-5 * pattern.distance()), 2)
    energy[1, 1] *= 0.05
    of = family(pattern, energy, acceleration=8)
    assert not chosen(of)[1, 1]
    assert chosen(of)[2, 1]
    assert chosen(of, smooth=1.0)[1, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("largest", [1e-30, 1.0, 1e30])
def test_scores_are_finite_where_there_is_no_energy(largest, dtype):
    """As in images of a checkerboard, or with k-space that was filled up with zeros."""
    energy = torch.zeros(15, 15, dtype=dtype)
    energy[0, 0], energy[0, 3] = largest, largest / 2
    of = family(SQUARE, energy)
    for seed in range(5):
        weights = random_weights(of, seed)
        assert of.score(weights).isfinite().all()
        assert int(of.mask(weights).sum()) == SQUARE.budget(4)
    assert of.mask(of.weights())[0, [0, 3]].all()


def test_no_energy_at_all_is_finite_too():
    """Of images too faint for single precision, or of probabilities of 0 to start from."""
    of = family(SQUARE, torch.zeros(15, 15))
    assert of.score(random_weights(of, 0)).isfinite().all()
