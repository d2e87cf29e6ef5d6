import numpy as np
import pytest
import torch

from helpers import seeded, smooth_images
from promask import evaluate
from promask.data import from_images
from promask.errors import InputError


def test_against_numpy():
    """Zero-filling and PSNR written out in NumPy, for an odd and an even axis."""
    images = smooth_images(20, size=(15, 12), phase=False).float()
    mask = torch.rand(15, 12, generator=seeded()) < 0.4
    result = evaluate(mask, images)
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


def test_held_out_subjects_are_used_if_there_are_any():
    images = smooth_images(10, dtype=torch.complex64)
    known = from_images(images, subjects=[f"patient-{index // 2}" for index in range(10)])
    mask = torch.ones(16, 12)
    assert evaluate(mask, images).summary()["images"] == 10
    assert evaluate(mask, known).summary()["images"] == 2
    assert evaluate(mask, known).summary()["part"] == "test"
    assert evaluate(mask, known, part="train").summary()["images"] == 8


def test_a_full_mask_is_nearly_perfect():
    assert min(evaluate(torch.ones(16, 12), smooth_images(2, dtype=torch.complex64)).psnr) > 100


def test_lines_broadcast():
    images = smooth_images(2, dtype=torch.complex64)
    line = torch.arange(12) % 3 == 0
    assert evaluate(line, images).psnr == evaluate(line.expand(16, 12), images).psnr
    assert evaluate(line.to(torch.uint8), images).psnr == evaluate(line, images).psnr


def test_tiny_images_have_no_ssim():
    summary = evaluate(torch.ones(4, 4), smooth_images(2, size=(4, 4), dtype=torch.complex64)).summary()
    assert summary["ssim"] is None
    assert summary["psnr"] > 100


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(12, 16), r"shape \[12, 16\], but the k-space of the data has shape \[16, 12\]"),
        (torch.full((16, 12), 0.5), "only 0 and 1"),
        (torch.full((16, 12), float("nan")), "only 0 and 1"),
        (torch.zeros(16, 12), "acquires nothing"),
    ],
)
def test_bad_masks(mask, message):
    with pytest.raises(InputError, match=message):
        evaluate(mask, smooth_images(2, dtype=torch.complex64))
