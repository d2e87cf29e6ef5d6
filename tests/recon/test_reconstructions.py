"""Every reconstruction of the table: the same properties, and an independent answer for each."""

import numpy as np
import pytest
import torch
from suites import check_reconstruction

from helpers import coil_maps, seeded, smooth_images
from promask import learn
from promask.data.simulate import simulated_maps
from promask.errors import InputError
from promask.operators.encoding import Encoding, GridTransform, conjugate_gradients, gradient_step, to_hybrid_space
from promask.operators.fourier import fft_order, from_spectrum, space_axes, spectrum, to_image, to_kspace
from promask.recon import RECONSTRUCTIONS, make_reconstruction
from promask.recon.base import Reconstruction, is_temporal, reconstruct_spectra
from promask.recon.cg_sense import CgSense
from promask.recon.compressed_sensing import CompressedSensing
from promask.recon.network import Network
from promask.recon.partial_fourier import PartialFourier
from promask.recon.zero_filled import RootSumOfSquares, Sense

AXES = (-2, -1)
SPACE = (12, 10)
PRECISE = {"cg-sense": {"iterations": 60}, "partial-fourier": {"iterations": 60}, "cs": {"iterations": 6}}
PRECISE["cs-tv"] = PRECISE["cs"]
PRECISE |= {name: {"iterations": 4, "regularisation": 0.001} for name in ("kt-cs", "kt-tv", "l+s")}
PRECISE["kt-sense"] = {"iterations": 120, "regularisation": 1e-6}


def precise(name, **settings):
    """A reconstruction with iterations enough for derivatives to agree."""
    return make_reconstruction(name, **{**PRECISE.get(name, {}), **settings})


def test_the_table_holds_reconstructions():
    for name, make in RECONSTRUCTIONS.items():
        assert isinstance(make(), Reconstruction)
        assert make().name == name


TEMPORAL = [name for name, make in RECONSTRUCTIONS.items() if is_temporal(make())]


@pytest.mark.parametrize("coils", [None, 4])
@pytest.mark.parametrize("name", RECONSTRUCTIONS)
def test_properties(name, coils):
    frames = 5 if name in TEMPORAL else None
    check_reconstruction(precise(name), SPACE, coils, aims=name != "temporal-average", frames=frames)


@pytest.mark.parametrize("name", ["cg-sense", "sense", "zero-filled", "rss", "cs"])
def test_properties_of_volumes(name):
    check_reconstruction(precise(name), (6, 8, 5), 3)


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("coils", [None, 4])
def test_properties_of_a_network(consistent, coils):
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(2, 8, 3, padding=1), torch.nn.Tanh(), torch.nn.Conv2d(8, 2, 3, padding=1)]
    check_reconstruction(Network(torch.nn.Sequential(*layers).double(), consistent), SPACE, coils, aims=False)


class Tapered:
    """That of CONTRIBUTING.md: zero-filled, with a window over k-space."""

    name, uses_maps, iterative = "tapered", False, False

    def reference(self, images, maps):
        return self(to_kspace(images, (-2, -1)), torch.ones(()))

    def __call__(self, kspace, mask, maps=None):
        height, width = (
            torch.hann_window(n, dtype=kspace.real.dtype, device=kspace.device) for n in kspace.shape[-2:]
        )
        return to_image(height[:, None] * width * mask * kspace, (-2, -1))


def test_a_reconstruction_in_ten_lines():
    check_reconstruction(Tapered(), SPACE)
    images = smooth_images(6, 1, (16, 16), phase=False).float()[:, 0]
    tapered, plain = (learn(images, 4, recon=recon, steps=5).mask for recon in (Tapered(), "zero-filled"))
    assert tapered[8, 8], "DC, which is at the centre of what it saw"
    assert tapered.sum() == plain.sum() == 64
    assert not tapered[0].any(), "where the window is zero, nothing is worth its time"


@pytest.mark.parametrize("name", ["zero-filled", "sense", "cg-sense"])
@pytest.mark.parametrize("coils", [None, 4])
def test_some_are_linear_in_kspace(name, coils):
    recon = precise(name)
    maps = None if coils is None else coil_maps(coils, SPACE)
    mask = (torch.rand(2, 1, *SPACE, generator=seeded()) < 0.5).double()
    left, right = (to_kspace(smooth_images(2, coils or 1, SPACE, seed=seed), AXES) for seed in (1, 2))
    together = recon(2 * left - 3j * right, mask, maps)
    assert torch.allclose(together, 2 * recon(left, mask, maps) - 3j * recon(right, mask, maps), atol=1e-9)


@pytest.mark.parametrize("axes", [(-2, -1), (-1,), (-2,)])
@pytest.mark.parametrize("coils", [None, 4])
def test_the_adjoint_of_the_scanner(axes, coils):
    encoding = Encoding(None if coils is None else coil_maps(coils, SPACE), GridTransform(axes))
    image = smooth_images(2, 1, SPACE)
    kspace = spectrum(smooth_images(2, coils or 1, SPACE, seed=1), AXES)
    assert torch.isclose(
        torch.vdot(kspace.flatten(), encoding(image).flatten()),
        torch.vdot(encoding.invert(kspace).flatten(), image.flatten()),
    )
    mask = torch.rand(2, 1, *SPACE, generator=seeded(), dtype=torch.float64)
    assert torch.allclose(encoding.normal(image, mask), encoding.invert(mask * encoding(image)))


def encoding_matrix(maps):
    """The scanner as a matrix, column by column, with NumPy's transform."""
    coils, pixels = len(maps), maps[0].numel()
    columns = []
    for pixel in range(pixels):
        image = np.zeros(pixels)
        image[pixel] = 1
        coil_images = maps.numpy() * image.reshape(maps.shape[1:])
        columns.append(np.fft.fft2(coil_images, norm="ortho").reshape(coils * pixels))
    return np.stack(columns, 1)


def test_cg_sense_solves_the_normal_equations():
    maps = coil_maps(4, SPACE)
    kspace = spectrum(smooth_images(1, 4, SPACE), AXES)
    mask = (torch.rand(SPACE, generator=seeded()) < 0.4).double()
    matrix = encoding_matrix(maps[0]) * np.tile(mask.numpy().ravel(), 4)[:, None]
    wanted = np.linalg.solve(
        matrix.conj().T @ matrix + 0.05 * np.eye(120), matrix.conj().T @ kspace.numpy().ravel()
    )
    found = CgSense(regularisation=0.05, iterations=80).from_spectra(kspace, mask, maps)
    assert np.allclose(found.numpy().ravel(), wanted, atol=1e-8)


def test_cg_sense_agrees_with_sigpy():
    """Called as a user calls it: both have centred k-space, masks and images."""
    app = pytest.importorskip("sigpy.mri.app")
    maps = coil_maps(4, (24, 21))
    kspace = to_kspace(smooth_images(1, 4, (24, 21)), AXES)
    mask = (torch.rand(24, 21, generator=seeded()) < 0.5).double()
    theirs = app.SenseRecon(
        (kspace[0] * mask).numpy(), maps[0].numpy(), 0.05, weights=mask.numpy(), max_iter=60, show_pbar=False
    ).run()
    ours = CgSense(regularisation=0.05, iterations=60)(kspace, mask, maps)
    assert np.allclose(ours[0, 0].numpy(), theirs, atol=1e-5)


class Centred:
    """A reconstruction of a user's own, which asks another one."""

    def __init__(self, recon):
        self.recon, self.seen = recon, []
        self.name, self.uses_maps, self.iterative = "own", recon.uses_maps, recon.iterative

    def reference(self, images, maps):
        return self.recon.reference(images, maps)

    def __call__(self, kspace, mask, maps=None):
        self.seen.append((kspace, mask))
        return self.recon(kspace, mask, maps)


@pytest.mark.parametrize("size", [(12, 10), (9, 14), (4, 5, 6)])
@pytest.mark.parametrize("name", ["zero-filled", "cg-sense"])
def test_ones_own_sees_centred_arrays_wherever_it_is_called(name, size):
    """And the image is the one that the loop wants, at its place."""
    own, maps, axes = Centred(precise(name)), coil_maps(3, size), space_axes(len(size))
    images = maps * smooth_images(2, 1, size)
    mask = (torch.rand(2, 1, *size, generator=seeded()) < 0.5).double()
    own_way = reconstruct_spectra(own, spectrum(images, axes), fft_order(mask, len(size)), maps)
    ((kspace, seen),) = own.seen
    assert torch.equal(seen, mask)
    assert torch.allclose(kspace, to_kspace(images, axes))
    in_the_loop = reconstruct_spectra(own.recon, spectrum(images, axes), fft_order(mask, len(size)), maps)
    assert torch.allclose(own_way, in_the_loop, atol=1e-9)


def test_lines_stay_a_broadcast_view_when_they_are_shifted():
    own = Centred(precise("zero-filled"))
    spectra = spectrum(smooth_images(1, 1, SPACE), AXES)
    lines = torch.arange(10.0).double().expand(1, 1, *SPACE)
    reconstruct_spectra(own, spectra, lines)
    (_, seen), *_ = own.seen
    assert seen.stride(-2) == 0
    assert torch.equal(seen[0, 0, 0], torch.arange(10.0).double().roll(5))
    everything = torch.ones(()).double().expand(1, 1, *SPACE)
    assert torch.allclose(reconstruct_spectra(own, spectra, everything), from_spectrum(spectra, AXES))


def test_conjugate_gradients_take_each_equation_by_itself():
    matrices = torch.randn(3, 8, 8, generator=seeded(), dtype=torch.complex128)
    matrices = matrices @ matrices.mH + torch.eye(8)
    right = torch.randn(3, 1, 8, generator=seeded(1), dtype=torch.complex128)
    right[1] *= 1e6
    found = conjugate_gradients(lambda x: (matrices @ x.mT).mT, right, 40)
    wanted = torch.linalg.solve(matrices, right.mT).mT
    assert torch.allclose(found, wanted, rtol=1e-6, atol=1e-9)


def saved_bytes(recon, kspace, maps):
    """What autograd keeps for the way back."""
    total = 0

    def count(tensor):
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor

    mask = torch.full((1, 1, *SPACE), 0.5, dtype=torch.float64, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        recon.from_spectra(kspace, mask, maps)
    return total


def test_memory_does_not_grow_with_the_iterations_of_cg():
    maps, kspace = coil_maps(4, SPACE), spectrum(smooth_images(1, 4, SPACE), AXES)
    few, many = (saved_bytes(CgSense(iterations=count), kspace, maps) for count in (2, 50))
    assert few == many
    unrolled = [saved_bytes(CompressedSensing(iterations=count), kspace, maps) for count in (2, 50)]
    assert unrolled[0] < unrolled[1]  # the count sees it where it does


def test_root_sum_of_squares():
    kspace = spectrum(smooth_images(2, 4, SPACE), AXES)
    mask = (torch.rand(SPACE, generator=seeded()) < 0.4).double()
    wanted = np.sqrt((np.abs(np.fft.ifft2(kspace.numpy() * mask.numpy(), norm="ortho")) ** 2).sum(1))
    assert np.allclose(RootSumOfSquares().from_spectra(kspace, mask)[:, 0].numpy(), wanted)


def test_sense_combines_coils():
    maps = coil_maps(4, SPACE)
    image = smooth_images(2, 1, SPACE)
    assert torch.allclose(
        Sense().from_spectra(spectrum(maps * image, AXES), torch.ones(SPACE).double(), maps), image
    )


def test_partial_fourier_takes_half_of_kspace_for_the_whole():
    """Of a real image, one of each two conjugate samples says everything."""
    images = smooth_images(2, 1, SPACE, phase=False).to(torch.complex128)
    kspace = spectrum(images, AXES)
    mask = torch.zeros(SPACE, dtype=torch.float64)
    mask[0], mask[1:6], mask[6] = 1, 1, 1
    found = PartialFourier(regularisation=1e-9, iterations=60).from_spectra(kspace, mask)
    assert torch.allclose(found, images, atol=1e-6)
    cut = kspace * mask
    assert torch.dist(found, images) < 1e-3 * torch.dist(torch.fft.ifft2(cut, norm="ortho"), images)


def test_partial_fourier_knows_a_smooth_phase():
    place = 2 * torch.pi / 48 * torch.arange(48, dtype=torch.float64)
    turn = torch.polar(torch.ones(()).double(), 0.8 * torch.cos(place)[:, None] + torch.sin(place))
    images = (1 + smooth_images(1, 1, (48, 48), phase=False)) * turn
    kspace = spectrum(images, AXES)
    mask = torch.zeros(48, 48, dtype=torch.float64)
    mask[:25], mask[-12:] = 1, 1  # a little more than half of the rows
    found = PartialFourier(regularisation=1e-4, iterations=30).from_spectra(kspace, mask)
    filled = torch.fft.ifft2(kspace * mask, norm="ortho")
    assert torch.dist(found.abs(), images.abs()) < 0.5 * torch.dist(filled.abs(), images.abs())


def test_partial_fourier_with_coils():
    maps = simulated_maps(2, (48, 48)).to(torch.complex128)[None]
    across = torch.hann_window(48, dtype=torch.float64)
    images = ((1 + smooth_images(1, 1, (48, 48), phase=False)) * torch.outer(across, across)).to(torch.complex128)
    mask = torch.zeros(48, 48, dtype=torch.float64)
    mask[[*range(-6, 7), *range(8, 24, 2)]] = 1  # every other row of one half
    found = PartialFourier().from_spectra(spectrum(maps * images, AXES), mask, maps)
    without = CgSense().from_spectra(spectrum(maps * images, AXES), mask, maps)
    assert torch.dist(found, images) < 0.7 * torch.dist(without, images)


def test_a_network_with_data_consistency_keeps_what_was_acquired():
    torch.manual_seed(0)
    kspace = spectrum(smooth_images(2, 3, SPACE), AXES)  # three contrasts, one after the other
    mask = (torch.rand(2, 1, *SPACE, generator=seeded()) < 0.4).double()
    module = torch.nn.Conv2d(2, 2, 3, padding=1).double()
    made, free = (
        spectrum(Network(module, consistent).from_spectra(kspace, mask), AXES) for consistent in (True, False)
    )
    assert torch.allclose(made * mask, kspace * mask)
    assert not torch.allclose(free * mask, kspace * mask, atol=1e-3)


def test_the_scale_of_the_images_makes_no_difference():
    kspace, mask = to_kspace(smooth_images(1, 1, SPACE), AXES), torch.rand(SPACE, generator=seeded()).double()
    module = torch.nn.Sequential(torch.nn.Conv2d(2, 2, 3, padding=1), torch.nn.ReLU()).double()
    for recon in (Network(module), *(make() for make in RECONSTRUCTIONS.values())):
        with torch.no_grad():
            large, small = recon(2**13 * kspace, mask), recon(kspace, mask)  # the same digits
        assert torch.allclose(large, 2**13 * small, rtol=1e-8, atol=1e-8 * float(large.abs().max()))


def test_a_step_towards_the_data():
    maps, image = coil_maps(4, SPACE), smooth_images(1, 1, SPACE).requires_grad_()
    kspace = spectrum(smooth_images(1, 4, SPACE, seed=3), AXES)
    mask = torch.rand(1, 1, *SPACE, generator=seeded(), dtype=torch.float64).requires_grad_()
    encoding = Encoding(maps, GridTransform(AXES))
    assert torch.autograd.gradcheck(lambda x, m: gradient_step(x, m, kspace, encoding), (image, mask))


def test_lines_need_no_transform_along_themselves():
    kspace = spectrum(smooth_images(1, 2, SPACE), AXES)
    lines = torch.rand(1, 1, 1, 10, generator=seeded()).expand(1, 1, *SPACE)
    mixed, mask, axes = to_hybrid_space(kspace, lines)
    assert (mask.shape, axes) == ((1, 1, 1, 10), (-1,))
    assert np.allclose(mixed.numpy(), np.fft.ifft(kspace.numpy(), axis=-2, norm="ortho"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("magic",), "Unknown reconstruction 'magic': choose one of zero-filled, rss, sense, gridding, cg-sense"),
        (("network",), "must be given in Python"),
        (("rss", 3), "The reconstruction rss has no iterations: leave it out."),
        (("sense", None, 0.1), "The reconstruction sense has no regularisation"),
        ((CgSense(), 3), "The reconstruction is made already: give iterations to it."),
    ],
)
def test_settings_that_do_not_fit(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        make_reconstruction(*arguments)


def test_what_is_iterative_is_known_by_name_as_well():
    direct = {name for name, make in RECONSTRUCTIONS.items() if not make().iterative}
    assert direct == {"zero-filled", "rss", "sense", "gridding"}


@pytest.mark.parametrize("size", [(33, 37), (34, 46), (33, 32)])
def test_sparsity_helps_whatever_the_size(size):
    image = torch.zeros(1, 1, *size, dtype=torch.complex128)
    image[..., 8:24, 10:20] = 1
    kspace = spectrum(image, AXES)
    mask = (torch.rand(size, generator=seeded()) < 0.5).double()
    mask[:4, :4] = mask[-4:, :4] = mask[:4, -4:] = mask[-4:, -4:] = 1
    filled = torch.fft.ifft2(kspace * mask, norm="ortho")
    found = CompressedSensing(regularisation=0.005, iterations=30).from_spectra(kspace, mask)
    assert torch.dist(found, image) < 0.6 * torch.dist(filled, image)


def test_settings_that_no_reconstruction_can_have():
    for make, sentence in [
        (lambda: CgSense(iterations=0), "iterations must be a whole number from 1"),
        (lambda: PartialFourier(regularisation=-1.0), "regularisation must be a number of at least 0"),
        (lambda: CompressedSensing(regularisation=0), "regularisation must be above 0"),
        (lambda: make_reconstruction(CgSense), "is no reconstruction: give a name"),
        (lambda: make_reconstruction(torch.nn.ReLU()), r"a module as promask.recon.Network\(module\)"),
    ]:
        with pytest.raises(InputError, match=sentence):
            make()
    kspace = spectrum(smooth_images(1, 1, SPACE), AXES)
    with pytest.raises(InputError, match="must return what it takes, real and imaginary parts of shape"):
        Network(torch.nn.Conv2d(2, 1, 1).double()).from_spectra(kspace, torch.ones(SPACE).double())
