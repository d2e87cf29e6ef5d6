import cvxpy
import numpy as np
import pytest
import sigpy.mri
import torch

from helpers import seeded, smooth_images
from promask.data.simulate import simulated_maps
from promask.errors import InputError
from promask.operators import wavelets
from promask.operators.finite_differences import total_variation
from promask.operators.fourier import space_axes, spectrum, to_kspace
from promask.recon.compressed_sensing import CompressedSensing
from promask.recon.zero_filled import zero_filled

TRANSFORMS = ["wavelet", "total-variation"]


def scan(count=2, coils=4, size=(16, 12), images=None):
    """K-space in FFT order, coil maps and the images behind them; without coils, of two channels."""
    images = smooth_images(count, 1 if coils else 2, size) if images is None else images
    if not coils:
        return spectrum(images, space_axes(len(size))), None, images
    maps = simulated_maps(coils, size)[None].to(images.dtype)
    return spectrum(maps * images, space_axes(len(size))), maps, images


def weights(*shape, seed=0):
    return torch.rand(shape, generator=seeded(seed), dtype=torch.float64)


def drawn(*shape, share=0.5):
    """A mask of zeros and ones, with the centre of k-space."""
    mask = (weights(*shape) < share).double()
    for axis in (-2, -1):
        mask[torch.fft.fftfreq(shape[axis]).abs().lt(0.1).reshape(-1, *[1] * (-1 - axis)).expand(shape)] = 1
    return mask


def squares(shape=(64, 64)):
    """Flat shapes with a smooth phase: sparse in wavelets, and of small total variation."""
    rows, columns = (torch.linspace(-1, 1, n).double() for n in shape)
    radius = (rows[:, None].square() + columns.square()).sqrt()
    image = (radius < 0.8) + 0.5 * ((rows[:, None].abs() < 0.3) & (columns.abs() < 0.5))
    return torch.polar(image.double(), rows[:, None] + 0.5 * columns)[None, None]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(("coils", "size"), [(0, (8, 6)), (3, (8, 6)), (2, (4, 3, 8))])
def test_gradient(transform, coils, size):
    kspace, maps, _ = scan(2, coils, size)
    recon = CompressedSensing(transform, 0.02, 3)
    for count in (1, 2):
        mask = weights(count, 1, *size).requires_grad_()
        torch.autograd.gradcheck(lambda m: recon.from_spectra(kspace, m, maps), mask, fast_mode=True)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("coils", [0, 4])
def test_everything_measured_gives_the_reference(transform, coils):
    kspace, maps, images = scan(coils=coils)
    recon = CompressedSensing(transform, 1e-7, 8)
    received = images if maps is None else maps * images
    torch.testing.assert_close(recon.reference(received, maps), images, atol=1e-6, rtol=0)
    result = recon.from_spectra(kspace, weights(1, 1, 16, 12).ge(0).double(), maps)
    torch.testing.assert_close(result, recon.reference(received, maps), atol=1e-5, rtol=0)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("coils", [0, 3])
@pytest.mark.parametrize("shape", [(2, 1, 1, 12), (1, 1, 16, 1), (1, 1, 1, 1)])
def test_lines_are_masks_like_others(transform, coils, shape):
    kspace, maps, _ = scan(coils=coils)
    recon = CompressedSensing(transform, 0.01, 4)
    lines = weights(*shape).requires_grad_()
    view = lines.expand(shape[0], 1, 16, 12)
    results = [recon.from_spectra(kspace, mask, maps) for mask in (view, view.contiguous())]
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*(torch.autograd.grad(each.abs().sum(), lines)[0] for each in results))


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_items_do_not_know_of_each_other(transform):
    kspace, maps, _ = scan(3)
    mask = weights(3, 1, 16, 12)
    recon = CompressedSensing(transform, 0.01, 5)
    factors = torch.tensor([1, 1e-6, 1e4j]).to(kspace.dtype).reshape(3, 1, 1, 1)
    together = recon.from_spectra(factors * kspace, mask, maps)
    for item in range(3):
        alone = recon.from_spectra(kspace[item : item + 1], mask[item : item + 1], maps)
        torch.testing.assert_close(together[item : item + 1] / factors[item], alone, msg="whatever the scale")


def problem(transform, kspace, mask, maps, regularisation):
    """The objective as a function of images, with the operators written out again."""
    reference = (maps.conj() * torch.fft.ifft2(kspace, norm="ortho")).sum(1)
    factor = regularisation * reference.abs().max()

    def objective(x):
        misfit = (mask * (torch.fft.fft2(maps * x, norm="ortho") - kspace).abs().square()).sum() / 2
        if transform == "total-variation":
            return misfit + factor * total_variation(x).sum()
        details = wavelets.to_wavelets(x).abs()
        details[
            ..., : x.shape[-2] >> wavelets.levels(x.shape[-2]), : x.shape[-1] >> wavelets.levels(x.shape[-1])
        ] = 0
        return misfit + factor * details.sum()

    return objective, factor


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_agrees_with_a_convex_solver(transform, monkeypatch):
    """Where the grid of the wavelets stays, there is one problem to solve."""
    monkeypatch.setattr(wavelets, "STEPS", (0, 0, 0))
    size = (8, 8)
    kspace, maps, _ = scan(1, 2, size)
    mask = drawn(1, 1, *size)
    objective, factor = problem(transform, kspace, mask, maps, 0.05)

    basis = torch.eye(64, dtype=torch.complex128).reshape(64, 1, *size)
    encoded = (mask * torch.fft.fft2(maps * basis, norm="ortho")).reshape(64, -1).T.numpy()
    x = cvxpy.Variable(64, complex=True)
    misfit = cvxpy.sum_squares(encoded @ x - (mask * kspace).flatten().numpy()) / 2
    if transform == "wavelet":
        details = wavelets.to_wavelets(basis)
        details[..., :4, :4] = 0
        penalty = cvxpy.norm1(details.reshape(64, -1).T.numpy() @ x)
    else:
        steps = [(basis.roll(-1, axis) - basis).reshape(64, -1).T.numpy() @ x for axis in (2, 3)]
        lengths = cvxpy.vstack([f(step) for step in steps for f in (cvxpy.real, cvxpy.imag)])
        penalty = cvxpy.sum(cvxpy.norm(lengths, 2, axis=0))
    cvxpy.Problem(cvxpy.Minimize(misfit + float(factor) * penalty)).solve(cvxpy.CLARABEL)
    solution = torch.as_tensor(x.value).reshape(1, 1, *size)

    result = CompressedSensing(transform, 0.05, 400).from_spectra(kspace, mask, maps)
    assert objective(result) < 1.001 * objective(solution)
    assert (result - solution).norm() < 0.02 * solution.norm()


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_more_iterations_come_closer(transform, monkeypatch):
    monkeypatch.setattr(wavelets, "STEPS", (0, 0, 0))
    kspace, maps, _ = scan(1, 4, (64, 64), squares())
    mask = drawn(1, 1, 64, 64, share=0.3)
    objective, _ = problem(transform, kspace, mask, maps, 0.01)
    values = [
        objective(CompressedSensing(transform, 0.01, count).from_spectra(kspace, mask, maps))
        for count in (2, 5, 20, 80)
    ]
    assert values == sorted(values, reverse=True)
    assert values[0] < objective(zero_filled(kspace, mask, maps))


def test_agrees_with_sigpy():
    """Its wavelets have other edges, stay where they are, and are all penalised: nearly the same image."""
    kspace, maps, images = scan(1, 4, (64, 64), squares())
    mask = drawn(1, 1, 64, 64, share=0.3)
    regularisation = 0.005
    theirs = sigpy.mri.app.L1WaveletRecon(
        (torch.fft.fftshift(mask) * to_kspace(maps * images, (-2, -1)))[0].numpy(),
        maps[0].numpy(),
        regularisation * float(images.abs().max()),
        weights=np.fft.fftshift(mask[0, 0].numpy()),
        wave_name="db2",
        max_iter=300,
        show_pbar=False,
    ).run()
    theirs = torch.as_tensor(theirs)[None, None]
    ours = CompressedSensing("wavelet", regularisation, 100).from_spectra(kspace, mask, maps)
    before = (zero_filled(kspace, mask, maps) - images).norm()
    assert (ours - theirs).norm() < 0.03 * theirs.norm()
    assert (ours - images).norm() < 1.05 * (theirs - images).norm() < 0.2 * before


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("coils", [0, 4])
def test_infers_what_was_not_measured(transform, coils):
    images = squares() if coils else torch.cat([squares(), 2 * squares().flip(-1)], 1)
    kspace, maps, _ = scan(1, coils, (64, 64), images)
    mask = drawn(1, 1, 64, 64, share=0.3)
    single = None if maps is None else maps.to(torch.complex64)
    result = CompressedSensing(transform).from_spectra(kspace.to(torch.complex64), mask.float(), single)
    assert result.dtype == torch.complex64
    assert (result - images).norm() < 0.5 * (zero_filled(kspace, mask, maps) - images).norm()


def test_only_images_are_kept_for_the_gradient():
    """Not the k-space of all coils, for each iteration."""
    kspace, maps, _ = scan(1, 8, (16, 16))
    mask = weights(1, 1, 16, 16).requires_grad_()
    for transform, most in zip(TRANSFORMS, (2.6, 2.1), strict=True):
        kept = {}
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, kept=kept: kept.update({x.data_ptr(): x.numel() * x.element_size()}) or x, lambda x: x
        ):
            result = CompressedSensing(transform, 0.01, 20).from_spectra(kspace, mask, maps)
        assert result.requires_grad
        image = 16 * 256
        assert sum(kept.values()) < 20 * most * image + 8 * image + 2 * image


def test_names_and_settings():
    assert [CompressedSensing(transform).name for transform in TRANSFORMS] == ["cs", "cs-tv"]
    assert CompressedSensing(iterations=1).weights() == [CompressedSensing().regularisation]
    assert CompressedSensing(regularisation=0.5, iterations=3).weights() == [0.5] * 3
    for settings, message in [
        ({"transform": "sparse"}, "Unknown transform 'sparse': choose one of wavelet, total-variation."),
        ({"regularisation": 0.0}, "regularisation must be above 0, such as 0.001, but is 0.0."),
        ({"regularisation": float("nan")}, "regularisation must be a number of at least 0, but is nan"),
        ({"iterations": 0}, "iterations must be a whole number from 1, but is 0."),
    ]:
        with pytest.raises(InputError, match=message):
            CompressedSensing(**settings)
