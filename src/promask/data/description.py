"""What was understood of data: in one line for people, as fields for programs."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from promask.data.axes import CONTRAST, FRAME, IMAGE_DIRECTIONS, SUBJECT
from promask.data.reading import Reading
from promask.data.sample_sets import reading_of, resolve_subset
from promask.data.sensitivities import CalibratedSet, has_coils
from promask.errors import count
from promask.operators.trajectory import Trajectory
from promask.recon.base import Reconstruction
from promask.types import Sample, SampleSet


@dataclass(frozen=True)
class DataDescription:
    """A data set in words: what it holds, how many of what, and the roles of its axes."""

    holds: str = "image"
    """`kspace` or `image`."""
    samples: int = 0
    """Slices, series, frames and contrasts that are learned from or measured one by one."""
    subjects: int | None = None
    """None if the data do not tell."""
    slices: int = 0
    """Or volumes, or positions in hybrid space."""
    frames: int = 1
    contrasts: int = 1
    contrast_names: tuple[str, ...] = ()
    coils: int = 1
    simulated_coils: bool = False
    phase: float = 0.0
    """The standard deviation in radians of a simulated one."""
    noise: float = 0.0
    """Added to k-space, relative to the largest magnitude."""
    emulated: str | None = None
    """`magnitude` or `complex`: the images whose Fourier transform k-space is; None: it was acquired."""
    shape: tuple[int, ...] = ()
    """(*space)."""
    axes: tuple[str, ...] = ()
    """The directions of these axes, such as kx, ky; empty if they are not known."""
    readout: str | None = None
    acquired: tuple[tuple[int, int], ...] = ()
    """Start and end of what was acquired of each axis; empty: all of it."""
    region: tuple[int, ...] = ()
    """The central part of the image that is evaluated; empty: all of it."""
    voxel: tuple[float, ...] = ()
    """In mm along each axis; empty if it is not known."""
    sensitivities: str | None = None
    """Where coil sensitivities come from; None if none are used."""
    understood: str = ""
    """By what the roles of axes are known."""
    positions: str | None = None
    """The direction along which slices are positions of a hybrid space; None if they are not."""

    rotations: str = ""
    """`spokes` or `interleaves`, if the scan is simulated along them; empty if k-space is Cartesian."""
    candidates: int = 0
    """How many of them may be chosen."""
    complete: int = 0
    """How many a complete scan has."""
    cut: str = ""
    """The second phase encoding, along which volumes were cut into slices; empty if they were not."""

    def sentence(self) -> str:
        """Such as `kspace: 6 slices, 8 coils, readout kx (320, 2x oversampled), phase encoding ky (256)`."""
        noun = "volume" if len(self.shape) == 3 else "slice"
        what = (
            count(self.slices, noun)
            if self.positions is None
            else f"{self.slices} positions along {self.positions}"
        )
        if self.subjects is not None and self.subjects > 1:
            what += f" of {count(self.subjects, 'subject')}"
        parts = [what]
        parts += [count(self.frames, FRAME)] if self.frames > 1 else []
        names = f" ({', '.join(self.contrast_names)})" if self.contrast_names else ""
        parts += [count(self.contrasts, CONTRAST) + names] if self.contrasts > 1 else []
        if self.coils > 1:
            parts.append(f"{self.coils} {'simulated ' if self.simulated_coils else ''}coils")
        parts += [self._axis(*each) for each in enumerate(self.axes)] or [" x ".join(map(str, self.shape))]
        if self.holds == "kspace" and not self.emulated and self.readout is None and self._may_have_readout:
            parts.append("readout not known")
        if self.rotations:
            parts.append(f"acquired along {self.candidates} candidate {self.rotations}, simulated")
        if self.cut:
            parts.append(f"slices along {self.cut}, which is phase-encoded, too (masks of ky-kz: volumes)")
        if self.phase:
            parts.append(f"smooth phase of {self.phase:g} rad simulated")
        if self.noise:
            parts.append(f"noise {self.noise:g} added")
        if self.sensitivities is not None:
            parts.append(f"coil sensitivities {self.sensitivities}")
        if self.emulated:
            parts.append(f"k-space emulated from {self.emulated} images")
        return f"{'kspace' if self.holds == 'kspace' else 'images'}: {', '.join(parts)}"

    @property
    def _may_have_readout(self) -> bool:
        return not self.axes or "kx" in self.axes

    def _axis(self, axis: int, name: str) -> str:
        n = self.shape[axis]
        details = [str(n)]
        start, end = self.acquired[axis] if self.acquired else (0, n)
        if end - start < n:
            details = [f"{end - start} of {n} acquired"]
        if self.region and self.region[axis] < n:
            factor = n / self.region[axis]
            details.append(f"{factor:.2g}x oversampled")
        if self.voxel:
            details.append(f"{self.voxel[axis]:.3g} mm")
        if self.holds != "kspace" or self.emulated:
            return f"{name.removeprefix('k')} ({', '.join(details)})"
        role = "" if self.readout is None and self._may_have_readout else "phase encoding "
        role = "readout " if name == self.readout else role
        return f"{role}{name} ({', '.join(details)})"

    def to_json(self) -> dict[str, Any]:
        """Plain values, as JSON has them."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "DataDescription":
        """From the plain values of `to_json`; unknown ones are left out."""
        known = {each.name: values[each.name] for each in fields(DataDescription) if each.name in values}
        return DataDescription(**{name: _tuples(value) for name, value in known.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list | tuple) else value


def describe_data(
    samples: SampleSet, recon: Reconstruction | None = None, whole: SampleSet | None = None
) -> DataDescription:
    """What was understood of a data set.

    Args:
        samples: Samples that are prepared.
        recon: The reconstruction that they are for, which may use coil sensitivities.
        whole: The data set that they are a part of, which is counted then.

    Returns:
        The description.
    """
    whole = samples if whole is None else whole
    base, indices = resolve_subset(samples)
    source = base.data if isinstance(base, CalibratedSet) else base
    reading, geometry, example = reading_of(samples), samples.geometry, source[indices[0]]
    counts: Mapping[str, int] = getattr(source, "counts", {})
    channels, *space = samples.shape
    in_series = geometry.indexes
    if in_series:
        space, geometry = space[1:], geometry.without(0)
    coils, holds_kspace = has_coils(samples), getattr(source, "holds_kspace", False)
    inner = {name: counts.get(name, 1) for name in (FRAME, CONTRAST)}
    inner[CONTRAST] = samples.shape[1] if samples.geometry.indexed == CONTRAST else inner[CONTRAST]
    apart = math.prod(n for name, n in inner.items() if name != samples.geometry.indexed)
    groups = len(set(whole.groups))
    return DataDescription(
        holds="kspace" if holds_kspace else "image",
        samples=len(whole),
        subjects=groups if groups > 1 or SUBJECT in counts else None,
        slices=max(1, len(whole) // apart),
        frames=inner[FRAME],
        contrasts=inner[CONTRAST] if coils or channels == 1 else channels,
        contrast_names=samples.geometry.contrasts,
        coils=channels if coils else 1,
        simulated_coils=reading.coils is not None,
        phase=reading.phase,
        noise=reading.noise,
        emulated=_emulated(holds_kspace, reading, example),
        shape=tuple(space),
        axes=geometry.axes,
        readout=None if geometry.readout is None else geometry.axes[geometry.readout],
        acquired=geometry.extent if geometry.extent != tuple((0, n) for n in space) else (),
        region=geometry.region,
        voxel=geometry.voxel,
        sensitivities=_sensitivities(example, reading, recon) if coils else None,
        understood=getattr(source, "understood", ""),
        **_rotations(geometry.trajectory),
        cut=getattr(source, "cut", ""),
        positions=next((name for name in counts if name in IMAGE_DIRECTIONS), None),
    )


def _rotations(trajectory: Trajectory | None) -> dict[str, Any]:
    if trajectory is None:
        return {}
    return {"rotations": trajectory.noun, "candidates": trajectory.candidates, "complete": trajectory.full}


def _emulated(holds_kspace: bool, reading: Reading, example: Sample) -> str | None:
    if holds_kspace and reading.kspace != "emulated":
        return None
    image = example.image if example.clean is None else example.clean
    simulated = reading.coils is not None or reading.phase > 0
    with_phase = image.is_complex() and not simulated and reading.kspace != "emulated"
    return "complex" if with_phase else "magnitude"


def _sensitivities(example: Sample, reading: Reading, recon: Reconstruction | None) -> str | None:
    """Where coil sensitivities come from, if a reconstruction uses them."""
    if recon is None or not recon.uses_maps:
        return None
    if reading.maps is not None:
        return f"of {reading.maps}"
    if reading.coils is not None:
        return "as simulated"
    return "by ESPIRiT" if example.maps is None else "beside the data"
