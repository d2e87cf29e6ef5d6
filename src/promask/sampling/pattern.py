"""Which axes of k-space are undersampled: how units become a mask.

Units live on the undersampled ("free") axes and are broadcast along the others. Both axes of a slice: single
samples. One axis: lines. Two of three: (ky, kz) pairs along a readout. The first axis of series counts frames or
contrasts, and is not Fourier-encoded: with it among the free ones, units are the lines (or samples) of each frame.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Integer, Shaped
from torch import Tensor

from promask.errors import InputError
from promask.operators.fourier import real_product
from promask.operators.trajectory import Trajectory
from promask.sampling import feasible
from promask.sampling.costs import whole_costs
from promask.sampling.free_axes import (
    STACK,
    TRAJECTORIES,
    axes_on,
    check_free,
    named_axes,
    of_each_frame,
    trajectory_on,
)
from promask.sampling.limits import CONTRAST, NO_LIMITS, Limits
from promask.sampling.projection import constrain
from promask.types import Geometry, Spectra, UnitDraws, UnitMask, Units

ROTATION, SAMPLE = "angle", "sample"
"""The names of the axes of k-space along a trajectory."""


@dataclass(frozen=True)
class Pattern:
    """The undersampled axes of a k-space grid; everything is centred.

    >>> lines = Pattern(shape=(4, 6), free=(1,))
    >>> lines.units, lines.unit_shape
    (6, (6,))
    >>> lines.expand(torch.arange(6)).shape
    torch.Size([4, 6])

    Args:
        shape: The size of k-space, (*space).
        free: The undersampled axes, increasing.
        extent: Start and end of the part of each axis that the scanner covers; empty for all of it. What lies
            outside is padding: it is never acquired, and not counted.
        directions: The names of all axes, such as ("kx", "ky"); empty if they are not known.
        readout: The axis along which the scanner reads whole lines; None if there is none, or it is not known.
        limits: What else a protocol demands: see `promask.sampling.limits`.
        indexed: The role of the first axis if it is not encoded: `frame` or `contrast`; otherwise empty. If it is
            free, each frame has units of its own; otherwise all frames share theirs.
        period: After so many frames the pattern begins anew; 0: it does not repeat.
        contrasts: The names of contrasts, such as ("T1", "FLAIR"); empty if they are not known, or not indexed.
        trajectory: Of spokes and spirals: then k-space has an axis of rotations, which are chosen, and the last
            one counts the samples of each; None on the Cartesian grid.
    """

    shape: tuple[int, ...]
    free: tuple[int, ...]
    extent: tuple[tuple[int, int], ...] = ()
    directions: tuple[str, ...] = ()
    readout: int | None = None
    limits: Limits = NO_LIMITS
    indexed: str = ""
    period: int = 0
    contrasts: tuple[str, ...] = ()
    trajectory: Trajectory | None = None

    def __post_init__(self) -> None:
        check_free(self.free, self.shape)
        extent = self.extent or tuple((0, n) for n in self.shape)
        fits = len(extent) == len(self.shape)
        if not fits or any(not 0 <= a < b <= n for (a, b), n in zip(extent, self.shape, strict=True)):
            raise InputError(f"The extent {extent} does not fit k-space of shape {list(self.shape)}.")
        if len(self.directions) not in (0, len(self.shape)) or self.readout not in (None, *range(len(self.shape))):
            raise InputError(f"The directions {list(self.directions)} do not fit k-space of {list(self.shape)}.")
        if self.indexed and self.free == (0,):
            raise InputError(
                f"A pattern must undersample a direction of k-space, not the axis of {self.indexed}s."
            )
        if self.period and not (self.varies and self.period > 0 and self.shape[0] % self.period == 0):
            many = f"{self.shape[0]} {self.indexed}s" if self.varies else "a pattern that all frames share"
            raise InputError(f"`period` must divide the number of frames, but is {self.period} for {many}.")
        object.__setattr__(self, "extent", extent)
        if self.trajectory is not None:
            self._check_trajectory(self.trajectory)
        self.limits.check(self.unit_shape, self._unit_extent, self.varies)

    def _check_trajectory(self, trajectory: Trajectory) -> None:
        place = int(bool(self.indexed))
        stated = (self.shape[place], self.shape[-1]) if len(self.shape) > place + 1 else self.shape
        if stated != (trajectory.candidates, trajectory.samples) or place not in self.free:
            raise InputError(
                f"K-space of shape {list(self.shape)} does not fit {trajectory.candidates} {trajectory.noun} of "
                f"{trajectory.samples} samples."
            )
        limits = self.limits
        if limits.leave_out or limits.largest_gap or limits.acs_shape != NO_LIMITS.acs_shape or limits.cost:
            raise InputError(
                f"`shutter`, `acs_shape`, `partial_fourier`, `largest_gap` and `cost` are for Cartesian patterns, "
                f"and not for {trajectory.noun}: leave them out."
            )

    @staticmethod
    def named(
        name: str,
        shape: Sequence[int],
        axis: Sequence[int] | None = None,
        extent: Sequence[tuple[int, int]] = (),
    ) -> "Pattern":
        """Make a pattern by its name.

        >>> Pattern.named("1d", (4, 6), axis=[0]).unit_shape
        (4,)

        Args:
            name: `1d`, `2d` or `3d`: one, two or three undersampled axes.
            shape: The size of k-space, (*space).
            axis: Which axes; by default the last ones.
            extent: The part of each axis that the scanner covers; empty for all of it.

        Returns:
            The pattern.
        """
        return Pattern(tuple(shape), named_axes(name, shape, axis), tuple(extent))

    @staticmethod
    def on(
        shape: Sequence[int],
        geometry: Geometry,
        name: str | None = None,
        axis: Sequence[int | str] | None = None,
        allow_readout: bool = False,
    ) -> "Pattern":
        """Make the pattern for data whose axes are known: what is read out as a whole is not undersampled.

        >>> raw = Geometry(axes=("kx", "ky"), readout=0)
        >>> Pattern.on((4, 6), raw).free, Pattern.on((4, 6), raw, axis=["ky"]).free
        ((1,), (1,))

        Args:
            shape: The size of k-space, (*space).
            geometry: What is known of its axes.
            name: `1d`, `2d` or `3d`, of series the same in every frame; `kt` or `kt-2d` for the lines or samples
                of each frame; None: all phase encodings if the readout is known, otherwise two directions; of
                series the same of each frame, or the lines of each frame. `radial`, `spiral`, `kt-radial`,
                `kt-spiral` or `stack-of-stars` for what is not Cartesian.
            axis: The undersampled axes, as numbers or as directions such as `ky`; None: the last phase encodings.
            allow_readout: Whether the readout may be undersampled, which no scanner can do.

        Returns:
            The pattern.

        Raises:
            InputError: If there is no such axis, or the readout would be undersampled.
        """
        if name in TRAJECTORIES or geometry.trajectory is not None:
            if axis is not None:
                raise InputError("`axis` is for Cartesian patterns, and not for spokes and spirals: leave it out.")
            found, free = trajectory_on(shape, geometry, name)
            return Pattern.along(found.kspace_shape(shape), found, free)
        return Pattern(
            tuple(shape),
            axes_on(shape, geometry, name, axis, allow_readout),
            geometry.extent,
            geometry.axes,
            geometry.readout,
            indexed=geometry.indexed,
            contrasts=geometry.contrasts if geometry.indexed == CONTRAST else (),
        )

    @staticmethod
    def along(shape: Sequence[int], geometry: Geometry, free: Sequence[int]) -> "Pattern":
        """The pattern of images that are acquired along the trajectory of their geometry.

        Args:
            shape: The size of k-space, such as (candidates, samples).
            geometry: With a trajectory.
            free: The axes of k-space whose places are chosen.

        Returns:
            The pattern.
        """
        first = geometry.indexes
        stack = (geometry.axes[0] if geometry.axes else "kz",) if len(shape) - first == 3 else ()
        directions = (*(geometry.indexed,) * first, ROTATION, *stack, SAMPLE)
        return Pattern(
            *(tuple(shape), tuple(free), (), directions, len(shape) - 1),
            indexed=geometry.indexed,
            trajectory=geometry.trajectory,
        )

    @property
    def name(self) -> str:
        """`1d`, `2d` or `3d`, by the number of undersampled directions; of each frame, `kt` or `kt-2d`.

        >>> Pattern((4, 6), free=(1,)).name, Pattern((20, 4, 6), free=(0, 1), indexed="frame").name
        ('1d', 'kt')
        """
        if self.trajectory is not None:
            return STACK if self.encoded else f"{'kt-' if self.varies else ''}{self.trajectory.kind}"
        within = f"{self.encoded}d"
        return of_each_frame(within) if self.varies else within

    @property
    def image_shape(self) -> tuple[int, ...]:
        """The size of the images, (*space): that of k-space, unless it is along a trajectory."""
        if self.trajectory is None:
            return self.shape
        first = int(bool(self.indexed))
        return (*self.shape[:first], *self.shape[first + 1 : -1], *self.trajectory.matrix)

    @property
    def varies(self) -> bool:
        """Whether each frame or contrast of a series has units of its own."""
        return bool(self.indexed) and self.free[0] == 0

    @property
    def encoded(self) -> int:
        """How many undersampled axes are directions of k-space, and no rotations: the last axes of the units."""
        return len(self.free) - self._counted

    @property
    def _counted(self) -> int:
        """How many undersampled axes, the first ones, are no directions of k-space: frames, and rotations."""
        return self.varies + (self.trajectory is not None)

    @property
    def slicing_axis(self) -> int | None:
        """The axis of a volume along which it falls into slices that have nothing to do with each other.

        Along an axis that is not undersampled, an inverse transform of k-space separates the positions: the
        readout if it is known, otherwise the first such axis. None where samples are slices, or all axes are
        undersampled. Frames are not positions.

        >>> Pattern((4, 6, 5), free=(1, 2)).slicing_axis, Pattern((4, 6), free=(1,)).slicing_axis
        (0, None)
        """
        whole = [axis for axis in range(bool(self.indexed), len(self.shape)) if axis not in self.free]
        if len(self.shape) < 3 or not whole or self.trajectory is not None:
            return None
        return self.readout if self.readout in whole else whole[0]

    def plane(self, axis: int) -> "Pattern":
        """The pattern of slices along an axis that is not undersampled: it has the same units.

        >>> plane = Pattern((4, 6, 5), free=(1, 2)).plane(0)
        >>> plane.shape, plane.free
        ((6, 5), (0, 1))

        Args:
            axis: The axis to leave out.

        Returns:
            The pattern of the other axes.
        """
        if axis in self.free:
            raise InputError(f"Axis {axis} is undersampled: there are no slices along it.")
        others = [each for each in range(len(self.shape)) if each != axis]
        return replace(
            self,
            shape=tuple(self.shape[each] for each in others),
            free=tuple(others.index(each) for each in self.free),
            extent=tuple(self.extent[each] for each in others),
            directions=tuple(self.directions[each] for each in others) if self.directions else (),
            readout=others.index(self.readout) if self.readout in others else None,
        )

    def alone(self) -> "Pattern":
        """The pattern within one frame or contrast, where each has its own.

        >>> alone = Pattern((20, 6, 5), free=(0, 1), indexed="frame").alone()
        >>> alone.shape, alone.free
        ((6, 5), (0,))
        """
        return Pattern(
            self.shape[1:],
            tuple(axis - 1 for axis in self.free[1:]),
            self.extent[1:],
            self.directions[1:],
            None if self.readout is None else self.readout - 1,
            self.limits.keep(range(1, len(self.free))),
        )

    @property
    def unit_shape(self) -> tuple[int, ...]:
        """The shape of the grid of units."""
        shape = tuple(self.shape[axis] for axis in self.free)
        return (self.period, *shape[1:]) if self.period else shape

    @property
    def pictured(self) -> tuple[int, int]:
        """The two axes that a picture of k-space shows, rows and columns: those that are undersampled.

        They are counted from the end, and hold for arrays with leading axes, too. Lines come with another axis,
        along which they do not change; of three axes, the last two are shown.

        >>> Pattern((4, 6, 5), free=(0, 1)).pictured, Pattern((4, 6, 5), free=(2,), readout=1).pictured
        ((-3, -2), (-3, -1))
        """
        others = sorted(
            set(range(len(self.shape))) - set(self.free), key=lambda axis: (axis != self.readout, axis)
        )
        first, last = sorted((*others, *self.free)[-2:])
        return first - len(self.shape), last - len(self.shape)

    @property
    def units(self) -> int:
        """How many units there are to choose from, padding left out; with costs, what they cost together.

        >>> Pattern(shape=(4, 6), free=(1,), extent=((0, 4), (1, 6))).units
        5
        """
        lengths = [stop - start for start, stop in self._unit_extent]
        if self.limits.cost:
            lengths[0] = sum(whole_costs(self.limits.cost))
        return math.prod(lengths)

    @property
    def full(self) -> int:
        """What a complete scan has, which accelerations are relative to: of spokes, what Nyquist asks for."""
        trajectory = self.trajectory
        return self.units if trajectory is None else self.units // trajectory.candidates * trajectory.full

    @property
    def costs(self) -> Integer[Tensor, "*units"]:
        """What each unit costs, in whole numbers: 1, unless contrasts have costs of their own."""
        if not self.limits.cost:
            return torch.ones(self.unit_shape, dtype=torch.int64)
        whole = torch.tensor(whole_costs(self.limits.cost))
        return whole.reshape(-1, *[1] * self.encoded).expand(self.unit_shape)

    @property
    def cost_unit(self) -> float:
        """What a budget of 1 stands for: 1 sample or line, or so many seconds where contrasts have costs."""
        return self.limits.cost[0] / whole_costs(self.limits.cost)[0] if self.limits.cost else 1.0

    def spent(self, units: UnitMask) -> int:
        """What units cost together: their number, unless contrasts have costs of their own.

        >>> lines = Pattern((2, 6), (0, 1), indexed="contrast", limits=Limits(cost=(1, 2.5)))
        >>> lines.spent(lines.centre(2)), lines.units
        (14, 42)

        Args:
            units: Those that are acquired, (*unit_shape), centred.

        Returns:
            The cost; a mask may cost at most its budget.
        """
        return int(self.costs[units].sum()) if self.limits.cost else int(units.sum())

    @property
    def _unit_extent(self) -> tuple[tuple[int, int], ...]:
        extent = tuple(self.extent[axis] for axis in self.free)
        return ((0, self.period), *extent[1:]) if self.period else extent

    def name_of(self, position: int) -> str:
        """Name an undersampled direction.

        Args:
            position: Its place among the undersampled ones.

        Returns:
            Such as `ky`, or `axis 0` if it is not known; `frame` for the axis of frames.
        """
        if self.varies and position == 0:
            return self.indexed
        axis = self.free[position]
        return self.directions[axis] if self.directions else f"axis {axis}"

    def never(self) -> Bool[Tensor, "*units"]:
        """The units that are never acquired: padding, and what the shutter and partial Fourier leave out."""
        if not self.limits.leave_out:
            return self.padding()
        return self.padding() | self.limits.never(self.unit_shape, self._unit_extent, self.varies)

    @property
    def acquirable(self) -> int:
        """How many units may be acquired; with costs, what they cost together."""
        return self.spent(~self.never()) if self.limits.leave_out else self.units

    def padding(self) -> Bool[Tensor, "*units"]:
        """The units that the scanner does not cover."""
        outside = torch.ones(self.unit_shape, dtype=torch.bool)
        outside[tuple(slice(*ends) for ends in self._unit_extent)] = False
        return outside

    def budget(self, acceleration: float) -> int:
        """Compute the number of units that are acquired, S = floor(units of a complete scan / acceleration).

        Args:
            acceleration: The acceleration factor, from 1 to the number of units.

        Returns:
            S, at least 1; with equal numbers for each kz, rounded down to a multiple of how many there are.
        """
        if not 1 <= acceleration <= self.full:
            noun = "samples or lines" if self.trajectory is None else f"{self.trajectory.noun} of a complete scan"
            raise InputError(
                f"`acceleration` must be from 1 to {self.full}, the number of {noun}, but is {acceleration:g}."
            )
        # 33 / 1.1 is 29.999999999999996 in floating point, and 30 to everyone else.
        budget = math.floor(self.full / acceleration + 1e-9)
        return feasible.equal_budget(self, budget, acceleration)

    def expand(self, units: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """Broadcast units to masks.

        Args:
            units: (..., *unit_shape).

        Returns:
            (..., *shape): a view, constant along the axes that are not undersampled.
        """
        leading = units.shape[: units.ndim - len(self.free)]
        if self.period:
            units = units.repeat(*[1] * len(leading), self.shape[0] // self.period, *[1] * self.encoded)
        inserted = [n if axis in self.free else 1 for axis, n in enumerate(self.shape)]
        return units.reshape(*leading, *inserted).expand(*leading, *self.shape)

    def restrict(self, mask: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """Find the units of masks, the inverse of `expand`.

        Args:
            mask: (..., *shape), made of whole units.

        Returns:
            (..., *unit_shape).
        """
        if mask.shape[mask.ndim - len(self.shape) :] != self.shape:
            raise InputError(f"A mask of shape {list(mask.shape)} does not fit k-space of {list(self.shape)}.")
        units = mask[(..., *(slice(None) if axis in self.free else 0 for axis in range(len(self.shape))))]
        units = units.narrow(-len(self.free), 0, self.period) if self.period else units
        if not torch.equal(self.expand(units), mask):
            raise InputError(f"The mask is not made of whole units along the free axes {list(self.free)}.")
        return units

    def total(self, values: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """Sum over the locations of each unit, the adjoint of `expand`.

        Args:
            values: (..., *shape).

        Returns:
            (..., *unit_shape).
        """
        bound = [axis - len(self.shape) for axis in range(len(self.shape)) if axis not in self.free]
        values = values.sum(bound) if bound else values
        return (
            values.unflatten(-len(self.free), (-1, self.period)).sum(-1 - len(self.free))
            if self.period
            else values
        )

    def energies(self, spectra: Spectra) -> UnitDraws:
        """Compute the energy of each unit in each image.

        Args:
            spectra: K-space, (batch, coil or channel, *shape).

        Returns:
            (batch, *unit_shape): the squared magnitudes, summed over channels and the samples of the unit.
        """
        squares = real_product(spectra, spectra)
        return self.total(squares.squeeze(1) if squares.shape[1] == 1 else squares.sum(1))

    def centre(self, width: int) -> Bool[Tensor, "*units"]:
        """Choose the units within a block, or an ellipse, around the centre of k-space.

        >>> Pattern((4, 6), free=(1,)).centre(2)
        tensor([False, False,  True,  True, False, False])

        Args:
            width: Along every undersampled axis.

        Returns:
            (*unit_shape), without what is never acquired.
        """
        return self._centre(width) & ~self.never()

    def block(self, width: int, budget: int) -> Bool[Tensor, "*units"]:
        """Choose the calibration region, which must fit the number of units that may be acquired.

        Args:
            width: Along every undersampled axis, at least 0.
            budget: How many units may be acquired.

        Returns:
            (*unit_shape), centred: whether each unit is in the region.

        Raises:
            InputError: If the region has more units than may be acquired, or no mask of so many units could have
                the region and keep the limits.
        """
        if width < 0:
            raise InputError(f"The width of the centre must be at least 0, but is {width}.")
        if width and self.trajectory is not None:
            raise InputError(
                f"`centre` is for Cartesian patterns: all {self.trajectory.noun} have the centre in them."
            )
        block = self.centre(width)
        feasible.check_block(self, block, self._centre(width) & ~self.padding(), width, budget)
        return block

    def innermost(self, count: int) -> Bool[Tensor, "*units"]:
        """The largest central block of the proportions of k-space that has at most `count` units.

        What is left of the count goes to the rim of the next larger block, nearest first.

        >>> Pattern((4, 6), free=(0, 1)).innermost(5).int()
        tensor([[0, 0, 0, 0, 0, 0],
                [0, 0, 1, 1, 0, 0],
                [0, 0, 1, 1, 1, 0],
                [0, 0, 0, 0, 0, 0]], dtype=torch.int32)

        Args:
            count: How many units to choose.

        Returns:
            (*unit_shape), centred: whether each unit is chosen.
        """
        needed = torch.zeros(self.unit_shape, dtype=torch.float64)
        for position, n in self._encoded_axes:
            offset = torch.arange(n) - n // 2
            # The width of the smallest block that reaches as far: 1, then -1 to 0, then -1 to 1, ...
            width = torch.where(offset < 0, -2 * offset, 2 * offset + 1).double() / n
            needed = needed.maximum(self._along(position, width))
        return self.largest(-needed, count)

    def half(self) -> Shaped[Tensor, "*units"]:
        """1 in one half of k-space, -1 at the conjugate twins of these units, and 0 for units without a twin.

        >>> Pattern((4, 6), free=(1,)).half()
        tensor([ 0., -1., -1.,  0.,  1.,  1.])
        """
        result = torch.zeros(self.unit_shape)
        for position, n in self._encoded_axes:
            frequency = torch.arange(n) - n // 2
            side = torch.where(2 * frequency == -n, 0, frequency).sign().to(result.dtype)
            result = torch.where(result == 0, self._along(position, side), result)
        return result

    def largest(self, values: Shaped[Tensor, "*units"], count: int) -> Bool[Tensor, "*units"]:
        """Choose so many units that keep the limits, with the largest sum of values; or so many as a budget pays.

        Ties go to the unit nearer to the centre of k-space, then to the one that comes first in memory.

        Args:
            values: One for each unit, (*unit_shape); infinite for units that must be chosen. Where units have
            costs, values are per cost: their sum is weighted with the costs.
            count: How many units; with costs, what they may cost, which is spent as far as whole units allow.

        Returns:
            (*unit_shape).

        Raises:
            InputError: If no so many units keep the limits.
        """
        if self.limits.couple:
            return feasible.largest(self, values, count)
        chosen = torch.zeros(values.numel(), dtype=torch.bool)
        chosen[self.by_value(values)[:count]] = True
        return chosen.reshape(self.unit_shape)

    def by_value(self, values: Shaped[Tensor, "*units"]) -> Shaped[Tensor, " units"]:
        """Order the units that may be acquired, as `largest` does.

        Args:
            values: One for each unit, (*unit_shape).

        Returns:
            The numbers of the units, those of the largest values first.
        """
        nearest_first = self.distance().flatten().argsort(stable=True)
        nearest_first = nearest_first[~self.never().flatten()[nearest_first]]
        return nearest_first[values.flatten()[nearest_first].argsort(descending=True, stable=True)]

    def nearest(self, units: UnitMask, always: UnitMask, worth: Units, budget: int) -> UnitMask:
        """Choose units that keep the budget and the limits, with as few changes as possible.

        Args:
            units: What is wished for, (*unit_shape).
            always: Units that must be chosen, (*unit_shape).
            worth: By which changes are chosen, (*unit_shape): units of more worth come, and those of less leave.
            budget: How many are to be acquired, or what they may cost.

        Returns:
            (*unit_shape).
        """
        return feasible.nearest(self, units, always, worth, budget) if self.limits.couple else units

    def project(self, theta: Units, budget: float, always: UnitMask) -> Units:
        """Find the nearest probabilities that keep the budget and the limits.

        They are 1 for units that are always acquired, 0 for those that never are, and sum to at most the budget,
        or cost at most as much; with equal numbers, those of each kz to at most its share; and those of every
        window of the largest gap to at least 1. With a largest gap, an iteration finds them, and numbers that are
        more than 100 from the margin count as 100 from it.

        Args:
            theta: Any numbers, (*unit_shape), centred.
            budget: What the probabilities may sum to.
            always: Units that are always acquired, (*unit_shape), centred.

        Returns:
            (*unit_shape), centred.
        """
        if self.limits.couple:
            return feasible.project(self, theta, budget, always).to(theta)
        return constrain(theta, budget, always, self.never().to(theta.device))

    def distance(self) -> Shaped[Tensor, "*units"]:
        """Squared distance of each unit from the centre of k-space, in units of the half width of each axis."""
        squared = torch.zeros(self.unit_shape, dtype=torch.float64)
        for position, n in self._encoded_axes:
            offset = (torch.arange(n, dtype=torch.float64) - n // 2) / max(n // 2, 1)
            squared += self._along(position, offset.square())
        return squared

    @property
    def _encoded_axes(self) -> list[tuple[int, int]]:
        """Positions among the undersampled axes, and lengths, of the directions of k-space."""
        return list(enumerate(self.unit_shape))[self._counted :]

    def _centre(self, width: int) -> UnitMask:
        if self.trajectory is not None:
            return torch.zeros(self.unit_shape, dtype=torch.bool)
        return self.limits.centre(self.unit_shape[self.varies :], width).expand(self.unit_shape)

    def _along(self, position: int, values: Tensor) -> Tensor:
        return values.reshape([-1 if p == position else 1 for p in range(len(self.free))])
