"""Noise amplification against explicit matrices, the textbook's formula, and a loop of replicas by BART."""

import math
import subprocess

import numpy as np
import pytest
import torch
from file_writers import needs_bart

from helpers import coil_maps, seeded, smooth_images
from promask.errors import InputError
from promask.evaluation.noise import (
    RunningVariance,
    measure_noise,
    object_of,
    sense_noise,
    slice_of,
)
from promask.export.bart import read_bart, write_pair, write_scan
from promask.recon.cg_sense import CgSense
from promask.recon.zero_filled import Sense, ZeroFilled
from promask.types import Sample

SPACE = (10, 8)


def scan(coils=4, space=SPACE, seed=1):
    maps = coil_maps(coils, space)[0]
    image = 1 + 0.3 * smooth_images(1, 1, space, seed=seed)[0]
    return Sample((maps * image).to(torch.complex64), None, "a", "a scan", maps=maps.to(torch.complex64))


def random_mask(share=0.5, seed=4, space=SPACE):
    mask = torch.rand(space, generator=seeded(seed)) < share
    mask[space[0] // 2 - 1 : space[0] // 2 + 1] = True
    return mask


def encoding_matrix(maps, mask):
    """E, (samples of all coils, pixels): centred Fourier transforms, written out as exponentials."""
    maps, mask = maps.numpy().astype(complex), mask.numpy()
    phases = []
    for n in mask.shape:
        places = np.arange(n) - n // 2
        phases.append(np.exp(-2j * np.pi * np.outer(places, places) / n) / math.sqrt(n))
    transform = np.kron(*phases)[mask.ravel()]
    return np.concatenate([transform * each.ravel() for each in maps])


def exact_amplification(sample, mask, regularisation):
    """The root of the diagonal of the covariance of the regularised solution, for white noise of variance 1."""
    matrix = encoding_matrix(sample.maps, mask)
    inverse = np.linalg.inv(matrix.conj().T @ matrix + regularisation * np.eye(matrix.shape[1])) @ matrix.conj().T
    return np.sqrt((np.abs(inverse) ** 2).sum(1)).reshape(mask.shape)


def test_replicas_agree_with_the_covariance_of_cg_sense():
    sample, mask = scan(), random_mask()
    recon, replicas = CgSense(regularisation=0.05, iterations=25), 120
    found = measure_noise(sample, mask, recon, 2.0, replicas)
    ratio = found.amplification.numpy() / exact_amplification(sample, mask, 0.05)
    error = 1 / (2 * math.sqrt(replicas))
    assert np.isfinite(ratio).all()
    assert abs(ratio.mean() - 1) < 4 * error / math.sqrt(ratio.size / 4)
    assert ratio.std() == pytest.approx(error, rel=0.4)
    assert (found.method, found.replicas, found.where) == ("replicas", 120, "")


def test_replicas_are_drawn_from_a_seed():
    sample, mask = scan(), random_mask()
    first, again, other = (
        measure_noise(sample, mask, CgSense(), 2.0, 5, seed=seed).amplification for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_adding_up_coils_leaves_the_share_of_the_noise_that_was_acquired():
    mask = random_mask()
    found = measure_noise(scan(), mask, Sense(), 2.0, 300)
    share = float(mask.double().mean())
    assert float(found.amplification.mean()) == pytest.approx(math.sqrt(share), rel=0.02)


@needs_bart
def test_replicas_agree_with_a_loop_over_bart(tmp_path):
    sample, mask = scan(), random_mask()
    kspace, maps = write_scan(sample, tmp_path)
    write_pair(mask.numpy()[..., None], tmp_path / "mask.cfl", {"Dimensions": "10 8 1"})
    clean, _ = read_bart(kspace)
    generator, images, sigma = np.random.default_rng(0), [], 0.001
    for number in range(40):
        noise = generator.normal(size=(2, *clean.shape)) * sigma / math.sqrt(2)
        noisy = (clean + noise[0] + 1j * noise[1]) * mask.numpy()[..., None, None]
        write_pair(noisy, tmp_path / f"noisy{number}.cfl", {"Dimensions": " ".join(map(str, noisy.shape))})
        words = ["pics", "-l2", "-r0.05", "-i60", "-w1", "-p", "mask", f"noisy{number}", maps.stem, "image"]
        subprocess.run(["bart", *words], check=True, capture_output=True, cwd=tmp_path)
        images.append(read_bart(tmp_path / "image.cfl")[0].reshape(SPACE))
    by_bart = np.stack(images).std(0, ddof=1) / sigma
    found = measure_noise(sample, mask, CgSense(0.05, 40), 2.0, 40).amplification.numpy()
    ratio, error = found / by_bart, 1 / (2 * math.sqrt(40))
    assert ratio.mean() == pytest.approx(1, abs=0.05)
    assert ratio.std() < 1.5 * math.sqrt(2) * error


def test_g_factor_of_two_fold_sense_is_the_textbooks():
    maps = coil_maps(4, SPACE)[0]
    lines = (torch.arange(8) % 2 == 0).expand(SPACE)
    found = sense_noise(maps, lines, 2.0)
    for y, x in np.ndindex(*SPACE):
        s = maps.numpy()[:, y, [x, (x + 4) % 8]]
        normal = s.conj().T @ s
        g = math.sqrt((np.linalg.inv(normal)[0, 0] * normal[0, 0]).real)
        assert float(found.g_factor[y, x]) == pytest.approx(g, rel=1e-5)
    assert float(found.g_factor.min()) >= 1 - 1e-6


def test_g_factor_of_caipirinha_is_the_textbooks():
    maps = coil_maps(6, (8, 12))[0]
    ky, kz = torch.meshgrid(torch.arange(8), torch.arange(12), indexing="ij")
    caipi = (kz % 2 == 0) & ((ky + kz // 2) % 2 == 0)  # every other kz, and every other ky, shifted by one
    found = sense_noise(maps, caipi, 4.0)
    # The lattice that is dual to it: k = (1, 2), (2, 0) -> x = (4, 3), (0, 6).
    for y, z in np.ndindex(8, 12):
        folded = [((y + 4 * a) % 8, (z + 3 * a + 6 * b) % 12) for a in (0, 1) for b in (0, 1)]
        s = maps.numpy()[:, [each[0] for each in folded], [each[1] for each in folded]]
        normal = s.conj().T @ s
        g = math.sqrt((np.linalg.inv(normal)[0, 0] * normal[0, 0]).real)
        assert float(found.g_factor[y, z]) == pytest.approx(g, rel=1e-4)


def test_exact_noise_of_any_mask_is_that_of_the_matrix():
    sample, mask = scan(), random_mask()
    found = sense_noise(sample.maps, mask, 2.0, regularisation=0.05)
    assert np.allclose(found.amplification, exact_amplification(sample, mask, 0.05), rtol=1e-4)
    unregularised = sense_noise(sample.maps, mask, 2.0)
    assert np.allclose(unregularised.amplification, exact_amplification(sample, mask, 0), rtol=1e-3)


def test_pixels_outside_are_not_unfolded():
    maps = coil_maps(2, SPACE)[0]
    lines = (torch.arange(8) % 2 == 0).expand(SPACE)
    inside = torch.zeros(SPACE, dtype=torch.bool)
    inside[:, 2:6] = True
    found = sense_noise(maps, lines, 2.0, inside).g_factor
    assert torch.equal(found.isnan(), ~inside)
    assert torch.allclose(found[inside], torch.ones(()))  # nothing is folded onto them


def test_what_cannot_be_told_apart_has_no_exact_noise():
    maps = coil_maps(1, SPACE)[0]
    assert sense_noise(maps, (torch.arange(8) % 2 == 0).expand(SPACE), 2.0) is None  # a single coil
    large = torch.rand(64, 64, generator=seeded()) < 0.5
    assert sense_noise(coil_maps(4, (64, 64))[0], large, 2.0) is None


def test_numbers_are_those_of_the_object():
    sample, mask = scan(), random_mask()
    maps = sample.maps.clone()
    maps[:, :3] = 0
    dark = sample.image.clone()
    dark[:, :, :2] = 0
    sample = Sample(dark, None, "a", "a", maps=maps)
    inside = object_of(sample)
    assert not inside[:3].any()
    assert not inside[:, :2].any()
    found = measure_noise(sample, mask, CgSense(), 4.0, 6)
    assert torch.equal(found.amplification.isnan(), ~inside)
    known = found.amplification.numpy()[inside.numpy()]
    summary = found.summary()
    wanted = [known.mean(), np.median(known), np.percentile(known, 95), known.max()]
    assert list(summary["amplification"].values()) == pytest.approx(wanted, rel=1e-5)
    assert summary["g_factor"]["mean"] == pytest.approx(known.mean() / 2, rel=1e-5)
    assert summary["replicas"] == 6


def test_of_a_volume_one_slice_is_looked_at():
    volume = scan(space=(5, 6, 7))
    plane = torch.rand(6, 7, generator=seeded()) < 0.6
    mask = plane.expand(5, 6, 7)
    found = measure_noise(volume, mask, CgSense(), 2.0, 4, position=3)
    alone = Sample(volume.image[:, 3], None, "a", "b", maps=volume.maps[:, 3])
    assert torch.equal(found.amplification, measure_noise(alone, plane, CgSense(), 2.0, 4).amplification)
    assert found.where == "position 3 of 5 along axis 0"
    assert slice_of(volume, mask)[2] == "position 2 of 5 along axis 0"
    with pytest.raises(InputError, match="`position` must be from 0 to 4, but is 5"):
        slice_of(volume, mask, 5)


def test_what_cannot_be_measured():
    sample = scan()
    with pytest.raises(InputError, match="needs coil sensitivities, and a reconstruction that uses them"):
        measure_noise(sample, random_mask(), ZeroFilled(), 2.0)
    with pytest.raises(InputError, match="needs coil sensitivities"):
        measure_noise(Sample(sample.image, None, "a", "a"), random_mask(), CgSense(), 2.0)
    with pytest.raises(InputError, match="`replicas` must be at least 2, but is 1"):
        measure_noise(sample, random_mask(), CgSense(), 2.0, replicas=1)


def test_the_running_variance_is_the_variance():
    values = torch.randn(9, 4, generator=seeded(), dtype=torch.complex128) + 1e4
    spread = RunningVariance()
    for each in values:
        spread.add(each)
    assert np.allclose(spread.deviation(), np.std(values.numpy(), axis=0, ddof=1))
