"""Algorithm 1 of the paper, written out literally: the yardstick for speed and the oracle for correctness.

Nothing here is shared with the package: two Gumbel numbers per entry, autograd through the soft mask, centred
transforms with their shifts at every step, torch's Adam, and bisection for the projection.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

Criterion = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Settings:
    """Section 4 of the paper."""

    acceleration: float
    iterations: int = 2500
    samples: int = 4
    learning_rate: float = 0.01
    exploration: float = 0.1
    exploitation: float = 0.1
    power: int = 3


def textbook(
    kspace: Tensor,
    theta: Tensor,
    settings: Settings,
    criterion: Criterion,
    batches: Iterable[Tensor],
    gumbel: Callable[[tuple[int, ...]], Tensor],
) -> Iterator[Tensor]:
    """Yield theta after every iteration.

    `kspace` is (N, channel, H, W), centred; `theta` (H, W), or (1, W) or (H, 1) for lines; `batches` gives the
    indices of each batch; `gumbel` draws Gumbel(0, 1) numbers of a shape, first g1, then g0.
    """
    theta = theta.clone().requires_grad_()
    optimiser = torch.optim.Adam([theta], lr=settings.learning_rate)
    target = int(theta.numel() / settings.acceleration)
    for iteration, batch in zip(range(1, settings.iterations + 1), batches, strict=False):
        x_k = kspace[batch]
        temperature = 1 - (1 - 0.03) * (iteration - 1) / (settings.iterations - 1)

        # Draw samples, Eqs. 4 and 5: L masks for each image.
        shape = (len(x_k), settings.samples, 1, *theta.shape)
        rho = torch.log(theta + 1e-20) - torch.log(1 - theta + 1e-20)
        soft = torch.sigmoid((rho + gumbel(shape) - gumbel(shape)) / temperature)
        hard = torch.where(soft >= 0.5, 1.0, 0.0).to(soft.dtype)
        masks = hard - soft.detach() + soft

        # Undersampled and fully sampled magnitude images, expanded to match.
        undersampled = inverse_fourier(x_k[:, None] * masks).abs()
        full = inverse_fourier(x_k).abs()[:, None].expand_as(undersampled)

        # Batched loss and gradient step.
        optimiser.zero_grad()
        criterion(undersampled.flatten(0, 1), full.flatten(0, 1)).backward()
        optimiser.step()

        # Anneal and project, Eqs. 6 and 7.
        theta.data = project_by_bisection(theta.data, anneal(iteration, theta.numel(), target, settings))
        yield theta.detach().clone()


def inverse_fourier(kspace: Tensor) -> Tensor:
    """Centred, orthonormal inverse transform over the last two axes."""
    shifted = torch.fft.ifftshift(kspace, dim=(-2, -1))
    return torch.fft.fftshift(torch.fft.ifft2(shifted, norm="ortho"), dim=(-2, -1))


def anneal(iteration: int, units: int, target: int, settings: Settings) -> float:
    """The supplement's schedule; its power is 1 there, and 3 in the work it cites."""
    start = settings.exploration * settings.iterations
    end = (1 - settings.exploitation) * settings.iterations
    if iteration >= end:
        return target
    if iteration <= start:
        return units
    density = target / units
    return units * (density + (1 - density) * (1 - (iteration - start) / (end - start)) ** settings.power)


def project_by_bisection(theta: Tensor, budget: float) -> Tensor:
    """Solve Eq. 6 for lambda by bisection and apply Eq. 7."""
    low, high = float(theta.min()) - 1, float(theta.max())
    for _ in range(80):
        middle = (low + high) / 2
        if float((theta - middle).clamp(0, 1).sum()) > budget:
            low = middle
        else:
            high = middle
    return (theta - max(0.0, high)).clamp(0, 1)


def gumbel_source(dtype: torch.dtype, generator: torch.Generator) -> Callable[[tuple[int, ...]], Tensor]:
    """Gumbel(0, 1) numbers by the inverse of their distribution function."""

    def draw(shape: tuple[int, ...]) -> Tensor:
        uniform = torch.rand(shape, dtype=dtype, generator=generator)
        return -torch.log(-torch.log(uniform + 1e-20) + 1e-20)

    return draw
