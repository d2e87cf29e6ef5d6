"""The mask as a layer of a network of your own, learned together with it or for it.

In training, every item of a batch is undersampled with a random mask of its own; in evaluation, all of them with
the mask that would be acquired. The layer learns like any other, with two more calls in a step:

>>> layer = ProbabilisticMask((16, 12), acceleration=4)
>>> optimiser = torch.optim.Adam(layer.parameters(), lr=0.3)
>>> kspace = torch.randn(2, 1, 16, 12, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
>>> for step in range(1, 11):
...     layer.anneal(step, steps=10)
...     optimiser.zero_grad()
...     (layer(kspace) - kspace).abs().square().mean().backward()
...     optimiser.step()
...     layer.constrain()
>>> int(layer.eval().mask.sum())
48
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from promask.errors import InputError
from promask.operators.fourier import centred
from promask.sampling import schedules
from promask.sampling.distribution import MaskDistribution, initial_probabilities
from promask.sampling.gains import GroupedRatio
from promask.sampling.pattern import Pattern
from promask.sampling.projection import constrain, nth_largest
from promask.sampling.straight_through import StraightThroughGumbel, bernoulli, generator, logistic_noise
from promask.types import AnyArray, Mask, UnitDraws, Units

TEMPERATURES = (1.0, 0.03)
"""First and last, as published."""
MARGIN = 1e-9
"""A tenth of the usual epsilon of Adam, which then moves units in proportion to what they are worth, up to ten
times the margin, and not all of them at the same speed."""

Estimate = Callable[[UnitDraws], Units]
"""dL/dm of each drawn mask -> the gradient of the probabilities."""


class ProbabilisticMask(nn.Module):
    """Undersamples centred k-space, (batch, coil or channel, *shape), with masks that it learns.

    A step is `anneal`, the forward and backward pass, the optimiser's step, and `constrain`. Recommended is
    `torch.optim.Adam` with its usual epsilon, no weight decay and a learning rate of 0.3 for this layer, in
    batches of 4 or more. Adam depends on the scale of the gradient, and that on images, loss and network; so the
    gradient is scaled.

    Args:
        shape: The size of k-space, (*space).
        acceleration: The acceleration factor, at least 1.
        pattern: `2d` for single samples of a slice, `1d` for lines, `3d` for samples of a volume.
        axis: The undersampled axes; by default the last ones.
        centre: The width of the calibration region, which is always acquired, and counted.
        init: `uniform`, random probabilities from the seed, or an array of them, one per sample or line.
        seed: Equal seeds give equal masks; the processes of a distributed training draw masks of their own from
            it.
        estimator: `difference` estimates by how much the loss would change if a unit were acquired, taking the
            second derivative to be proportional to the energy of the unit, by factors fitted to the batch.
            `gumbel` is the published one, Eqs. 4 and 5: much noisier, and with a network it may lose the centre of
            k-space.
        margin: The gradient that the last unit within the number of samples gets: 1 for plain SGD. None leaves the
            gradient as it is, for mixed precision, which undoes the scale of the loss.
    """

    probabilities: Tensor
    current_budget: Tensor
    current_temperature: Tensor
    drawn: Tensor
    """How many times masks were drawn."""
    always: Tensor
    nearest_first: Tensor

    def __init__(
        self,
        shape: Sequence[int],
        acceleration: float,
        pattern: str = "2d",
        axis: int | Sequence[int] | None = None,
        centre: int = 0,
        init: Any = "uniform",
        seed: int = 0,
        estimator: str = "difference",
        margin: float | None = MARGIN,
    ) -> None:
        super().__init__()
        if seed < 0:
            raise InputError(f"The seed must be a whole number from 0 on, but is {seed}.")
        if estimator not in ("difference", "gumbel"):
            raise InputError(f"Unknown estimator {estimator!r}: choose one of difference, gumbel.")
        if margin is not None and margin <= 0:
            raise InputError(f"The margin must be above 0, or None for the gradient as it is, but is {margin:g}.")
        free = (axis,) if isinstance(axis, int) else axis
        self.pattern = Pattern.named(pattern, shape, free)
        self.acceleration, self.seed, self.estimator, self.margin = acceleration, seed, estimator, margin
        self.budget = self.pattern.budget(acceleration)
        """How many units are acquired in the end."""
        always = self.pattern.block(centre, self.budget)
        self.centre = centre
        self.probabilities = nn.Parameter(self._start(init).masked_fill(always, 1))
        # Plain tensors, so that a training that is saved and resumed goes on as if nothing had happened.
        self.register_buffer("current_budget", torch.tensor(float(self.budget)))
        self.register_buffer("current_temperature", torch.tensor(TEMPERATURES[0]))
        self.register_buffer("drawn", torch.tensor(0))
        self.register_buffer("always", always, persistent=False)
        nearest_first = self.pattern.distance().flatten().argsort(stable=True)
        self.register_buffer("nearest_first", nearest_first, persistent=False)

    def _start(self, init: Any) -> Units:
        if isinstance(init, str):
            if init != "uniform":
                raise InputError(f"Unknown start {init!r}: give 'uniform' or an array of probabilities.")
            return torch.rand(self.pattern.unit_shape, generator=generator(self.seed, 0, "start"))
        return centred(initial_probabilities(init, self.pattern), self.pattern.encoded)

    def forward(self, kspace: AnyArray) -> Complex[Tensor, "batch channel *space"]:
        """Undersample k-space.

        Args:
            kspace: Centred, complex, (batch, coil or channel, *space).

        Returns:
            The acquired samples, and 0 elsewhere; differentiable in k-space and in the probabilities.
        """
        return kspace * self.masks_for(kspace)

    def masks_for(self, kspace: AnyArray) -> Float[Tensor, "batch 1 *space"]:
        """Return the masks of a forward pass, for networks that need them as well.

        Args:
            kspace: Centred, complex, (batch, coil or channel, *space).

        Returns:
            Zeros and ones, (batch, 1, *space); in training drawn anew in each call, and differentiable in the
            probabilities.
        """
        self._check(kspace)
        if self.training:
            masks = self.pattern.expand(self._draw(kspace))
        else:
            masks = self.mask.expand(len(kspace), *self.pattern.shape)
        return masks.unsqueeze(1).to(kspace.real.dtype)

    @property
    def mask(self) -> Mask:
        """The mask to acquire, centred, (*shape): the `budget` units of largest probability.

        Ties go to the unit nearer to the centre of k-space, as in `Pattern.largest`.
        """
        values = self.probabilities.detach().masked_fill(self.always, torch.inf).flatten()
        by_value = values[self.nearest_first].argsort(descending=True, stable=True)
        chosen = self.nearest_first[by_value[: self.budget]]
        units = torch.zeros_like(values, dtype=torch.bool).index_fill(0, chosen, True)
        return self.pattern.expand(units.reshape(self.pattern.unit_shape))

    @property
    def distribution(self) -> MaskDistribution:
        """The probabilities within the final budget, to sample from, to save and to export."""
        never = torch.zeros_like(self.always)
        within = constrain(self.probabilities.detach(), self.budget, self.always, never)
        return MaskDistribution(within.float().cpu(), self.pattern, self.budget)

    @property
    def budget_now(self) -> float:
        """What the probabilities may sum to after `constrain`: from `budget` to the number of units."""
        return float(self.current_budget)

    @budget_now.setter
    def budget_now(self, value: float) -> None:
        if not self.budget <= value <= self.pattern.units:
            raise InputError(
                f"The budget must be from {self.budget} to the number of units, {self.pattern.units}, "
                f"but is {value:g}."
            )
        self.current_budget.fill_(value)

    @property
    def temperature(self) -> float:
        """Of the estimator `gumbel`: small is exact and noisy."""
        return float(self.current_temperature)

    @temperature.setter
    def temperature(self, value: float) -> None:
        if not value > 0:
            raise InputError(f"The temperature must be above 0, but is {value:g}.")
        self.current_temperature.fill_(value)

    def anneal(
        self,
        step: int,
        steps: int,
        exploration: float = 0.1,
        exploitation: float = 0.1,
        annealing: str = "cubic",
    ) -> None:
        """Set the budget and the temperature of a step to those of the paper's schedules.

        Args:
            step: Counts from 1.
            steps: All steps of the training.
            exploration: The share of the steps, at first, in which everything may be acquired.
            exploitation: The share of the steps, in the end, in which the final budget holds.
            annealing: How the budget falls between them: `cubic` or `linear`; `none` holds it from the first step.
        """
        if not 1 <= step <= steps:
            raise InputError(f"The step must be from 1 to {steps}, but is {step}.")
        if annealing not in schedules.ANNEALINGS:
            raise InputError(f"Unknown annealing {annealing!r}: choose one of {', '.join(schedules.ANNEALINGS)}.")
        units = self.pattern.units
        self.budget_now = schedules.budget(step, steps, units, self.budget, exploration, exploitation, annealing)
        self.temperature = schedules.linear(step, steps, *TEMPERATURES)

    @torch.no_grad()
    def constrain(self) -> None:
        """Move the probabilities to the nearest ones within the current budget: after each optimiser's step."""
        never = torch.zeros_like(self.always)
        self.probabilities.copy_(constrain(self.probabilities, self.budget_now, self.always, never))

    def extra_repr(self) -> str:
        """What `print` shows."""
        centre = f", centre={self.centre}" if self.centre else ""
        return (
            f"{self.pattern.shape}, acceleration={self.acceleration:g}, free={self.pattern.free}{centre}, "
            f"budget={self.budget} of {self.pattern.units} units"
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ProbabilisticMask":
        """Move with the network, but keep the precision: fewer digits would make ties, and another mask."""

        def moved(tensor: Tensor) -> Tensor:
            result = fn(tensor)
            return result if result.dtype == tensor.dtype else tensor.to(result.device)

        return super()._apply(moved, recurse)  # type: ignore[no-untyped-call]

    def _check(self, kspace: AnyArray) -> None:
        shape = self.pattern.shape
        if not kspace.is_complex():
            raise InputError(f"K-space must be complex, but is {kspace.dtype}: see torch.view_as_complex.")
        if kspace.ndim != 2 + len(shape) or tuple(kspace.shape[2:]) != shape:
            raise InputError(
                f"K-space must have the axes batch, channel and {list(shape)}, "
                f"but its shape is {list(kspace.shape)}."
            )

    # Random numbers from a generator cannot be compiled: here a compiled network calls Python.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _draw(self, kspace: Complex[Tensor, "batch channel *space"]) -> Float[Tensor, "batch *units"]:
        """Random masks, one for each item of the batch, differentiable in the probabilities."""
        count = len(kspace)
        theta = self.probabilities.detach().clamp(0, 1).masked_fill(self.always, 1)
        # A stream for each call: its number is all that there is to save, and to agree on among processes.
        stream = generator(self.seed, _rank(), f"masks {int(self.drawn)}", theta.device)
        self.drawn.add_(1)
        estimate: Estimate
        if self.estimator == "gumbel":
            noise = logistic_noise((count, *theta.shape), theta, stream)
            draws = StraightThroughGumbel(theta, self.temperature)(noise)
            masks, estimate = draws.masks, partial(straight_through, draws.slope)
        else:
            masks = bernoulli(theta, count, stream)
            energies = self.pattern.energies(kspace.detach()).to(theta.dtype)
            estimate = partial(difference, masks, energies)
        drawn: Tensor = _Drawn.apply(  # type: ignore[no-untyped-call]
            self.probabilities, masks, lambda gradients: self._scaled(estimate(gradients))
        )
        return drawn

    def _scaled(self, gradient: Units) -> Units:
        """No gradient where there is no choice, and elsewhere one of the scale that the optimiser wants."""
        gradient = gradient.masked_fill(self.always, 0)
        affordable = self.budget - int(self.always.sum())
        if self.margin is None or affordable == 0:
            return gradient
        marginal = nth_largest(-gradient[~self.always], affordable).abs()
        return gradient * (self.margin / marginal.clamp_min(torch.finfo(gradient.dtype).tiny))


class _Drawn(Function):
    """Masks that tell the probabilities what they learned from the gradients."""

    @staticmethod
    def forward(ctx: Any, probabilities: Tensor, masks: Tensor, estimate: Estimate) -> Tensor:
        ctx.estimate = estimate
        return masks.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.estimate(gradients), None, None


def straight_through(slope: UnitDraws, gradients: UnitDraws) -> Units:
    """Eq. 4: dL/dm times d(soft mask)/dtheta, summed over the masks of a batch."""
    return (slope * gradients).sum(0)


def difference(masks: UnitDraws, energies: UnitDraws, gradients: UnitDraws) -> Units:
    """L(m=1) - L(m=0) of each unit, summed over the masks of a batch, from dL/dm.

    For a loss that is quadratic in the unit it is dL/dm + (1/2 - m) c, whichever m was drawn. As in
    `promask.sampling.gains`, c is taken to be the energy of the unit times a factor, fitted for units of like
    energy: by how much the derivatives of drawn and undrawn units differ.
    """
    slope, drawn_slope = gradients.sum(0), (masks * gradients).sum(0)
    total, acquired = energies.sum(0), (masks * energies).sum(0)
    share = acquired / total.clamp_min(torch.finfo(total.dtype).tiny)
    factor = GroupedRatio(total)(drawn_slope - share * slope, (1 - share) * acquired).clamp_min(0)
    return slope + factor * (total / 2 - acquired)


def _rank() -> int:
    """The number of this process in a distributed training."""
    available = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if available else 0
