"""The non-uniform Fourier transform: from images to samples anywhere in k-space, and back (finufft).

Transforms are scaled as the orthonormal one on the Cartesian grid: at its places, both are the same. The normal
operator needs no transform of this kind: F^H W F is a convolution, done on a grid of twice the size, whose kernel
is one transform of the weights (Wajer and Pruessmann 2001).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Complex, Float, Num
from torch import Tensor

from promask.errors import InputError

TOLERANCE = {torch.complex64: 1e-6, torch.complex128: 1e-12}
"""The relative error that is asked for."""
AT_A_TIME = 4
"""Images that several threads convolve at a time; a single thread is faster with one, which stays in the cache."""


@dataclass(frozen=True, eq=False)
class Nufft:
    """F: images (..., y, x) to samples (..., sample), and its adjoint.

    >>> import torch
    >>> middle = Nufft(torch.zeros(1, 2), (4, 4))(torch.ones(4, 4, dtype=torch.complex64))
    >>> round(abs(middle.item()), 4)
    4.0

    Args:
        points: The place of each sample, (sample, 2), along y and x, in cycles per pixel, from -1/2 to 1/2.
        shape: The size of the images, (y, x).
    """

    points: Float[Tensor, "sample 2"]
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        if not self.points.isfinite().all() or self.points.abs().max() > 0.5 * (1 + 1e-6):
            raise InputError(
                f"The trajectory leaves k-space: its coordinates must be from -1/2 to 1/2 cycles per pixel, but "
                f"reach {float(self.points.abs().max()):.4g}."
            )

    def __call__(self, images: Num[Tensor, "*leading y x"]) -> Complex[Tensor, "*leading sample"]:
        """The samples of images."""
        images = images if images.is_complex() else images.to(images.dtype.to_complex())
        leading = images.shape[:-2]
        found = self._transform(2, -1, self.shape, images.reshape(-1, *self.shape))
        return found.reshape(*leading, len(self.points)) / math.sqrt(math.prod(self.shape))

    def adjoint(self, samples: Complex[Tensor, "*leading sample"]) -> Complex[Tensor, "*leading y x"]:
        """F^H of samples."""
        leading = samples.shape[:-1]
        found = self._transform(1, 1, self.shape, samples.reshape(-1, len(self.points)))
        return found.reshape(*leading, *self.shape) / math.sqrt(math.prod(self.shape))

    def kernel(self, weights: Float[Tensor, " sample"]) -> Float[Tensor, "twice_y twice_x"]:
        """The spectrum of the convolution F^H W F, for `convolve`, with the scale of its transforms; linear in W.

        Args:
            weights: Of each sample, real.

        Returns:
            Real, on twice the grid, in FFT order.
        """
        twice = (2 * self.shape[0], 2 * self.shape[1])
        response = self._transform(1, 1, twice, weights.to(weights.dtype.to_complex())[None])[0]
        response[0], response[:, 0] = 0, 0  # the one shift that no two pixels have, whose twin is missing
        return torch.fft.fft2(torch.fft.ifftshift(response), norm="forward").real / math.prod(self.shape)

    def _transform(self, kind: int, sign: int, modes: tuple[int, int], values: Tensor) -> Tensor:
        library, (y, x) = _library(values.device), self._turns(values.dtype)
        settings: dict[str, Any] = {"eps": TOLERANCE[values.dtype], "isign": sign}
        if not values.is_cuda:
            settings["nthreads"] = torch.get_num_threads()
        dtype = str(values.dtype).removeprefix("torch.")
        plan = library.Plan(kind, modes, len(values), dtype=dtype, **settings)
        arrays = (each.to(values.device).contiguous() for each in (y, x, values.detach()))
        along_y, along_x, content = (each if each.is_cuda else each.cpu().numpy() for each in arrays)
        plan.setpts(along_y, along_x)
        found = torch.as_tensor(plan.execute(content)).to(values.device)
        return found if len(values) > 1 else found.reshape(1, *found.shape[-(2 if kind == 1 else 1) :])

    def _turns(self, dtype: torch.dtype) -> Tensor:
        """Both coordinates in radians per pixel."""
        if dtype not in self._known:
            turns = (2 * torch.pi * self.points).clamp(-torch.pi, torch.pi)
            self._known[dtype] = turns.to(dtype.to_real()).T.contiguous()
        return self._known[dtype]

    @cached_property
    def _known(self) -> dict[torch.dtype, Tensor]:
        return {}


def convolve(
    images: Complex[Tensor, "*leading y x"], kernel: Float[Tensor, "*leading_or_1 twice_y twice_x"]
) -> Complex[Tensor, "*leading y x"]:
    """F^H W F of images, for the kernel of the weights W.

    A few images at a time, so that the larger grid stays in the cache.

    Args:
        images: Complex, (..., y, x).
        kernel: From `Nufft.kernel`, (..., 2 y, 2 x): as many axes as the images, or two; those of length 1 hold
            for all.

    Returns:
        Of the shape of the images.
    """
    result = torch.empty_like(images)
    _convolve_into(result, images, kernel)
    return result


def _convolve_into(result: Tensor, images: Tensor, kernel: Tensor) -> None:
    if images.ndim > 3:
        for place in range(len(images)):
            own = kernel if kernel.ndim == 2 else kernel[place if len(kernel) > 1 else 0]
            _convolve_into(result[place], images[place], own)
        return
    rows, columns = images.shape[-2:]
    at_a_time = 1 if torch.get_num_threads() == 1 else AT_A_TIME
    for start in range(0, len(images) if images.ndim == 3 else 1, at_a_time):
        some = slice(start, start + at_a_time) if images.ndim == 3 else ...
        own = kernel[some] if kernel.ndim == 3 and len(kernel) > 1 else kernel
        spectrum = torch.fft.fft2(images[some], (2 * rows, 2 * columns)).mul_(own)
        result[some] = torch.fft.ifft2(spectrum, norm="forward")[..., :rows, :columns]


def _library(device: torch.device) -> ModuleType:
    """finufft, or cufinufft on a GPU; an InputError that says how to install it."""
    try:
        if device.type == "cuda":
            import cufinufft as library
        else:
            import finufft as library
    except ImportError as error:
        name, extra = ("cufinufft", "cufinufft") if device.type == "cuda" else ("finufft", "'promask[radial]'")
        raise InputError(f"Spokes and spirals need {name}, which is not installed: pip install {extra}") from error
    return library
