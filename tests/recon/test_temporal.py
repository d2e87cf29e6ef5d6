"""Reconstructions of series of frames, each against an independent answer."""

import math

import numpy as np
import pytest
import torch

from helpers import coil_maps, seeded, smooth_images
from promask.data.builtin.cine import cine
from promask.errors import InputError
from promask.learning.api import learn
from promask.operators.fourier import spectrum
from promask.operators.low_rank import shrink_singular_values
from promask.operators.temporal import denoise_temporal_variation, shrink_frequencies, to_frames, to_frequencies
from promask.recon import RECONSTRUCTIONS, KtSense, LowRankPlusSparse, ViewSharing, make_reconstruction
from promask.recon.base import is_temporal, reconstruct_batch, reconstruct_spectra
from promask.recon.kt_sense import MEAN, temporal_power, usual_power
from promask.recon.view_sharing import share_views
from promask.types import Batch, Cut, Geometry

FRAMES, HEIGHT, WIDTH, COILS = 5, 8, 6, 3
AXES = (-2, -1)
TEMPORAL = [name for name, make in RECONSTRUCTIONS.items() if is_temporal(make())]


def series(seed=0):
    """Smooth over space and time, (1, 1, frame, y, x)."""
    still = smooth_images(1, 1, (HEIGHT, WIDTH), seed=seed).to(torch.complex128).unsqueeze(2)
    other = smooth_images(1, 1, (HEIGHT, WIDTH), seed=seed + 1).to(torch.complex128).unsqueeze(2)
    times = torch.arange(FRAMES).reshape(-1, 1, 1) * 2 * math.pi / FRAMES
    return still + 0.3 * torch.cos(times) * other


def scan(seed=0):
    """K-space of all coils in FFT order, the sensitivities, and lines of each frame."""
    maps = coil_maps(COILS, (HEIGHT, WIDTH)).unsqueeze(2)
    kspace = spectrum(maps * series(seed), AXES)
    lines = torch.rand(1, 1, FRAMES, HEIGHT, 1, generator=seeded(4)) < 0.5
    return kspace, maps, lines.double().expand(1, 1, FRAMES, HEIGHT, WIDTH)


def matrix_of(function, shape):
    """A linear map as a matrix, column by column."""
    columns = []
    for place in range(math.prod(shape)):
        unit = torch.zeros(math.prod(shape), dtype=torch.complex128)
        unit[place] = 1
        columns.append(function(unit.reshape(shape)).flatten().numpy())
    return np.stack(columns, 1)


def test_kt_sense_solves_its_normal_equations():
    kspace, maps, mask = scan()
    prior = 0.01 + torch.rand(FRAMES, HEIGHT, WIDTH, generator=seeded(2), dtype=torch.float64)
    recon = KtSense(regularisation=0.02, iterations=400, prior=prior)
    shape = (1, 1, FRAMES, HEIGHT, WIDTH)
    encode = matrix_of(lambda x: mask.sqrt() * spectrum(maps * x, AXES), shape)
    transform = np.fft.fft(np.eye(FRAMES), norm="ortho")
    temporal = np.kron(transform, np.eye(HEIGHT * WIDTH))
    penalty = temporal.conj().T @ np.diag(0.02 / prior.flatten().numpy()) @ temporal
    right = encode.conj().T @ (mask.sqrt() * kspace).flatten().numpy()
    wanted = np.linalg.solve(encode.conj().T @ encode + penalty, right)
    found = recon.from_spectra(kspace, mask, maps).flatten().numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_the_prior_is_the_power_of_training_data():
    images = [series(seed).real.abs() for seed in range(3)]
    found = temporal_power(images)
    assert found.shape == (FRAMES, HEIGHT, WIDTH)
    assert (found[0] == MEAN).all()
    total = 0
    for each in images:
        power = np.abs(np.fft.fft(each[0, 0].numpy(), axis=0, norm="ortho")) ** 2
        total = total + power / power[0].mean()
    total = total + total[[0, 4, 3, 2, 1]]
    wanted = np.zeros_like(total)
    for y, x in np.ndindex(HEIGHT, WIDTH):  # 7 and 5 pixels wide: the odd widths that fit
        around = total[:, max(0, y - 3) : y + 4, max(0, x - 2) : x + 3]
        wanted[:, y, x] = around.mean((1, 2)) / total[0].mean()
    np.testing.assert_allclose(found[1:].numpy(), wanted[1:], rtol=1e-6)
    fitted = KtSense().fitted(images)
    assert torch.equal(fitted.prior, found)
    assert KtSense() == fitted, "an array is no setting"
    with pytest.raises(InputError, match=r"for series of \[5, 8, 6\]"):
        fitted.from_spectra(torch.zeros(1, 1, 4, 8, 6, dtype=torch.complex64), torch.ones(4, 8, 6))


def test_priors_for_learning_have_not_seen_the_patient():
    images = [series(seed).real.abs() for seed in range(4)]
    fitted = KtSense().fitted(images, [0, 2, 2, 0])
    assert torch.equal(fitted.prior, KtSense().fitted(images).prior)
    others = temporal_power([images[1], images[2]]), fitted.prior, temporal_power([images[0], images[3]])
    torch.testing.assert_close(fitted.unseen, torch.stack([*others, fitted.prior]))
    assert torch.equal(fitted.at(None, torch.tensor([3])).prior[0, 0], fitted.prior), "a patient of a further part"
    parts = torch.tensor([2, 0])
    assert torch.equal(fitted.at(None, parts).prior, fitted.unseen[parts].unsqueeze(1))
    columns = fitted.at(Cut(2, torch.tensor([4, 1]), torch.ones(2)), parts).prior
    wanted = torch.stack([fitted.unseen[2][:, :, 4], fitted.unseen[0][:, :, 1]])
    assert torch.equal(columns, wanted.unsqueeze(1))
    assert KtSense().fitted(images, [1, 1, 1, 1]).unseen is None, "there are no others"


def test_the_usual_prior_falls_with_the_frequency():
    power = usual_power(7)
    assert power[0] == MEAN
    assert power[1] == power[6] > power[2] == power[5] > power[3] == power[4]


@pytest.mark.parametrize("name", TEMPORAL)
@pytest.mark.parametrize("axis", [1, 2])
def test_columns_are_reconstructed_as_the_whole_is(name, axis):
    """Along the readout every position is by itself, with its prior, and on the scale of the whole series."""
    kspace, maps, _ = scan()
    place, encoded = 2 + axis, 5 - axis  # the axis of positions, and the one along which lines lie
    shape = [1, 1, FRAMES, HEIGHT, WIDTH]
    shape[place] = 1
    mask = (torch.rand(shape, generator=seeded(4)) < 0.5).double().expand(1, 1, FRAMES, HEIGHT, WIDTH)
    recon = make_reconstruction(name)
    if isinstance(recon, KtSense):
        recon = KtSense(iterations=300).fitted([series().abs()])  # so many that both have converged
    whole = reconstruct_spectra(recon, kspace, mask, maps, indexes=1)
    full = torch.fft.ifftn(kspace, dim=AXES, norm="ortho")
    columns = torch.fft.fft(full, dim=encoded, norm="ortho").movedim(place, 0).squeeze(1)
    of_columns = maps.movedim(place, 0).squeeze(1)
    scale = torch.linalg.vector_norm(full, dim=1).max()
    length = columns.shape[0]
    cut = Cut(axis, torch.arange(length), scale.expand(length))
    batch = Batch(columns, columns.abs(), Geometry(indexed="frame"), maps=of_columns, cut=cut)
    lines = mask.select(place, 0)[0, 0]
    found = reconstruct_batch(recon, batch, lines)
    assert torch.allclose(found[:, 0], whole[0, 0].movedim(axis, 0), atol=1e-5 * float(whole.abs().max()))


@pytest.mark.parametrize("reach", [0.5, 1.0, math.inf])
def test_view_sharing_by_hand(reach):
    kspace, maps, mask = scan()
    made = ViewSharing(reach).from_spectra(kspace, mask, maps)
    shared = torch.zeros_like(kspace)
    for frame in range(FRAMES):
        for line in range(HEIGHT):
            weights = []
            for other in range(FRAMES):
                distance = min((frame - other) % FRAMES, (other - frame) % FRAMES)
                own = 1000.0 if distance == 0 and reach < math.inf else math.exp(-2 * distance / reach)
                weights.append(own * float(mask[0, 0, other, line, 0]))
            if sum(weights):
                terms = [weight * kspace[:, :, other, line] for other, weight in enumerate(weights)]
                shared[:, :, frame, line] = sum(terms) / sum(weights)
    wanted = (maps.conj() * torch.fft.ifftn(shared, dim=AXES, norm="ortho")).sum(1, keepdim=True)
    assert torch.allclose(made, wanted, atol=1e-9)
    assert ViewSharing(math.inf).name == "temporal-average"


@pytest.mark.parametrize("reach", [0.1, 1.0, math.inf])
def test_the_slope_of_view_sharing_is_the_difference_that_a_sample_makes(reach):
    """Also where no frame acquired anything, where the derivative is infinite, and where only one did."""
    kspace, maps, mask = scan()
    mask = mask[..., :1].clone()
    mask[..., :2, :] = 0
    mask[:, :, 3, 1] = 1
    weights = torch.randn(series().shape, generator=seeded(3), dtype=torch.complex128)

    def total(lines):
        made = ViewSharing(reach).from_spectra(kspace, lines.expand(1, 1, FRAMES, HEIGHT, WIDTH), maps)
        return (made * weights).real.sum()

    variable = mask.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(total(variable), variable)
    for frame, line in np.ndindex(FRAMES, HEIGHT):
        without, acquired = mask.clone(), mask.clone()
        without[0, 0, frame, line], acquired[0, 0, frame, line] = 0, 1
        assert torch.isclose(slopes[0, 0, frame, line, 0], total(acquired) - total(without), atol=1e-9)
    samples = kspace.clone().requires_grad_()
    torch.autograd.gradcheck(lambda y: share_views(y, mask, reach), samples)


@pytest.mark.parametrize("name", ["view-sharing", "kt-cs"])
def test_gradient_learners_work_with_shared_views(name):
    heart = cine(subjects=2, frames=4, size=24)
    settings = {"pattern": "kt", "recon": name, "learner": "best-response", "steps": 2, "batch_size": 2}
    run = learn(heart.image, 4, axes="slice frame y x", **settings)
    assert run.probabilities.isfinite().all()


def test_singular_values_are_shrunk_as_by_numpy():
    images = smooth_images(2, 1, (FRAMES, HEIGHT, WIDTH)).to(torch.complex128)
    thresholds = torch.tensor([0.3, 0.6], dtype=torch.float64).reshape(2, 1, 1, 1, 1)
    whole = shrink_singular_values(images, thresholds, (-2, -1))
    columns = shrink_singular_values(images, thresholds, (-2,))
    for item, threshold in enumerate((0.3, 0.6)):
        values = images[item, 0].numpy()

        def shrunk(matrix, threshold=threshold):
            left, singular, right = np.linalg.svd(matrix, full_matrices=False)
            return left @ np.diag(np.maximum(singular - threshold, 0)) @ right

        np.testing.assert_allclose(
            whole[item, 0].reshape(FRAMES, -1).numpy(), shrunk(values.reshape(FRAMES, -1)), atol=1e-9
        )
        for x in range(WIDTH):
            np.testing.assert_allclose(columns[item, 0, :, :, x].numpy(), shrunk(values[:, :, x]), atol=1e-9)


def test_the_derivative_of_low_rank_where_singular_values_are_equal():
    """An orthogonal matrix has equal ones, at which the derivative of each of them does not exist."""
    unitary = torch.linalg.qr(torch.randn(6, 4, generator=seeded(), dtype=torch.complex128)).Q
    images = unitary.mT.reshape(1, 1, 4, 6).clone().requires_grad_()
    threshold = torch.full((1, 1, 1, 1), 0.4, dtype=torch.float64)
    torch.autograd.gradcheck(lambda x: shrink_singular_values(x, threshold, (-1,)), images)


def test_small_temporal_frequencies_go_but_the_mean_stays():
    images = series()
    shrunk = to_frequencies(shrink_frequencies(images, torch.full((1, 1, 1, 1, 1), 0.2, dtype=torch.float64)))
    before = to_frequencies(images)
    assert torch.allclose(shrunk[:, :, 0], before[:, :, 0])
    sizes = before[:, :, 1:].abs()
    assert torch.allclose(shrunk[:, :, 1:].abs(), (sizes - 0.2).clamp_min(0), atol=1e-12)
    assert torch.allclose(to_frames(before), images)


def test_temporal_variation_is_smaller_and_the_mean_stays():
    images = series() + 0.1 * torch.randn(1, 1, FRAMES, HEIGHT, WIDTH, generator=seeded(), dtype=torch.complex128)
    threshold = torch.full((1, 1, 1, 1, 1), 0.05, dtype=torch.float64)

    def cost(x):
        changes = (x.roll(-1, 2) - x).abs().sum()
        return float((x - images).abs().square().sum() / 2 + 0.05 * changes)

    found = denoise_temporal_variation(images, threshold)
    assert cost(found) < cost(images)
    assert torch.allclose(found.mean(2), images.mean(2))
    for seed in range(20):
        moved = found + 0.01 * torch.randn(found.shape, generator=seeded(seed), dtype=torch.complex128)
        assert cost(moved) > cost(found) - 1e-3 * cost(found)


@pytest.mark.parametrize("name", ["cg-sense", "cs", "zero-filled"])
def test_others_go_frame_by_frame(name):
    kspace, maps, mask = scan()
    recon = make_reconstruction(name)
    together = reconstruct_spectra(recon, kspace, mask, maps, indexes=1)
    for frame in range(FRAMES):
        alone = reconstruct_spectra(recon, kspace[:, :, frame], mask[:, :, frame], maps.squeeze(2))
        assert torch.allclose(together[:, :, frame], alone, atol=1e-9)


def test_low_rank_plus_sparse_follows_its_steps():
    """Those of Otazo et al. (2015), written out for columns with NumPy."""
    kspace, maps, mask = scan()
    recon = LowRankPlusSparse(iterations=3, regularisation=0.02, low_rank=0.1)
    made = recon.from_spectra(kspace, mask, maps)[0, 0].numpy()
    sense, lines = maps[0].numpy(), mask[0, 0].numpy()
    data = kspace[0].numpy()

    def encode(x):
        return np.fft.fft2(sense * x, norm="ortho")

    def adjoint(k):
        return (sense.conj() * np.fft.ifft2(k, norm="ortho")).sum(0)

    scale = np.abs(adjoint(data)).max()
    both = ViewSharing().from_spectra(kspace, mask, maps)[0, 0].numpy()
    sparse = np.zeros_like(both)
    for number in range(3):
        low = np.empty_like(both)
        for x in range(WIDTH):
            left, singular, right = np.linalg.svd((both - sparse)[:, :, x], full_matrices=False)
            low[:, :, x] = left @ np.diag(np.maximum(singular - 0.1 * scale, 0)) @ right
        frequencies = np.fft.fft(both - low, axis=0, norm="ortho")
        size = np.abs(frequencies)
        kept = np.maximum(1 - 0.02 * scale / np.maximum(size, 1e-300), 0)
        kept[0] = 1
        sparse = np.fft.ifft(frequencies * kept, axis=0, norm="ortho")
        both = low + sparse
        if number < 2:
            both = both - adjoint(lines * (encode(both) - data))
    np.testing.assert_allclose(made, both, atol=1e-9)
