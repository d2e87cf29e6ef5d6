"""Which axes of k-space a pattern undersamples, by its name and by what is known of them."""

from collections.abc import Sequence
from dataclasses import replace

from promask.errors import InputError
from promask.operators.trajectory import RADIAL, SPIRAL, Trajectory
from promask.sampling.limits import CONTRAST, FRAME, axis_number
from promask.types import Geometry

FREE_AXES = {"1d": 1, "2d": 2, "3d": 3, "kt": 1, "kt-2d": 2}
"""How many encoded axes of k-space are undersampled, by the name of the pattern."""
PER_FRAME = {"kt": "1d", "kt-2d": "2d"}
"""Patterns of which every frame has its own, and the name of the pattern within a frame."""
STACK = "stack-of-stars"
TRAJECTORIES = {"radial": RADIAL, "spiral": SPIRAL, STACK: RADIAL, "kt-radial": RADIAL, "kt-spiral": SPIRAL}
"""Patterns of spokes and spiral interleaves, and the kind of their trajectory: for slices, for volumes (a stack),
and for series each frame of which has its own."""
PATTERNS = (*FREE_AXES, *TRAJECTORIES)
"""The names of all patterns."""


def trajectory_on(space: Sequence[int], geometry: Geometry, name: str | None) -> tuple[Geometry, tuple[int, ...]]:
    """The geometry of images that are acquired along a trajectory, and the free axes of its pattern.

    >>> geometry, free = trajectory_on((20, 16, 16), Geometry().series("frame", 20), "kt-radial")
    >>> geometry.kspace_shape((20, 16, 16)), free
    ((20, 96, 32), (0, 1))

    Args:
        space: The size of the images, (*space).
        geometry: What is known of their axes; if they are acquired along a trajectory, with it.
        name: The pattern, one of `TRAJECTORIES`; None: the one that fits the trajectory and the images.

    Returns:
        The same geometry with a trajectory; and the axes of k-space whose places are chosen: frames, angles, kz.

    Raises:
        InputError: If the images have too many axes, or too few.
    """
    known = geometry.trajectory
    if name is None and known is not None:
        per_frame = "kt-" if geometry.indexed else ""
        name = STACK if len(space) == 3 and not geometry.indexed else per_frame + known.kind
    if name not in TRAJECTORIES or (known is not None and known.kind != TRAJECTORIES[name]):
        kind = "radial or spiral" if known is None else known.kind
        raise InputError(f"The data are acquired along a trajectory: choose the pattern {kind}, and not {name}.")
    own, stacked, first = name.startswith("kt-"), name == STACK, geometry.indexes
    if own and geometry.indexed != FRAME:
        raise InputError(
            f"The pattern {name} is for frames, but the data have none: name their axis with `axes`, such as "
            f"'slice frame y x', or choose the pattern {name.removeprefix('kt-')}."
        )
    if len(space) - first != 2 + stacked or (stacked and first):
        found = "volumes" if len(space) - first == 3 else "slices"
        wanted = (
            "volumes without frames: set `volumes`" if stacked else "slices: of volumes, choose stack-of-stars"
        )
        raise InputError(f"The pattern {name} is for {wanted}. The data have {found} of {list(space[first:])}.")
    if geometry.indexed == CONTRAST:
        raise InputError(f"The pattern {name} cannot be learned for each contrast: leave out `per`.")
    matrix = (int(space[-2]), int(space[-1]))
    trajectory = known or Trajectory.of(TRAJECTORIES[name], matrix)
    along = replace(geometry, extent=(), readout=None, trajectory=trajectory)
    return along, (0, 1) if own or stacked else (first,)


def named_axes(name: str, shape: Sequence[int], axis: Sequence[int] | None) -> tuple[int, ...]:
    """The free axes of a pattern by its name: see `Pattern.named`."""
    if name not in FREE_AXES:
        raise InputError(f"Unknown pattern {name!r}: choose one of {', '.join(PATTERNS)}.")
    count, dimensions = FREE_AXES[name], len(shape)
    if count > dimensions:
        raise InputError(
            f"Pattern {name} needs {count} axes, but the data have {dimensions}: shape {list(shape)}."
        )
    if axis is None:
        axis = range(dimensions - count, dimensions)
    elif len(axis) != count:
        raise InputError(f"Pattern {name} frees {count} of the axes, but {list(axis)} were given.")
    if any(not -dimensions <= a < dimensions for a in axis):
        raise InputError(f"The axes {list(axis)} do not fit k-space of shape {list(shape)}.")
    free = tuple(sorted(a % dimensions for a in axis))
    check_free(free, shape)
    return free


def axes_on(
    shape: Sequence[int],
    geometry: Geometry,
    name: str | None,
    axis: Sequence[int | str] | None,
    allow_readout: bool,
) -> tuple[int, ...]:
    """The free axes of a pattern for data whose axes are known: see `Pattern.on`."""
    readout, first = geometry.readout, geometry.indexes
    encoded = [each for each in range(first, len(shape)) if each != readout]
    chosen = None if axis is None else [axis_number(each, geometry.axes, len(shape)) for each in axis]
    if name is None:
        usual = len(encoded) if readout is not None else min(2 - first, len(shape))
        name = f"{usual if chosen is None else len(chosen)}d"
        name = of_each_frame(name) if first else name
    within = PER_FRAME.get(name, name)
    per_frame = name in PER_FRAME or geometry.indexed == CONTRAST  # which would be channels otherwise
    if per_frame and not first:
        raise InputError(
            f"The pattern {name} is for frames, but the data have none: name their axis with `axes`, such as "
            f"'slice frame y x', or choose the pattern {within}."
        )
    if chosen is None and FREE_AXES.get(within, len(shape)) <= len(encoded):
        if first and readout is None and "kx" in geometry.axes and len(encoded) > FREE_AXES[within]:
            encoded.remove(geometry.axes.index("kx"))  # the usual readout
        chosen = encoded[len(encoded) - FREE_AXES[within] :]
    free = named_axes(within, shape, chosen)
    if readout in free and not allow_readout:
        direction = geometry.axes[readout] if geometry.axes else f"axis {readout}"
        fitting = f"{len(encoded)}d"
        fitting = of_each_frame(fitting) if per_frame else fitting
        raise InputError(
            f"The pattern {name} would undersample {direction}, the readout, which scanners read as a whole: "
            f"choose the pattern {fitting}, or set `allow_readout` where there is no scanner."
        )
    if first and 0 in free:
        raise InputError(
            f"The pattern {name} would undersample the axis of {geometry.indexed}s, which is not encoded: "
            f"{'choose other axes' if axis is not None else 'choose a pattern of fewer directions'}."
        )
    return (0, *free) if per_frame else free


def check_free(free: Sequence[int], shape: Sequence[int]) -> None:
    """Refuse free axes that k-space does not have, or that are not increasing."""
    if not free or any(not 0 <= axis < len(shape) for axis in free):
        raise InputError(
            f"The free axes {list(free)} do not fit k-space of shape {list(shape)}: "
            f"choose from 0 to {len(shape) - 1}."
        )
    if sorted(set(free)) != list(free):
        raise InputError(f"The free axes {list(free)} must be increasing and different.")


def of_each_frame(within: str) -> str:
    """The name of a pattern of which every frame has its own, by that within a frame; `3d` has none."""
    return next((name for name, inner in PER_FRAME.items() if inner == within), within)


def scannable(usual: str, possible: Sequence[int], dimensions: int, readout: bool) -> str:
    """The name of a pattern of which a scanner can play every mask: the usual one, or one of fewer directions.

    >>> scannable("2d", (1, 2, 3), dimensions=2, readout=True), scannable("2d", (2,), dimensions=2, readout=True)
    ('1d', '2d')

    Args:
        usual: The pattern if there is no readout.
        possible: How many directions it may undersample.
        dimensions: How many directions k-space has.
        readout: Whether one of them is a readout, which is not undersampled.

    Returns:
        `1d`, `2d` or `3d`; the usual one if there is none that fits.
    """
    most = dimensions - readout
    fitting = [free for free in possible if free <= most]
    return usual if FREE_AXES[usual] <= most or not fitting else f"{max(fitting)}d"


def usual_on(usual: str, possible: Sequence[str], dimensions: int, readout: bool, indexed: bool) -> str:
    """The name of the pattern on data for which none was chosen.

    >>> usual_on("2d", ("1d", "2d", "kt", "kt-2d"), dimensions=3, readout=False, indexed=True)
    'kt'
    >>> usual_on("2d", ("1d", "2d"), dimensions=3, readout=False, indexed=True)
    '1d'

    Args:
        usual: The pattern if there is neither a readout nor an axis of frames.
        possible: The names of those that may be chosen.
        dimensions: How many axes k-space has, that of frames among them.
        readout: Whether one of them is a readout, which is not undersampled.
        indexed: Whether the first axis counts frames or contrasts.

    Returns:
        Of series, all phase encodings of each frame, or lines if the readout is not known; if that is not
        possible, the same for all frames together. Otherwise what `scannable` finds.
    """
    if not indexed:
        free = [free for name, free in FREE_AXES.items() if name in possible and name not in PER_FRAME]
        return scannable(usual, free, dimensions, readout) if free else usual
    most = dimensions - 2 if readout else 1
    fitting = [name for name in possible if FREE_AXES.get(name, most + 1) <= most]
    own = [name for name in fitting if name in PER_FRAME]
    return max(own or fitting, key=FREE_AXES.__getitem__, default=usual)
