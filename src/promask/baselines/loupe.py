"""LOUPE: probabilities that are learned together with a network that reconstructs (Bahadir et al. 2020).

Logits become probabilities that keep the budget, these become soft random masks, and a U-Net corrects the
zero-filled images. Both learn from the same loss; the mask is made of the units of largest probability. Unlike the
published one, it starts from equal logits: in the few steps that take a minute, random ones are not forgotten.
"""

import itertools
import math

import torch
from torch import nn

from promask.baselines.problem import BaselineProblem
from promask.data.file_set import prepare
from promask.errors import InputError
from promask.losses.image import LOSSES, ImageLoss
from promask.operators.fourier import centred, fft_order, magnitude
from promask.problem.batches import SpectraSet, index_batches
from promask.recon.base import reconstruct_spectra
from promask.recon.zero_filled import ZERO_FILLED
from promask.sampling.pattern import Pattern
from promask.segmentation.network import pad_to_multiple
from promask.types import Batch, ComplexImages, Images, Scalar, UnitDraws, UnitMask, Units

WIDTHS = (8, 16, 32, 64)
"""Channels; the image is halved between two of them."""
SLOPE, SAMPLE_SLOPE = 5.0, 12.0
"""Of the sigmoids that make probabilities and masks, as published."""
STEPS = 300
LOGIT_RATE, NETWORK_RATE = 0.05, 0.002
LARGEST_BATCH, LARGEST_SIZE = 8, 2**18
"""Samples in a batch, and their numbers: four slices of 256 x 256."""
SCALE_SAMPLES = 64
"""The most samples that the scale of the data is taken from."""


class Correction(nn.Module):
    """A U-Net for slices or volumes of any size; the channels of a sample are images of their own.

    It starts with corrections of 0: a mask that learns with it would otherwise learn from noise at first.
    """

    def __init__(self, dimensions: int, seed: int) -> None:
        super().__init__()
        from monai.networks.nets.unet import UNet  # takes seconds

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = UNet(dimensions, 2, 1, WIDTHS, strides=(2,) * (len(WIDTHS) - 1))
        self.gain = nn.Parameter(torch.zeros(()))

    def forward(self, filled: ComplexImages) -> Images:
        """Corrections of zero-filled images with values up to about 1."""
        batch, channels, *space = filled.shape
        parts = torch.view_as_real(filled.flatten(0, 1)).movedim(-1, 1)
        corrections = self.gain * self.network(pad_to_multiple(parts, 2 ** (len(WIDTHS) - 1)))
        return corrections[(..., *(slice(n) for n in space))].reshape(batch, channels, *space)


def loupe(problem: BaselineProblem) -> UnitMask:
    """The units of largest probability."""
    if not isinstance(problem.task, ImageLoss):
        raise InputError(
            f"loupe learns from a loss of images, and not from {problem.task.name}: "
            f"choose one of {', '.join(LOSSES)}."
        )
    probabilities = Probabilities(problem)
    if 0 < probabilities.share < 1:
        samples = SpectraSet(prepare(problem.data), problem.device)
        train(probabilities, samples, problem, problem.task)
    return problem.best(centred(probabilities().detach().cpu(), problem.pattern.encoded))


class Probabilities:
    """One for each unit, in FFT order, that keep the budget; 1 in the central block and 0 in the padding."""

    def __init__(self, problem: BaselineProblem) -> None:
        axes, block = problem.pattern.encoded, problem.block()
        self.always = fft_order(block, axes).to(problem.device)
        self.open = fft_order(~block & ~problem.pattern.never(), axes).to(problem.device)
        self.share = (problem.budget - int(block.sum())) / max(1, int(self.open.sum()))
        """Of the units that are neither in the block nor in the padding, that may be acquired."""
        self.logits = torch.zeros(int(self.open.sum()), device=problem.device, requires_grad=True)

    def __call__(self) -> Units:
        """The probabilities, differentiable in the logits."""
        result = self.always.to(self.logits.dtype)
        return result.masked_scatter(self.open, rescale(torch.sigmoid(SLOPE * self.logits), self.share))


def rescale(probabilities: Units, share: float) -> Units:
    """Probabilities with this mean: all multiplied, or, if they must grow, what they lack of 1.

    >>> rescale(torch.tensor([0.2, 0.6]), 0.2), rescale(torch.tensor([0.2, 0.6]), 0.7)
    (tensor([0.1000, 0.3000]), tensor([0.6000, 0.8000]))
    """
    mean = probabilities.mean()
    if share <= mean:
        return probabilities * (share / mean)
    return 1 - (1 - probabilities) * ((1 - share) / (1 - mean))


def draw_relaxed(probabilities: Units, count: int, generator: torch.Generator) -> UnitDraws:
    """Random masks, one for each sample, with values between 0 and 1."""
    uniform = torch.rand((count, *probabilities.shape), generator=generator).to(probabilities.device)
    return torch.sigmoid(SAMPLE_SLOPE * (probabilities - uniform))


def train(
    probabilities: Probabilities, samples: SpectraSet, problem: BaselineProblem, task: ImageLoss
) -> list[float]:
    """Adapt the probabilities and a network to the data; the losses of all steps."""
    pattern, generator = problem.pattern, problem.generator()
    network = Correction(len(pattern.shape), problem.seed).to(problem.device)
    rates = ([probabilities.logits], LOGIT_RATE), (network.parameters(), NETWORK_RATE)
    optimiser = torch.optim.Adam([{"params": parameters, "lr": rate} for parameters, rate in rates])
    size = max(1, min(LARGEST_BATCH, len(samples), LARGEST_SIZE // math.prod(samples.data.shape)))
    scale = _largest_value(samples)
    losses = []
    for indices in itertools.islice(index_batches(len(samples), size, generator), STEPS):
        optimiser.zero_grad()
        total = 0.0
        for piece in samples.pieces(indices):
            masks = draw_relaxed(probabilities(), len(piece.targets), generator)
            loss = _loss(masks, piece, pattern, task, network, scale) * (len(piece.targets) / size)
            torch.autograd.backward(loss)
            total += float(loss.detach())
        optimiser.step()
        losses.append(total)
    return losses


def _loss(
    masks: UnitDraws, batch: Batch, pattern: Pattern, task: ImageLoss, network: Correction, scale: float
) -> Scalar:
    """Of images up to about 1, as published: Adam's epsilon and the network know no other scale."""
    on_grid = pattern.expand(masks).unsqueeze(1)
    filled = reconstruct_spectra(ZERO_FILLED, batch.spectra / scale, on_grid, indexes=batch.geometry.indexes)
    images = magnitude(filled) + network(filled)
    return task.loss(batch.geometry.crop(images), batch.targets / scale)


def _largest_value(samples: SpectraSet) -> float:
    """In some of the samples, at equal distances."""
    count = min(len(samples), SCALE_SAMPLES)
    return max(float(samples.data[index * len(samples) // count].image.abs().max()) for index in range(count))
