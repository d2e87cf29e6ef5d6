"""Shapes with names, the geometry of a grid, the sample that data sets yield, and the batch that losses see."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Complex, Float, Integer, Num, Shaped
from torch import Tensor

if TYPE_CHECKING:
    from promask.operators.trajectory import Trajectory


@dataclass(frozen=True)
class Geometry:
    """What is known of the axes of all samples of a data set, and what of the grid counts; empty: all of it.

    Args:
        extent: Start and end of the covered part of each axis of k-space; what lies outside is padding.
        region: The size of the central part of the image that is evaluated.
        axes: The directions of the axes of k-space, such as ("kx", "ky"); empty if they are not known.
        readout: The axis along which the scanner reads whole lines; None if there is none, or it is not known.
        channels: What channels are: `coil` or `contrast`; empty where there is one, or it is not known.
        voxel: The size of a voxel in mm along each axis, 1 along an indexed one; empty if it is not known.
        indexed: The role of the first axis if it is not encoded but counts images of one object: `frame` or
            `contrast`; empty if all axes are directions of space.
        contrasts: The names of contrasts, such as ("T1", "FLAIR"); empty if they are not known.
        echo_times: In ms, if contrasts are echoes and their times are known; otherwise empty.
        trajectory: What samples lie on; None: k-space is Cartesian, and has the shape of the images.
    """

    extent: tuple[tuple[int, int], ...] = ()
    region: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()
    readout: int | None = None
    channels: str = ""
    voxel: tuple[float, ...] = ()
    indexed: str = ""
    contrasts: tuple[str, ...] = ()
    echo_times: tuple[float, ...] = ()
    trajectory: "Trajectory | None" = None

    @property
    def indexes(self) -> int:
        """How many axes, the first ones, are not Fourier-encoded: 1 for series of frames or contrasts, or 0."""
        return int(bool(self.indexed))

    def kspace_shape(self, space: Sequence[int]) -> tuple[int, ...]:
        """The shape of k-space for images of a shape: along a trajectory, its last axes are rotations and samples.

        In a stack of trajectories, rotations come before kz.
        """
        if self.trajectory is None:
            return tuple(space)
        indexed, stack = space[: self.indexes], space[self.indexes : -2]
        return (*indexed, self.trajectory.candidates, *stack, self.trajectory.samples)

    def series(self, role: str, length: int) -> "Geometry":
        """The same for series of so many samples: a first axis of this role, which is not encoded.

        >>> series = Geometry(axes=("ky", "kx"), readout=1).series("frame", 20)
        >>> series.axes, series.readout, series.without(0) == Geometry(axes=("ky", "kx"), readout=1)
        (('frame', 'ky', 'kx'), 2, True)
        """
        return replace(
            self,
            extent=((0, length), *self.extent) if self.extent else (),
            region=(length, *self.region) if self.region else (),
            axes=(role, *self.axes) if self.axes else (),
            readout=None if self.readout is None else self.readout + 1,
            voxel=(1.0, *self.voxel) if self.voxel else (),
            indexed=role,
        )

    def resized(self, shape: Sequence[int], size: Sequence[int]) -> "Geometry":
        """The same for images cropped or padded to another size."""
        extent = [scaled_extent(*each) for each in zip(self.extent, shape, size, strict=False)]
        region = tuple(min(part, n) for part, n in zip(self.region, size, strict=False))
        return replace(self, extent=tuple(extent), region=() if region == tuple(size) else region)

    def emulated(self) -> "Geometry":
        """The same for k-space that is emulated from magnitude images: all of it counts, and none is a readout."""
        return replace(self, extent=(), region=(), readout=None)

    def without(self, axis: int) -> "Geometry":
        """The same for slices at all positions along one of the axes, or for single frames."""

        def others(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return values[:axis] + values[axis + 1 :]

        before = self.readout is not None and self.readout > axis
        return replace(
            self,
            extent=others(self.extent),
            region=others(self.region),
            axes=others(self.axes),
            readout=None if self.readout is None or self.readout == axis else self.readout - before,
            voxel=others(self.voxel),
            indexed="" if axis == 0 else self.indexed,
        )

    def crop(self, images: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
        """The part of the images that is evaluated."""
        return central(images, self.region) if self.region else images


def scaled_extent(extent: tuple[int, int], old: int, new: int) -> tuple[int, int]:
    """The covered part of an axis on a grid of another length.

    >>> scaled_extent((2, 10), old=10, new=20)
    (4, 20)

    Ends are scaled around the centre of k-space, n // 2, which stays inside, and nothing that was not covered is;
    where there is no padding, none is made.
    """
    first, last = ((place - old // 2) * new / old + new // 2 for place in (extent[0], extent[1] - 1))
    return (
        max(0, min(math.ceil(first), new // 2)) if extent[0] > 0 else 0,
        min(new, max(math.floor(last), new // 2) + 1) if extent[1] < old else new,
    )


def central(images: Shaped[Tensor, "..."], size: Sequence[int]) -> Shaped[Tensor, "..."]:
    """The central part of this size, over the last axes; the pixel at n // 2 stays in the middle.

    >>> import torch
    >>> central(torch.arange(7), [4])
    tensor([1, 2, 3, 4])
    """
    where: tuple[Any, ...] = (..., *central_slices(images.shape[images.ndim - len(size) :], size))
    return images[where]


def central_slices(shape: Sequence[int], size: Sequence[int]) -> tuple[slice, ...]:
    """Where the central part of this size lies in an array of this shape."""
    starts = [n // 2 - wanted // 2 for n, wanted in zip(shape, size, strict=True)]
    return tuple(slice(start, start + wanted) for start, wanted in zip(starts, size, strict=True))


Image = Num[Tensor, "channel *space"]
SampleSpectra = Complex[Tensor, "channel *kspace"]
SampleMaps = Num[Tensor, "channel *#space"]
Label = Integer[Tensor, "*space"]
Images = Float[Tensor, "batch channel *space"]
Targets = Float[Tensor, "batch channel *region"]
Logits = Float[Tensor, "batch output *space"]
ComplexImages = Complex[Tensor, "batch channel *space"]
Spectra = Complex[Tensor, "batch coil *kspace"]
Maps = Complex[Tensor, "batch_or_1 coil *#space"]
AnyImages = Num[Tensor, "batch channel *space"]
"""Real or complex."""
CoilImages = Num[Tensor, "batch coil *space"]
KspaceMask = Shaped[Tensor, "..."]
"""(batch or 1, 1, *space), or (*space): zeros and ones, or weights between them."""
Units = Float[Tensor, "*units"]
UnitDraws = Float[Tensor, "draws *units"]
UnitMask = Bool[Tensor, "*units"]
Mask = Bool[Tensor, "*kspace"]
Masks = Bool[Tensor, "count *kspace"]
Scalar = Float[Tensor, ""]
AnyArray = Shaped[Tensor, "..."]

LossFunction = Callable[[Tensor, Tensor], Tensor]
"""(magnitude images, fully sampled magnitude images), both (batch, channel, *space), -> a scalar."""


class SlicePlace(NamedTuple):
    """Where a slice was cut out of a volume, or a column out of a series."""

    axis: int
    """The axis of space of the volume that the slice lies across."""
    position: int
    """Along that axis."""
    scale: float
    """The largest magnitude of the volume, over all coils."""


@dataclass(frozen=True)
class Sample:
    """One fully sampled scan: a slice, a volume, or a series of frames or contrasts.

    Args:
        image: Real or complex, (channel, *space); its k-space is its centred Fourier transform. Of a series, the
            first axis of space counts frames or contrasts, and is not transformed.
        label: Whole numbers, (*space), or None.
        group: The patient, or a block of neighbouring slices: never in both the training and the held-out part.
        name: For messages.
        unlabelled: Classes that were not annotated here, and may be in the background of the label.
        maps: Coil sensitivities, (coil, *space), complex, of sum of squares 1 where there is signal; None if
            unknown. Those of a series are the same for all frames: their axis of frames has length 1.
        clean: The image without the noise that was added, which reconstructions are compared with; None for
            `image`.
        place: Where it was cut out of a volume; None for what is whole.
        kspace: The samples of all candidates along a trajectory, (coil, *kspace); None where k-space is Cartesian,
            and the Fourier transform of the image.
    """

    image: Image
    label: Label | None
    group: str
    name: str
    unlabelled: tuple[str, ...] = ()
    maps: SampleMaps | None = None
    clean: Image | None = None
    place: SlicePlace | None = None
    kspace: SampleSpectra | None = None


@runtime_checkable
class SampleSet(Protocol):
    """A data set: a sequence of samples of one shape, with the groups known before a sample is read."""

    @property
    def name(self) -> str:
        """Where the samples come from, for messages."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(channel, *space), the same for every sample."""

    @property
    def groups(self) -> Sequence[str]:
        """The group of each sample."""

    @property
    def held_out(self) -> Sequence[bool] | None:
        """Whether each sample belongs to the test part; None if the data do not say."""

    @property
    def geometry(self) -> Geometry:
        """What of k-space and of the image counts, the same for every sample."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Sample: ...


@dataclass(frozen=True)
class Cut:
    """Where the slices of a batch were cut out of volumes, which some reconstructions need to know.

    Args:
        axis: The axis of space of the volumes that the slices lie across.
        positions: Of each slice along that axis.
        scales: The largest magnitude of the volume of each slice.
    """

    axis: int
    positions: Integer[Tensor, " batch"]
    scales: Float[Tensor, " batch"]

    @staticmethod
    def of(places: Sequence[SlicePlace | None]) -> "Cut | None":
        """Of the slices of a batch; None for what is whole."""
        known = [place for place in places if place is not None]
        if not known:
            return None
        positions = torch.tensor([place.position for place in known])
        return Cut(known[0].axis, positions, torch.tensor([place.scale for place in known]))

    def part(self, rows: slice | Integer[Tensor, " part"]) -> "Cut":
        """Of some of the slices."""
        return replace(self, positions=self.positions[rows], scales=self.scales[rows])

    def to(self, device: torch.device) -> "Cut":
        """The same on another device."""
        return replace(self, positions=self.positions.to(device), scales=self.scales.to(device))


@dataclass(frozen=True)
class Batch:
    """Fully sampled data of some images, and what a loss compares their reconstructions with.

    An image that is reconstructed with several masks is there several times.

    Args:
        spectra: K-space in FFT order, (batch, coil, *space).
        targets: The evaluated part of the images, (batch, channel, *region): magnitudes, or complex numbers for a
            loss that needs the phase.
        geometry: What of the grid counts.
        labels: As the loss wants them, (batch, *region); None for losses that need none.
        maps: Coil sensitivities, one for all or one for each; None if channels are no coils, or are not combined.
        indices: Which samples of the data set these are.
        cut: Where they were cut out of volumes; None for what is whole.
        parts: To which part of the patients each belongs, for priors that were measured without it; None where
            there are none.
    """

    spectra: Spectra
    targets: Num[Tensor, "batch channel *region"]
    geometry: Geometry = Geometry()
    labels: Integer[Tensor, "batch *region"] | None = None
    maps: Maps | None = None
    indices: Integer[Tensor, " batch"] | None = None
    cut: Cut | None = None
    parts: Integer[Tensor, " batch"] | None = None

    def part(self, rows: slice) -> "Batch":
        """Some of the images."""
        return Batch(
            self.spectra[rows],
            self.targets[rows],
            self.geometry,
            None if self.labels is None else self.labels[rows],
            self.maps if self.maps is None or len(self.maps) == 1 else self.maps[rows],
            None if self.indices is None else self.indices[rows],
            None if self.cut is None else self.cut.part(rows),
            None if self.parts is None else self.parts[rows],
        )


def restore_tensor(found: Tensor, like: Tensor) -> Tensor:
    """A tensor of a saved state on the device of the one it replaces; it must be finite, of its shape and type."""
    alike = isinstance(found, Tensor) and (found.shape, found.dtype) == (like.shape, like.dtype)
    if not alike or not found.isfinite().all():
        raise ValueError("The state does not fit.")
    return found.to(like.device)
