"""What promask has written by hand beside the library that does the same: `python -m benchmarks.libraries`.

Wavelets beside PyWavelets and sigpy, structural similarity beside MONAI and scikit-image: how long each takes, how
far the results differ, and whether the library has a derivative for PyTorch.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pywt
import torch
from sigpy.wavelet import fwt, get_wavelet_shape, iwt
from skimage.metrics import structural_similarity as ssim_of_skimage

from benchmarks.steps import hearts
from promask.losses.metrics import UNIFORM, structural_similarity
from promask.operators.fourier import from_spectrum, spectrum
from promask.operators.wavelets import LEVELS, from_wavelets, to_wavelets

REPETITIONS = 15


def milliseconds(action: Callable[[], Any]) -> float:
    """The median of some repetitions, after one that does not count."""
    times = []
    for _ in range(REPETITIONS + 1):
        began = time.perf_counter()
        action()
        times.append(1e3 * (time.perf_counter() - began))
    return float(np.median(times[1:]))


def wavelets(size: int = 256, count: int = 4) -> list[tuple[str, float, float, str]]:
    """Complex images to coefficients and back: name, milliseconds, largest error of the way back, derivative."""
    images = torch.randn(count, 1, size, size, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    arrays = images.numpy()
    axes = (-2, -1)

    def by_pywavelets() -> Any:
        coefficients = pywt.wavedec2(arrays, "db2", mode="periodization", level=LEVELS, axes=axes)
        return pywt.waverec2(coefficients, "db2", mode="periodization", axes=axes)

    _, slices = get_wavelet_shape(arrays.shape, "db2", axes, LEVELS)

    def by_sigpy() -> Any:
        return iwt(fwt(arrays, "db2", axes, LEVELS), arrays.shape, slices, "db2", axes, LEVELS)

    ways: Sequence[tuple[str, Callable[[], Any], str]] = (
        ("promask", lambda: from_wavelets(to_wavelets(images)).numpy(), "yes"),
        ("PyWavelets", by_pywavelets, "no"),
        ("sigpy", by_sigpy, "no"),
        ("a Fourier transform and back", lambda: from_spectrum(spectrum(images, axes), axes).numpy(), "yes"),
    )
    return [
        (name, milliseconds(way), float(np.abs(way() - arrays).max()), derivative)
        for name, way, derivative in ways
    ]


def similarity(size: int = 256, count: int = 16) -> list[tuple[str, float, float, str]]:
    """SSIM of magnitude images from 0 to 1: name, milliseconds, largest difference to promask's, derivative."""
    from monai.metrics.regression import compute_ssim_and_cs

    targets = hearts(size).images[:count].abs()
    targets = targets / targets.amax((1, 2, 3), keepdim=True)
    noise = torch.randn(targets.shape, generator=torch.Generator().manual_seed(0))
    images = (targets + 0.05 * noise).clamp(0, 1).requires_grad_()

    def by_promask(uniform: bool = False) -> torch.Tensor:
        return structural_similarity(images, targets, **({"window": UNIFORM} if uniform else {}))

    def by_monai() -> torch.Tensor:
        found, _ = compute_ssim_and_cs(
            images, targets, 2, (7, 7), (1.0, 1.0), data_range=1.0, kernel_type="gaussian"
        )
        return found.flatten(1).mean(1)

    def by_skimage() -> torch.Tensor:
        pairs = zip(images.detach()[:, 0].numpy(), targets[:, 0].numpy(), strict=True)
        return torch.tensor([ssim_of_skimage(image, target, win_size=7, data_range=1) for image, target in pairs])

    def with_gradient(way: Callable[[], torch.Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(way().mean(), images)

    def difference(way: Callable[[], torch.Tensor], uniform: bool = False) -> float:
        return float((way() - by_promask(uniform)).detach().abs().max())

    return [
        ("promask", milliseconds(by_promask), 0.0, "yes"),
        ("promask, with the gradient", milliseconds(with_gradient(by_promask)), 0.0, "yes"),
        ("MONAI", milliseconds(by_monai), difference(by_monai), "yes"),
        ("MONAI, with the gradient", milliseconds(with_gradient(by_monai)), difference(by_monai), "yes"),
        ("scikit-image (uniform window)", milliseconds(by_skimage), difference(by_skimage, uniform=True), "no"),
    ]


def main() -> None:
    """Print both tables as Markdown."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for title, rows in (
        ("wavelets, 4 images of 256 x 256", wavelets()),
        ("SSIM, 16 images of 256 x 256", similarity()),
    ):
        print(f"| {title} | ms | largest difference | derivative in PyTorch |\n|---|---:|---:|---|")
        for name, taken, difference, derivative in rows:
            print(f"| {name} | {taken:.1f} | {difference:.0e} | {derivative} |")
        print()


if __name__ == "__main__":
    main()
