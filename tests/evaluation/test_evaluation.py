import numpy as np
import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from helpers import seeded, smooth_images
from promask import evaluate, learn
from promask.data.arrays import from_images
from promask.errors import InputError, InputWarning
from promask.evaluation.conventions import CONVENTIONS
from promask.export.mask_file import ExportedMask
from promask.learning.records import NetworkRecord
from promask.recon.compressed_sensing import CompressedSensing


def test_against_numpy():
    """Zero-filling and PSNR written out in NumPy, for an odd and an even axis."""
    images = smooth_images(20, size=(15, 12), phase=False).float()
    mask = torch.rand(15, 12, generator=seeded()) < 0.4
    result = evaluate(mask, from_images(images))
    for index in (0, 7, 19):
        target = images[index, 0].double().numpy()
        kspace = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(target)))
        image = np.abs(np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(kspace * mask.numpy()))))
        low, high = target.min(), target.max()
        error = np.clip((image - low) / (high - low), 0, 1) - (target - low) / (high - low)
        assert result.psnr[index] == pytest.approx(-10 * np.log10((error**2).mean()), rel=1e-4)
    summary = result.summary()
    assert summary["psnr"] == pytest.approx(np.mean(result.psnr))
    assert summary["acceleration"] == 180 / int(mask.sum())
    assert summary["images"] == 20


VOLUMES = [*"abcabca", *"b" * 11, "c"]
"""Interleaved, of 3, 13 and 3 slices, and more than are reconstructed at a time."""


def by_fastmri(target, image):
    """The three metrics of a volume, (slice, H, W), as fastMRI's evaluate.py computes them."""
    maximum = target.max()
    psnr = peak_signal_noise_ratio(target, image, data_range=maximum)
    ssim = sum(structural_similarity(y, x, data_range=maximum) for x, y in zip(image, target, strict=True))
    nmse = np.linalg.norm(target - image) ** 2 / np.linalg.norm(target) ** 2
    return psnr, ssim / len(target), nmse


def zero_filled(images, mask):
    axes = tuple(range(-mask.ndim, 0))
    kspace = np.fft.fftshift(np.fft.fftn(np.fft.ifftshift(images, axes), axes=axes), axes)
    return np.abs(np.fft.fftshift(np.fft.ifftn(np.fft.ifftshift(kspace * mask, axes), axes=axes), axes))


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("scale", [1e-6, 300.0])
def test_fastmri_convention(channels, scale):
    """Complex slices with a phase, of which some are far brighter than others of their volume."""
    brightness = torch.linspace(0.2, 4, len(VOLUMES)).reshape(-1, 1, 1, 1) * scale
    images = (smooth_images(len(VOLUMES), channels, (15, 12)) * brightness).to(torch.complex64)
    mask = torch.rand(15, 12, generator=seeded()) < 0.4
    result = evaluate(mask, from_images(images, subjects=VOLUMES), part="all", convention="fastmri")
    filled = zero_filled(images.to(torch.complex128).numpy(), mask.numpy())
    for number, name in enumerate("abc"):
        chosen = np.array(VOLUMES) == name
        # The channels of a slice count as further slices.
        target, image = (x[chosen].reshape(-1, 15, 12) for x in (images.abs().double().numpy(), filled))
        found = result.psnr[number], result.ssim[number], result.nmse[number]
        np.testing.assert_allclose(found, by_fastmri(target, image), rtol=1e-4)
    assert result.of == "volume"
    summary = result.summary()
    assert summary["ssim"] == pytest.approx(np.mean(result.ssim))
    assert (summary["images"], summary["volumes"], summary["convention"]) == (19, 3, "fastmri")


def test_fastmri_convention_of_samples_that_are_volumes():
    """Each is a volume of its own, whoever its subject is, and its slices are those of its first axis."""
    images = smooth_images(3, 2, (4, 9, 8), dtype=torch.complex64) * torch.tensor([1.0, 5, 2]).reshape(
        3, 1, 1, 1, 1
    )
    mask = torch.rand(4, 9, 8, generator=seeded()) < 0.5
    data = from_images(images, subjects=["a", "b", "a"], volumes=True)
    result = evaluate(mask, data, part="all", convention="fastmri")
    filled = zero_filled(images.to(torch.complex128).numpy(), mask.numpy())
    expected = [
        by_fastmri(target.reshape(-1, 9, 8), image.reshape(-1, 9, 8))
        for target, image in zip(images.abs().double().numpy(), filled, strict=True)
    ]
    found = list(zip(result.psnr, result.ssim, result.nmse, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert (result.summary()["images"], result.summary()["volumes"]) == (3, 3)


def test_the_usual_convention_is_the_papers():
    images = smooth_images(3, dtype=torch.complex64)
    result = evaluate(torch.arange(12) % 3 == 0, from_images(images))
    assert (result.of, result.convention, len(result.psnr)) == ("image", "paper", 3)
    assert result.summary()["convention"] == "paper"
    assert "volumes" not in result.summary()
    with pytest.raises(InputError, match=r"^Unknown convention 'x': choose one of paper, fastmri\.$"):
        evaluate(torch.ones(16, 12), from_images(images), convention="x")


def test_held_out_subjects_are_used_if_there_are_any():
    images = smooth_images(10, dtype=torch.complex64)
    known = from_images(images, subjects=[f"patient-{index // 2}" for index in range(10)])
    mask = torch.ones(16, 12)
    assert evaluate(mask, from_images(images)).summary()["images"] == 10
    assert evaluate(mask, known).summary()["images"] == 2
    assert evaluate(mask, known).summary()["part"] == "test"
    assert evaluate(mask, known, part="train").summary()["images"] == 8


def test_a_full_mask_is_nearly_perfect():
    assert min(evaluate(torch.ones(16, 12), from_images(smooth_images(2, dtype=torch.complex64))).psnr) > 100


def test_lines_broadcast():
    images = smooth_images(2, dtype=torch.complex64)
    line = torch.arange(12) % 3 == 0
    assert evaluate(line, from_images(images)).psnr == evaluate(line.expand(16, 12), from_images(images)).psnr
    assert evaluate(line.to(torch.uint8), from_images(images)).psnr == evaluate(line, from_images(images)).psnr


def test_axes_of_length_1_are_dropped_or_broadcast(tmp_path):
    """As BART writes masks, (1, ky, kz): of slices it is the mask, of volumes it is the same along the readout."""
    images = smooth_images(3, size=(5, 16, 12), phase=False)[:, 0].float().numpy()
    np.savez(tmp_path / "volumes.npz", image=images)
    np.savez(tmp_path / "slices.npz", image=images.reshape(15, 16, 12))
    mask = torch.rand(16, 12, generator=seeded()) < 0.4
    slices, volumes = tmp_path / "slices.npz", tmp_path / "volumes.npz"
    assert evaluate(mask[None], slices).psnr == evaluate(mask, slices).psnr
    assert evaluate(mask[..., None], slices).psnr == evaluate(mask, slices).psnr
    wanted = evaluate(mask.expand(5, 16, 12).clone(), volumes)
    assert len(wanted.psnr) == 3
    assert evaluate(mask[None], volumes, volumes=True).psnr == wanted.psnr


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_tiny_images_have_no_ssim(convention):
    images = smooth_images(2, size=(4, 4), dtype=torch.complex64)
    summary = evaluate(torch.ones(4, 4), from_images(images), convention=convention).summary()
    assert summary["ssim"] is None
    assert summary["psnr"] > 100


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (
            torch.ones(12, 16),
            r"shape \[12, 16\], but the k-space of the data has shape \[16, 12\]: promask.export.resized",
        ),
        (torch.ones(1, 16), r"shape \[1, 16\], but .* \[16, 12\]: let each axis be as long as k-space, or of"),
        (torch.ones(1, 12, 16), r"shape \[1, 12, 16\], but .* \[16, 12\]: let each axis be as long"),
        (torch.ones(2, 16, 12), r"shape \[2, 16, 12\], but .* \[1, 16, 12\]: let each axis be as long"),
        (torch.full((16, 12), 0.5), "only 0 and 1"),
        (torch.full((16, 12), float("nan")), "only 0 and 1"),
        (torch.zeros(16, 12), "acquires nothing"),
    ],
)
def test_bad_masks(mask, message):
    with pytest.raises(InputError, match=message):
        evaluate(mask, smooth_images(2, phase=False).float())


@pytest.fixture(scope="module")
def patients():
    """Ten slices of five subjects."""
    images = smooth_images(10, size=(16, 12), phase=False)[:, 0].float()
    return from_images(images, subjects=[f"patient-{index // 2}" for index in range(10)])


@pytest.fixture(scope="module")
def run(patients):
    return learn(patients, 4, steps=4, recon="cs", iterations=3)


def test_a_run_is_measured_as_it_was_learned(run, patients):
    """With its reconstruction, on what it was not learned from; arguments change either."""
    result = evaluate(run, patients)
    assert (result.recon, result.part, result.images) == ("cs", "test", 2)
    recon = run.reconstruction()
    assert recon.iterations == 3
    assert result.psnr == evaluate(run.mask, patients, "test", recon=recon).psnr
    assert evaluate(run, patients, "train").psnr == evaluate(run.mask, patients, "train", recon=recon).psnr
    assert (
        evaluate(run, patients, iterations=9).psnr
        == evaluate(run, patients, recon=CompressedSensing(iterations=9)).psnr
    )
    assert evaluate(run, patients, recon="zero-filled").psnr == evaluate(run.mask, patients).psnr
    unregularised = CompressedSensing(iterations=3, regularisation=0.1)
    assert evaluate(run, patients, regularisation=0.1).psnr == evaluate(run, patients, recon=unregularised).psnr


def test_a_run_on_other_images(run):
    """All of them are held out, and they are read as its own were."""
    others = smooth_images(4, size=(20, 14), phase=False, seed=1)[:, 0].float()
    sized = learn(smooth_images(4, size=(18, 18), phase=False)[:, 0].float(), 4, steps=2, size=(16, 12))
    assert evaluate(sized, others).images == 4
    assert evaluate(sized, others).psnr == evaluate(sized.mask, others, size=(16, 12)).psnr
    with pytest.raises(
        InputError, match=r"has shape \[16, 12\], but the k-space of the data has shape \[20, 14\]"
    ):
        evaluate(run, others)


def test_exported_masks_arrays_and_runs_are_alike(run, patients):
    wanted = evaluate(run.mask, patients).psnr
    assert evaluate(ExportedMask.of_distribution(run.distribution), patients).psnr == wanted
    assert evaluate(run.mask.numpy(), patients).psnr == wanted
    assert evaluate(np.ma.array(run.mask.numpy()), patients).psnr == wanted
    assert evaluate(run.mask.int().tolist(), patients).psnr == wanted
    with pytest.raises(InputError, match="but not a str: read files with"):
        evaluate("mask.npy", patients)


def test_a_network_that_is_gone_is_said_to_be(run, patients):
    gone = run.with_record(network=NetworkRecord(file="/nowhere/unet.safetensors"))
    with pytest.warns(InputWarning, match=r"is not at /nowhere/unet.safetensors any more: only the images are"):
        result = evaluate(gone, patients)
    assert result.segmented is None


def test_a_misspelt_argument_is_refused_with_a_suggestion(run, patients):
    with pytest.raises(InputError, match=r"^Unknown argument `convntion`: did you mean `convention`\?$"):
        evaluate(run, patients, convntion="paper")
    with pytest.raises(InputError, match=r"^Unknown argument `coil`: did you mean `coils`\?$"):
        evaluate(run, patients, coil=4)
    with pytest.raises(InputError, match=r"^Unknown argument `zzz`: choose from array, "):
        evaluate(run, patients, zzz=4)
