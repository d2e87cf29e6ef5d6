"""Masks that scanners and toolboxes use: lattices, Poisson discs, variable density, partial Fourier."""

import itertools
import math
import shutil
import subprocess

import numpy as np
import pytest
import torch
from suites import check_baseline

from helpers import seeded, smooth_images
from promask import evaluate
from promask.baselines import BASELINES, baseline_mask, lattices, tuned
from promask.baselines import bart as bart_masks
from promask.baselines.drawn import discs, spaced_lines
from promask.baselines.problem import BaselineProblem
from promask.data.arrays import from_images
from promask.data.reading import Reading
from promask.data.sources import load
from promask.errors import InputError
from promask.recon import CgSense
from promask.sampling.limits import Limits
from promask.sampling.pattern import Pattern

LINES_OR_POINTS = ("regular", "caipi", "partial-fourier", "variable-density", "poisson-tuned")
PATTERNS = {
    "even": Pattern((24, 30), (0, 1)),
    "odd": Pattern((33, 21), (0, 1)),
    "tiny": Pattern((5, 4), (0, 1)),
    "long": Pattern((1, 50), (0, 1)),
    "padded": Pattern((24, 31), (0, 1), extent=((5, 24), (0, 17))),
    "pairs": Pattern((3, 12, 15), (1, 2)),
    "lines": Pattern((4, 37), (1,), extent=((0, 4), (3, 33))),
    "rows": Pattern((64, 3), (0,)),
}

needs_bart = pytest.mark.skipif(shutil.which("bart") is None, reason="BART is not installed")


def data_for(pattern, count=2, **settings):
    return from_images(smooth_images(count, size=pattern.shape, **settings), volumes=len(pattern.shape) == 3)


def scanned(size, coils=4, noise=0.0, count=3):
    images = smooth_images(count, size=size, phase=False).abs().squeeze(1).numpy()
    return load(images, Reading(coils=coils, noise=noise))


def units_of(name, pattern, acceleration, data=None, **settings):
    return pattern.restrict(baseline_mask(name, data or data_for(pattern), pattern, acceleration, **settings))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", LINES_OR_POINTS)
def test_every_mask_is_exact(name, pattern):
    pattern = PATTERNS[pattern]
    if len(pattern.free) not in BASELINES[name].free:
        return
    data = data_for(pattern)
    for acceleration in (2, 5.3, pattern.units):
        check_baseline(name, pattern, data, acceleration, again=acceleration == 5.3)
    check_baseline(name, pattern, data, 2, centre=2, again=False)


@pytest.mark.parametrize("acceleration", [2, 3.7, 6])
def test_the_calibration_region_is_24_wide_or_takes_half(acceleration):
    points, lines = Pattern((64, 60), (0, 1)), Pattern((2, 360), (1,))
    for pattern in (points, lines):
        units = units_of("regular", pattern, acceleration)
        budget = pattern.budget(acceleration)
        width = max(w for w in range(25) if pattern.centre(w).sum() <= budget / 2)
        assert units[pattern.centre(width)].all()
        assert width == 24 or pattern.centre(width + 1).sum() > budget / 2
    units = units_of("regular", lines, acceleration)
    others = (~lines.centre(24)).nonzero().flatten()
    gaps = units[others].nonzero().flatten().diff()
    assert gaps.max() - gaps.min() <= 1, "the others are equally spaced"


def sublattices(index):
    """By brute force: all groups of `index` points modulo `index`, from all pairs of generators."""
    places = list(itertools.product(range(index), repeat=2))
    found = set()
    for (a, b), (c, d) in itertools.combinations_with_replacement(places, 2):
        group = {((i * a + j * c) % index, (i * b + j * d) % index) for i in range(index) for j in range(index)}
        if len(group) == index:
            found.add(frozenset(group))
    return found


@pytest.mark.parametrize("index", range(1, 9))
def test_all_lattices_of_an_index(index):
    """Each sublattice once, as many as the divisors of its index add up to."""
    shape = (2 * index, 4 * index)
    found = [
        frozenset(tuple(place) for place in ((points.nonzero() - torch.tensor(shape) // 2) % index).tolist())
        for points in (lattices.lattice_points(shape, lattice) for lattice in lattices.lattices(index))
    ]
    assert len(found) == len(set(found)) == sum(n for n in range(1, index + 1) if index % n == 0)
    assert set(found) == sublattices(index)


@pytest.mark.parametrize("shape", [(24, 36), (31, 17)])
def test_lattices_do_not_change_when_they_are_shifted(shape):
    for index in (4, 6, 9):
        for rows, columns, shift in lattices.lattices(index):
            points = lattices.lattice_points(shape, (rows, columns, shift)).numpy()
            assert points[shape[0] // 2, shape[1] // 2]
            assert points.sum() == pytest.approx(points.size / index, abs=sum(shape) / min(rows, columns))
            for y, z in ((rows, shift), (0, columns)):
                np.testing.assert_array_equal(
                    points[y:, z:], points[: shape[0] - y, : shape[1] - z], err_msg=f"{rows} x {columns}, {shift}"
                )


def test_a_lattice_is_thinned_from_outside_or_filled_from_the_centre():
    pattern = Pattern((40, 32), (0, 1))
    for budget, lattice in ((250, (2, 2, 1)), (400, (2, 2, 1))):
        problem = BaselineProblem(pattern, pattern.units / budget, data_for(pattern))
        points, kept = lattices.lattice_points((40, 32), lattice), pattern.centre(4)
        units = lattices.exact(problem, lattice, kept)
        distance = pattern.distance()
        assert units.sum() == budget
        missing, added = (points | kept) & ~units, units & ~points & ~kept
        assert missing.any() != added.any()
        if missing.any():
            assert distance[missing].min() >= distance[units & points].max()
        else:
            assert distance[added].max() <= distance[~units].min()


def clean(sample):
    return sample.image if sample.clean is None else sample.clean


def fourier_matrix(n):
    return np.fft.fftshift(np.fft.fft(np.fft.ifftshift(np.eye(n), 0), axis=0, norm="ortho"), 0)


def test_the_best_lattice_for_sense():
    """Of all sublattices of index 4, by dense linear algebra; no regularisation, and iterations until the end."""
    data, pattern = scanned((8, 8), coils=6, noise=0.02), Pattern((8, 8), (0, 1))
    recon = CgSense(regularisation=0.0, iterations=100)
    chosen = units_of("caipi", pattern, 4, data, centre=0, recon=recon)
    fourier, losses = np.kron(fourier_matrix(8), fourier_matrix(8)), {}
    for group in sublattices(4):
        mask = np.array([((y - 4) % 4, (z - 4) % 4) in group for y, z in itertools.product(range(8), repeat=2)])
        losses[mask.tobytes()] = 0.0
        for index in range(len(data)):
            maps, images = (each.numpy().reshape(6, 64) for each in (data[index].maps, data[index].image))
            encoding = np.concatenate([(fourier * each)[mask] for each in maps])
            measured = np.concatenate([(fourier @ each)[mask] for each in images])
            image = np.linalg.lstsq(encoding, measured, rcond=None)[0]
            target = (maps.conj() * clean(data[index]).numpy().reshape(6, 64)).sum(0)
            losses[mask.tobytes()] += float(np.mean((np.abs(image) - np.abs(target)) ** 2))
    assert chosen.numpy().tobytes() == min(losses, key=losses.__getitem__)
    assert len(losses) == 7
    assert max(losses.values()) > 1.2 * min(losses.values())


@pytest.mark.parametrize("name", ["caipi", "regular", "poisson-tuned", "variable-density", "partial-fourier"])
@pytest.mark.parametrize("free", [(0, 1), (1,)], ids=["points", "lines"])
def test_the_best_candidate_is_taken(name, free, monkeypatch):
    """By the errors that `evaluate` finds: on two images for the last eight, and on all for the best."""
    data, pattern = scanned((36, 32), noise=0.005, count=5), Pattern((36, 32), free)
    if len(free) not in BASELINES[name].free:
        return
    tried = []

    def recorded(problem, candidates):
        tried.extend(candidates)
        return original(problem, iter(tried))

    original = tuned.best_of
    for module in (tuned, lattices):
        monkeypatch.setattr(module, "best_of", recorded)
    recon = CgSense(iterations=4)
    chosen = units_of(name, pattern, 4, data, recon=recon)
    energies = [float((data[n].maps.conj() * clean(data[n])).sum(0).abs().square().mean()) for n in range(5)]

    def error(units, images):
        nmse = evaluate(pattern.expand(units), data, "all", recon=recon).nmse
        return math.fsum(nmse[n] * energies[n] for n in images)

    last = sorted(tried, key=lambda units: error(units, (0, 2)))
    different = list({units.numpy().tobytes(): units for units in last}.values())
    best = min(different[:8], key=lambda units: error(units, range(5))) if tried else chosen
    assert torch.equal(chosen, best)
    assert len(different) > 1 or (name == "regular" and not tried)


@pytest.mark.parametrize("seed", range(4))
def test_lines_keep_their_distance(seed):
    radius = 1 + 6 * (torch.arange(200, dtype=torch.float64) - 100).abs() / 100
    lines = spaced_lines(radius, seed).nonzero().flatten()
    gaps = lines.diff()
    assert (gaps >= torch.minimum(radius[lines[1:]], radius[lines[:-1]])).all()
    for line in range(200):  # and no other line would fit between them
        assert (lines - line).abs().min() < radius[line]


def test_discs_keep_their_distance():
    """Up to the rounding to the grid, at most the diagonal of a cell."""
    radius = 2 + 3 * Pattern((60, 60), (0, 1)).distance().sqrt()
    samples = discs(radius, 3).nonzero()
    apart = torch.cdist(samples.double(), samples.double()).fill_diagonal_(torch.inf)
    own = radius[tuple(samples.T)]
    assert (apart > torch.minimum(own[:, None], own) - math.sqrt(2)).all()


@pytest.mark.parametrize("acceleration", [3, 5])
def test_lines_of_poisson_masks_are_denser_inside(acceleration):
    """Where distances grow: outside the calibration region and the middle, none are next to each other."""
    pattern = Pattern((2, 240), (1,))
    problem = BaselineProblem(pattern, acceleration, data_for(pattern))
    from promask.baselines.drawn import fitted_discs

    gaps = []
    for seed in range(6):
        one = BaselineProblem(pattern, acceleration, problem.data, seed)
        lines = fitted_discs(one, one.acs(), 1).nonzero().flatten()
        inner, outer = ((lines[1:] - 120).abs() < 60, (lines[1:] - 120).abs() > 80)
        beyond = (lines[1:] - 120).abs() > 14
        gaps.append([float(lines.diff()[each & beyond].double().mean()) for each in (inner, outer)])
    inner, outer = np.mean(gaps, 0)
    assert outer > 1.2 * inner


def test_variable_density_falls_from_the_centre():
    pattern = Pattern((48, 48), (0, 1))
    data = data_for(pattern, 1)
    masks = torch.stack([units_of("variable-density", pattern, 6, data, seed=seed) for seed in range(8)])
    radius = pattern.distance().sqrt()
    rings = [masks[:, (radius >= low) & (radius < low + 0.25)].double().mean() for low in (0, 0.25, 0.5, 0.75)]
    assert rings == sorted(rings, reverse=True)


def test_partial_fourier_is_a_block_without_one_side():
    """At x4, of a block that is larger by as much, 2/8 or 3/8 are left out on one side of one direction."""
    for direction, share in ((0, 0.75), (1, 0.625)):
        pattern = Pattern((64, 80), (0, 1))
        needed = tuned.needed_block((64, 80), direction, share)
        units = pattern.largest(-needed, pattern.budget(4))
        extent = [
            (int(each.nonzero().min()), int(each.nonzero().max()) + 1)
            for each in (units.sum(1) > units.shape[1] // 8, units.sum(0) > units.shape[0] // 8)
        ]
        assert units[tuple(slice(a + 1, b - 1) for a, b in extent)].all()
        for axis, n in enumerate((64, 80)):
            below, above = n // 2 - extent[axis][0], extent[axis][1] - n // 2
            expected = 2 * share - 1 if axis == direction else 1
            assert below / above == pytest.approx(expected, abs=0.08)
            side = n * math.sqrt(1 / 4 / share) / 2
            assert above == pytest.approx(side, abs=1.01)


@needs_bart
def test_masks_of_bart(tmp_path, monkeypatch):
    """The mask of `bart poisson` itself where it has the number of samples; otherwise a part of one."""
    pattern, seed = Pattern((48, 40), (0, 1)), 5
    number = int(torch.randint(2**31, (), generator=torch.Generator().manual_seed(seed)))
    words = f"bart poisson -Y48 -Z40 -y1 -z1 -C10 -v -e -s{number} mask"
    subprocess.run(words.split(), check=True, cwd=tmp_path, capture_output=True)
    published = np.fromfile(tmp_path / "mask.cfl", "<c8").reshape(40, 48).T != 0
    acceleration = pattern.units / published.sum()
    units = units_of("bart-poisson", pattern, acceleration, seed=seed, centre=10)
    np.testing.assert_array_equal(units.numpy(), published)

    made, original = [], bart_masks.bart_discs
    monkeypatch.setattr(bart_masks, "bart_discs", lambda *asked: made.append(original(*asked)) or made[-1])
    sparser = units_of("bart-poisson", pattern, 1.4 * acceleration, seed=seed, centre=10)
    above = min((each for each in made if each.sum() >= sparser.sum()), key=torch.sum)
    assert (sparser <= above).all()
    assert above.sum() < 1.1 * sparser.sum()
    corners = pattern.distance() > 1.15
    assert not (sparser & corners).any()


@needs_bart
@pytest.mark.parametrize("acceleration", [1, 2, 4, 9.5])
@pytest.mark.parametrize("extent", [(), ((5, 40), (0, 38))], ids=["whole", "padded"])
def test_masks_of_bart_are_exact(acceleration, extent):
    pattern = Pattern((40, 44), (0, 1), extent=extent)
    check_baseline("bart-poisson", pattern, data_for(pattern, 1), acceleration)


@needs_bart
def test_a_grid_that_bart_cannot_do():
    with pytest.raises(InputError, match=r"bart poisson -Y0 .* made no mask of 0 x 3"):
        bart_masks.bart_discs((0, 3), 1.0, 0, 1, True)


def test_without_bart(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(InputError, match=r"bart-poisson masks need the program bart: install BART .* on the PATH"):
        units_of("bart-poisson", Pattern((32, 32), (0, 1)), 4)


ELLIPTICAL = [
    name for name, each in BASELINES.items() if "2d" in each.patterns and name != "loupe" and not each.missing
]


@pytest.mark.parametrize("name", ELLIPTICAL)
def test_elliptical_variants_are_exact_and_leave_the_corners(name):
    """Of volumes, tuned on their slices."""
    volumes = load(torch.rand(1, 2, 32, 30, generator=seeded(0)), Reading(volumes=True, coils=2))
    pattern = Pattern((2, 32, 30), free=(1, 2), limits=Limits(shutter="ellipse"))
    mask = baseline_mask(name, volumes, pattern, 5, recon=CgSense(iterations=2))
    assert int(mask[0].sum()) == 32 * 30 // 5
    assert torch.equal(mask[0], mask[1])
    y, z = (torch.arange(n)[:, None] - n // 2 for n in (32, 30))
    assert not mask[0][((y / 16) ** 2 + (z.T / 15) ** 2) > 1].any()
