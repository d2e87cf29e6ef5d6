"""Volumes in hybrid space: slice by slice is the same as the whole volume."""

import pytest
import torch

import promask
from promask.data.hybrid import HybridSet
from promask.data.reading import Reading
from promask.data.sample_sets import ArraySet
from promask.data.simulate import simulated_maps
from promask.data.sources import load
from promask.evaluation.evaluate import evaluate
from promask.evaluation.images import reconstruct
from promask.losses.image import ImageLoss
from promask.problem.batches import SpectraSet
from promask.problem.objective import loss_and_slopes
from promask.problem.problem import slicing_axis
from promask.recon import CgSense, Network, PartialFourier, RootSumOfSquares, Sense, ZeroFilled
from promask.recon.base import Reconstruction
from promask.sampling.pattern import Pattern
from promask.types import Geometry

COILS, SPACE = 3, (5, 8, 6)
CPU = torch.device("cpu")


def volumes(count: int = 2, geometry: Geometry = Geometry()) -> ArraySet:
    """Complex volumes in double precision, seen by a few coils, with sensitivities of their own."""
    random = torch.Generator().manual_seed(0)
    objects = torch.randn(count, 1, *SPACE, generator=random, dtype=torch.complex128)
    scales = 1 + torch.rand(count, COILS, 1, 1, 1, generator=random, dtype=torch.float64)
    maps = simulated_maps(COILS, SPACE).to(torch.complex128) * scales
    maps = maps / torch.linalg.vector_norm(maps, dim=1, keepdim=True)
    return ArraySet(objects * maps, "volumes", maps=maps, geometry=geometry)


RECONSTRUCTIONS = [
    ZeroFilled(),
    RootSumOfSquares(),
    Sense(),
    CgSense(0.05, iterations=80),
    PartialFourier(0.05, iterations=200, calibration=10**6),  # the phase is smooth within a slice, not along them
]


@pytest.mark.parametrize("recon", RECONSTRUCTIONS, ids=lambda recon: recon.name)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gradients_of_slices_add_up_to_those_of_the_volume(recon: Reconstruction, axis: int) -> None:
    pattern = Pattern(SPACE, free=tuple(each for each in range(3) if each != axis))
    assert slicing_axis(pattern, recon, ImageLoss("mse")) == axis
    data, loss = volumes(), ImageLoss("mse")
    units = (torch.rand(pattern.unit_shape, generator=torch.Generator().manual_seed(1)) < 0.5).double()
    units.flatten()[0] = 1
    whole = SpectraSet(data, CPU, recon=recon)
    batch = next(iter(whole.pieces(torch.arange(2))))
    of_volumes = loss_and_slopes(units.expand(2, *units.shape), batch, pattern, loss, recon)

    slices = SpectraSet(data, CPU, recon=recon, along=axis)
    assert len(slices) == 2 * SPACE[axis]
    total, gradient = 0.0, torch.zeros_like(units)
    for piece in slices.pieces(torch.arange(len(slices))):
        masks = units.expand(len(piece.targets), *units.shape)
        result = loss_and_slopes(masks, piece, pattern.plane(axis), loss, recon)
        total += float(result.loss)
        gradient += result.gradients.sum(0)
    # The loss of a volume is the mean over its slices.
    assert total / SPACE[axis] == pytest.approx(float(of_volumes.loss), rel=1e-9)
    torch.testing.assert_close(gradient / SPACE[axis], of_volumes.gradients.sum(0), rtol=1e-7, atol=1e-12)


def test_energies_are_those_of_the_volume() -> None:
    pattern = Pattern(SPACE, free=(1, 2))
    whole, slices = (SpectraSet(volumes(), CPU, along=along) for along in (None, 0))
    of_slices = slices.mean_energy(pattern.plane(0)) * SPACE[0]
    torch.testing.assert_close(of_slices, whole.mean_energy(pattern))


@pytest.mark.parametrize("memory", [None, 0])
def test_slices_are_parts_of_their_volumes_in_memory_and_on_disk(
    memory: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PROMASK_CACHE", str(tmp_path_factory.mktemp("cache")))
    data, recon = volumes(3), Sense()
    slices = SpectraSet(data, CPU, recon=recon, memory=memory, along=1)
    assert (slices.kept is None) == (memory == 0)
    wanted = torch.tensor([9, 0, 23, 0])  # of the second, the first and the third volume
    (piece,) = slices.pieces(wanted)
    for place, index in enumerate(wanted.tolist()):
        volume, position = divmod(index, SPACE[1])
        image = data[volume].image[:, :, position]
        torch.testing.assert_close(piece.spectra[place], torch.fft.fft2(image, norm="ortho"))
        assert piece.maps is not None
        torch.testing.assert_close(piece.maps[place], data[volume].maps[:, :, position])
        combined = (data[volume].maps[:, :, position].conj() * image).sum(0, keepdim=True)
        torch.testing.assert_close(piece.targets[place], combined.abs())


def test_volumes_that_share_sensitivities_keep_them_once() -> None:
    shared = load(torch.rand(3, *SPACE), Reading(volumes=True, coils=COILS))
    slices = SpectraSet(shared, CPU, recon=Sense(), along=0)
    assert slices.kept is not None
    assert slices.kept.maps is not None
    assert len(slices.kept.maps) == SPACE[0]
    (piece,) = slices.pieces(torch.tensor([7]))
    torch.testing.assert_close(piece.maps[0], shared[1].maps[:, 2])


def test_positions_outside_of_the_region_are_left_out() -> None:
    data = volumes(2, Geometry(region=(3, 8, 6), axes=("kx", "ky", "kz"), readout=0))
    slices = HybridSet(data, axis=0)
    assert list(slices.positions) == [1, 2, 3]
    assert (len(slices), slices.shape, slices.geometry.axes) == (6, (COILS, 8, 6), ("ky", "kz"))
    torch.testing.assert_close(slices[4].image, data[1].image[:, 2])
    assert slices[4].name.endswith("position 2")
    with pytest.raises(IndexError):
        slices[6]


def test_evaluation_puts_volumes_together_again() -> None:
    data = volumes()
    units = torch.rand(8, 6, generator=torch.Generator().manual_seed(2)) < 0.6
    mask = units.expand(SPACE)
    images, targets = reconstruct(mask, data, range(2), recon := CgSense(0.05, iterations=80))
    kspace = torch.fft.fftn(data.images, dim=(-3, -2, -1), norm="ortho")
    weights = torch.fft.ifftshift(mask).double()
    wanted = recon.from_spectra(kspace, weights, data.maps).abs()
    torch.testing.assert_close(images, wanted)
    torch.testing.assert_close(targets, (data.maps.conj() * data.images).sum(1, keepdim=True).abs())
    for image, target, psnr in zip(wanted, targets, evaluate(mask, data, "all", recon=recon).psnr, strict=True):
        low, high = target.min(), target.max()  # as the convention of the paper has it
        error = ((image.clamp(low, high) - target) / (high - low)).square().mean()
        assert psnr == pytest.approx(-10 * float(error.log10()), abs=1e-4)


def test_whole_volumes_for_networks_that_need_them() -> None:
    pattern = Pattern(SPACE, free=(1, 2))
    flat, deep = Network(torch.nn.Conv2d(2, 2, 1)), Network(torch.nn.Conv3d(2, 2, 1))
    assert slicing_axis(pattern, flat, ImageLoss("mse")) == 0
    assert slicing_axis(pattern, deep, ImageLoss("mse")) is None
    assert slicing_axis(Pattern(SPACE, free=(0, 1, 2)), ZeroFilled(), ImageLoss("mse")) is None
    assert slicing_axis(Pattern(SPACE, free=(1,), readout=2), ZeroFilled(), ImageLoss("mse")) == 2


def test_a_learned_mask_has_the_shape_of_the_volume() -> None:
    images = torch.rand(3, *SPACE, generator=torch.Generator().manual_seed(3))
    run = promask.learn(images, 4, volumes=True, pattern="2d", steps=5)
    assert run.mask.shape == SPACE
    assert torch.equal(run.mask, run.mask[:1].expand(SPACE))
    assert int(run.mask[0].sum()) == 12
