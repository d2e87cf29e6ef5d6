"""The sentences and key figures of a report."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from promask.data.sources import short_source
from promask.errors import count
from promask.evaluation.noise import NoiseMap
from promask.evaluation.physics import MaskPhysics
from promask.figures.layout import plane_note
from promask.learners import describe
from promask.learning.config import names_segmentation
from promask.learning.phrases import (
    kept_reference,
    sample_noun,
    split_of_contrasts,
    unit_noun,
    units_acquired,
)
from promask.learning.run import Run
from promask.report import rotations
from promask.report.measurements import HELD_OUT, LEARNED, OTHER, SAME, SOME, RunMeasurements
from promask.sampling.limits import CONTRAST
from promask.sampling.pattern import Pattern

KEPT = {
    "energy": "the mask of largest energy",
    "centre": "the central block",
    "mse": "the mask learned for the squared error",
    "start": "the mask that learning started from",
    "zero-filled": "the mask learned for zero-filling",
}
"""The reference masks that a learned one is compared with at the end."""
ACRONYMS = ("cg-sense", "cs", "cs-tv")
"""Reconstructions whose names are written in capitals."""
METRICS = {"dice": ("Dice", 3, ""), "ssim": ("SSIM", 4, ""), "psnr": ("PSNR", 2, " dB")}
"""Names, decimals and units of the metrics by which masks are said to be better."""
MORE = 3
"""Times as many steps that are worth a try where the mask had not settled."""
SORTS = "A click on a heading sorts."
PYTHON = """import numpy

mask = numpy.load("mask.npy")  # in the folder of this report: bool, DC at index n // 2 of every axis
undersampled = mask * kspace  # kspace: centred, as by numpy.fft.fftshift
"""
ANGLES = """import numpy

mask = numpy.load("mask.npy")  # in the folder of this report: bool, ({axes})
acquired = numpy.argwhere(mask[..., 0])
degrees = acquired[:, {place}] * {period} / {candidates}  # from kx to ky
"""
EXPORTS = """promask export . --out ../mask.mat                # MATLAB; in the folder of this report
promask export . --to bart --out ../mask          # BART: mask.cfl and mask.hdr
promask export . --to fastmri --out ../mask.h5    # fastMRI
promask export . --out ../mask.csv                # the order of phase encodes
"""
SERIES_EXPORTS = """promask export . --out ../mask.mat                # MATLAB; in the folder of this report
promask export . --to bart --out ../mask          # BART: mask.cfl and mask.hdr, frames in dimension 10
promask export . --out ../mask.csv                # the order of phase encodes in each frame
promask figure movie . --out ../movie.gif         # an animated picture of a series, and of its error
"""


ROTATION_EXPORTS = """promask export . --to csv --out ../angles.csv     # in the folder of this report
promask export . --to angles --out ../angles      # in radians, for NumPy
promask export . --to bart --out ../traj          # BART: coordinates for pics -t
promask export . --to mri-nufft --out ../traj.npy # coordinates for mri-nufft
promask export . --to mrd --out ../traj.mrd       # ISMRMRD
"""


def python(run: Run) -> str:
    """How the mask is used in Python."""
    pattern = run.distribution.pattern
    if pattern.trajectory is None:
        return PYTHON
    return ANGLES.format(
        axes=", ".join(pattern.directions),
        place=int(bool(pattern.indexed)),
        period=round(math.degrees(pattern.trajectory.period)),
        candidates=pattern.trajectory.candidates,
    )


def exports(run: Run) -> str:
    """The commands that write the mask for other programs."""
    if run.distribution.pattern.trajectory is not None:
        return ROTATION_EXPORTS
    return SERIES_EXPORTS if run.distribution.pattern.indexed else EXPORTS


def title(run: Run) -> str:
    """What the report is of."""
    pattern = run.distribution.pattern
    if pattern.trajectory is not None:
        many, name = _rotations(run)
        return f"{many} {name} (x{run.acceleration:.4g}) for {short_source(run.record.data.source)}"
    return f"x{run.acceleration:.4g} mask for {short_source(run.record.data.source)}"


def lead(run: Run) -> str:
    """The run in a sentence."""
    data = run.record.data
    learned = f"Learned from {count(data.images, _noun(run))} ({data.part})"
    subjects = f" of {data.groups} subjects" if data.groups > 1 else ""
    return f"{learned}{subjects}: {_acquired(run)}, for {run.config.loss}, {run.config.recon}."


def cards(run: Run, measurements: RunMeasurements | None) -> Iterator[dict[str, str]]:
    """The figures that people look for first."""
    pattern = run.distribution.pattern
    factor, acquired = f"x{run.acceleration:.4g}", _acquired(run)
    if pattern.trajectory is None:
        yield {"name": "acceleration", "value": factor, "note": acquired}
    else:
        many, name = _rotations(run)
        yield {"name": name, "value": many, "note": f"{factor}: {acquired}"}
    evaluation = run.record.evaluation
    if evaluation:
        on = f"mean of {count(evaluation.images, _noun(run))}, {relation(run)}"
        for name, value, style in (
            ("Dice", evaluation.dice, ".3f"),
            ("PSNR", evaluation.psnr, ".2f"),
            ("PSNR in what moves", evaluation.psnr_moving, ".2f"),
            ("SSIM", evaluation.ssim, ".4f"),
        ):
            if value is not None:
                unit = " dB" if name.startswith("PSNR") else ""
                yield {"name": name, "value": f"{value:{style}}{unit}", "note": on}
    if measurements is not None:
        yield from _lead_over(run, measurements)
    yield {
        "name": "learning time",
        "value": f"{run.record.seconds:.1f} s",
        "note": _steps(run) + (f", {run.config.members} members" if run.config.members > 1 else ""),
    }


def _rotations(run: Run) -> tuple[str, str]:
    """How many spokes or interleaves there are, and what they are called: `spokes in each frame`."""
    pattern = run.distribution.pattern
    own = pattern.unit_shape[0] if pattern.varies else 1
    name = f"{unit_noun(pattern)} in each {pattern.indexed}" if pattern.varies else unit_noun(pattern)
    return f"{run.distribution.budget / own:.4g}", name


def _lead_over(run: Run, measurements: RunMeasurements) -> Iterator[dict[str, str]]:
    """What promask has over the best other mask, by the Dice if there is one, or by PSNR."""
    on = count(measurements.images, _noun(run))
    for metric in ("dice", "psnr"):
        for best, difference in best_other(measurements.compared, metric):
            heading, digits, unit = METRICS[metric]
            yield {
                "name": f"{heading} against {best}",
                "value": f"{difference:+.{digits}f}{unit}".replace("-", "\N{MINUS SIGN}"),
                "note": f"the best of the other masks below, x{measurements.compared[best]['acceleration']:.4g}; "
                + (f"mean of {on}" if measurements.images > 1 else f"{on} only"),
            }
            return


def best_other(compared: Mapping[str, Mapping[str, Any]], metric: str) -> Iterator[tuple[str, float]]:
    """The best of the other masks, and what the learned one has over it; nothing where either is not known."""
    known = {name: row[metric] for name, row in compared.items() if row.get(metric) is not None}
    others = {name: value for name, value in known.items() if name != LEARNED}
    if LEARNED in known and others:
        best = max(others, key=others.__getitem__)
        yield best, known[LEARNED] - others[best]


@dataclass(frozen=True)
class Behind:
    """A reference mask that is better than the learned one, by a metric that goes with the loss."""

    mask: str
    metric: str
    difference: float


def behind(run: Run) -> Behind | None:
    """The best reference mask, if it is better than the learned one on the data that were learned from."""
    compared = run.record.compared
    if compared is None or run.record.reference or _relation(run) == OTHER:
        return None
    metric = "dice" if names_segmentation(run.config.loss) else "ssim" if run.config.loss == "ssim" else "psnr"
    for best, difference in best_other(compared.to_json()["masks"], metric):
        if round(-difference, METRICS[metric][1]) > 0:
            return Behind(best, metric, -difference)
    return None


def more_steps(run: Run) -> int | None:
    """How many steps are worth a try, if all of them were used where early stopping might have ended learning."""
    unsettled = run.config.patience > 0 and None in run.history.stopped
    return MORE * run.config.steps if unsettled and len(run.history.loss) == run.config.steps else None


def advice(run: Run) -> Iterator[str]:
    """What may improve the mask, where there is reason to try."""
    better, more = behind(run), more_steps(run)
    if better is not None:
        heading, digits, unit = METRICS[better.metric]
        amount = f"{better.difference:.{digits}f}{unit}"
        stopped = run.history.stopped_after is not None
        what = "several members (--members)" if stopped else "more steps (--steps)"
        yield (
            f"The learned mask is {amount} behind {better.mask} in {heading} on these images: {what}, or another "
            f"loss (--loss), may help."
        )
    if more is not None:
        yield f"Learning used all {run.config.steps} steps before the mask settled: --steps {more} may improve it."


def notes(run: Run, measurements: RunMeasurements | None) -> Iterator[str]:
    """What one should know before believing the rest."""
    if run.record.reference:
        yield about_reference(run)
    warnings = {
        SAME: "Nothing was held out: the mask is measured on the images that it was learned from.",
        SOME: "The mask was learned from some of the images that it is measured on.",
        OTHER: f"The mask is measured on {short_source(_source(run))}, and was learned from "
        f"{short_source(run.record.data.source)}.",
    }
    if run.record.evaluation and _relation(run) in warnings:
        yield warnings[_relation(run)]
    yield from advice(run)
    if measurements is None:
        yield "This report was made without the images: promask report RUN --data DATA adds them."


def about_reference(run: Run) -> str:
    """Which reference mask took the place of the learned one."""
    if run.distribution.pattern.trajectory is not None:
        return kept_reference(str(run.record.reference), run.distribution.pattern)
    images = "validation" if run.record.data.validation else "training"
    reference, recon = str(run.record.reference), run.config.recon
    learned = (
        f"{recon.upper() if recon in ACRONYMS else recon} mask" if reference == "zero-filled" else "learned mask"
    )
    return f"Kept {KEPT.get(reference, reference)}: the {learned} was not better on the {images} images."


def captions(run: Run, measurements: RunMeasurements | None, rows: int) -> dict[str, str | None]:
    """What stands beside the pictures and tables of the page; `rows` is how many images the table holds."""
    pattern, learner, reference = run.distribution.pattern, describe(run.config.learner), run.record.reference
    plane = f"The plane through the middle of k-space, {plane_note(pattern)}. " if len(pattern.shape) > 2 else ""
    about_mask = ""
    if pattern.trajectory is not None:
        plane, about_mask = "", rotations.about(pattern, _acquired(run))
    elif pattern.indexed and pattern.encoded == 1:
        plane = f"{plane_note(pattern)[0].upper()}{plane_note(pattern)[1:]}. " if pattern.varies else ""
    padding = " Grey is padding, which is never acquired." if pattern.padding().any() else ""
    padding = " Grey is never acquired." if pattern.limits.leave_out else padding
    member = " of the first member" if run.config.members > 1 else ""
    replaced = ", before a reference mask took the place of the learned one" if reference else ""
    ended = f" It ended after {run.history.stopped_after} of {run.config.steps} steps: the mask no longer changed."
    compared = slices = None
    if measurements is not None:
        how = how_compared(run, measurements.images, measurements.draws)
        compared = f"{how} More methods, more masks and confidence intervals: promask compare. {SORTS}"
        measured = len(measurements.evaluation.psnr)
        which = f"{count(measured, _noun(run))} ({measurements.evaluation.part})"
        which = f"{rows} of {which}, evenly spread" if rows < measured else which
        slices = f"With the learned mask: {which}. {SORTS}"
    return {
        "about_mask": about_mask
        or f"{plane}White is acquired: {_acquired(run)}.{padding} The zero frequency is in the middle. Point at a "
        f"place, or focus a picture and use the arrow keys, to read its values.",
        "about_probabilities": "Probabilities" if learner.random and not reference else "Probabilities: 0 or 1",
        "about_examples": f"Reconstructed by {run.config.recon}. {_about_windows(pattern)} Move the slider, or "
        f"drag in the image.",
        "every": f"Every {_noun(run)}",
        "about_compared": compared,
        "about_slices": slices,
        "about_learning": learner.curve + (ended if run.history.stopped_after is not None else ""),
        "about_trajectory": "The last picture shows the probabilities on the way, from the start to the end"
        f"{member}{replaced}.",
    }


def _about_windows(pattern: Pattern) -> str:
    if pattern.indexed:
        return (
            f"The {pattern.indexed} in the middle of the series, always in the same window, and so are errors; "
            f"PSNR and SSIM are those of the whole series."
        )
    return (
        "All images of a slice are in the same window, and all error maps; PSNR and SSIM are those of this image "
        "alone."
    )


def physics_table(physics: Mapping[str, MaskPhysics], noise: Mapping[str, NoiseMap]) -> dict[str, Any]:
    """What physicists ask of masks: a row for each, and the names of the columns."""
    first = next(iter(physics.values()))
    if first.density.angles is not None:
        return rotations.table(physics, noise, first.density.angles.noun)
    unit = "pixels" if first.point_spread.width_mm is None else "mm"
    directions = first.density.directions
    plane = len(directions) > 1
    headings = ["mask", "acceleration", *(["in the ellipse"] if plane else [])]
    headings += [f"width {', '.join(name.removeprefix('k') for name in directions)} ({unit})"]
    headings += ["side lobe", "energy outside", "ACS", "gap"]
    frames = first.density.per_frame is not None
    headings += [f"per {name}" for name in directions] if plane or frames else []
    headings += [f"per {first.density.indexed}"] if frames else []
    headings += ["noise", "95 %", "g"] if noise else []
    rows = []
    for name, of in physics.items():
        spread, density = of.point_spread, of.density
        cells = [name, f"x{density.acceleration:.4g}"]
        cells += [f"x{density.acceleration_in_ellipse:.4g}"] if plane else []
        widths = spread.width if spread.width_mm is None else spread.width_mm
        cells += [" x ".join(f"{width:.3g}" for width in widths)]
        cells += [f"{spread.side_lobe:.1%}", f"{spread.energy_outside:.0%}"]
        cells += [" x ".join(map(str, each)) for each in (density.calibration, density.largest_gap)]
        counts = density.per_direction if plane or frames else ()
        counts += ((density.per_frame or ()),) if frames else ()
        cells += [_span(each) for each in counts]
        if noise:
            found = noise[name].summary()
            of_noise = (found["amplification"]["mean"], found["amplification"]["percentile_95"])
            cells += ["-" if each is None else f"{each:.3g}" for each in (*of_noise, found["g_factor"]["mean"])]
        rows.append({"name": cells[0], "cells": cells[1:], "learned": name == LEARNED})
    return {"headings": headings, "rows": rows, "about": _about_physics(noise, first.density.indexed)}


def _span(numbers: Sequence[int]) -> str:
    """The smallest and the largest of some numbers, or the one that they all are."""
    low, high = min(numbers, default=0), max(numbers, default=0)
    return str(low) if low == high else f"{low} to {high}"


def _about_physics(noise: Mapping[str, NoiseMap], indexed: str = "") -> str:
    """How to read the table."""
    text = (
        "Width: full width at half maximum of the point-spread function, the effective resolution. Side lobe: "
        "relative to the peak, at whole pixels. Energy outside: of the main lobe, which ends at the first minima. "
        "ACS: the largest central block that is sampled completely. Gap: the largest step from a sample to the "
        "next one along each direction. Per ky or kz: the smallest and the largest number of samples."
    )
    if indexed == CONTRAST:
        text += (
            " Each contrast has its own point-spread function: widths, side lobes and energies are those of the "
            "contrast with the fewest samples, and the acceleration is that of samples, not of scan time."
        )
    elif indexed:
        text += (
            " Where each frame has its own lines, side lobes and energies are those in x-f space, over all "
            "temporal frequencies; widths, and the number of frames per ky, are those of all frames together."
        )
    if not noise:
        return text
    found = next(iter(noise.values()))
    return (
        f"{text} Noise: the standard deviation of a pixel over that of the fully sampled scan, the mean over the "
        f"object and what 95 % of it are below, by {found.replicas} pseudo-replicas of {found.where} with "
        f"{found.recon}. "
        f"The g-factor is the mean over the root of the acceleration, below 1 where the reconstruction smooths."
    )


def how_compared(run: Run, images: int, draws: int) -> str:
    """On which images the masks were measured, and how many random ones there were."""
    measured = images if run.record.evaluation is None else run.record.evaluation.images
    some = f"{images} of the {count(measured, _noun(run))}" if images < measured else count(images, _noun(run))
    same = f"the same {some}" if images > 1 else f"one {_noun(run)}"
    drawn = f"± is the standard deviation over {draws} random masks."
    drawn = drawn if draws > 1 else "Each random baseline was drawn once."
    return f"All masks were measured on {same}, {relation(run)}, {run.config.recon}. {drawn}"


def how_learned(run: Run) -> Iterator[str]:
    """What a run was learned from and measured on, and what happened on the way: the lines below its tables."""
    data, evaluation = run.record.data, run.record.evaluation
    size = " x ".join(map(str, data.shape[1:] if data.shape[0] == 1 else data.shape))
    subjects = f" of {count(data.groups, 'subject')}" if data.groups > 1 else ""
    sentence = (
        f"Learned from {count(data.images, _noun(run))}{subjects}, {size}, in {run.record.seconds:.1f} s, "
        f"{_acquired(run)}"
    )
    if evaluation:
        sentence += f"; measured on {count(evaluation.images, _noun(run))}, {relation(run)}, {evaluation.recon}"
    yield f"{sentence}."
    if run.history.stopped_after is not None:
        yield f"Stopped after {run.history.stopped_after} of {run.config.steps} steps: the mask no longer changed."
    if run.record.reference:
        yield about_reference(run)
    if run.config.finetune and run.network is None:
        yield "Kept the given network: the fine-tuned one was not better on the validation images."
    yield from advice(run)


def command(run: Run) -> str:
    """The command that made a run, or the call."""
    return run.record.command or (
        f"promask.learn(...)  # from Python, on {run.record.data.source}: "
        f"acceleration={run.config.acceleration:g}, seed={run.config.seed}; all settings are below"
    )


def facts(run: Run) -> Iterator[tuple[str, str]]:
    """How the run came about, line by line."""
    data, pattern = run.record.data, run.distribution.pattern
    shape = list(data.shape)
    yield "Learned from", f"{data.source}: {count(data.images, _noun(run))} ({data.part}), {shape} each"
    evaluation = run.record.evaluation
    if evaluation:
        measured = f"{count(evaluation.images, _noun(run))} ({evaluation.part}), {relation(run)}"
        yield "Measured on", f"{_source(run)}: {measured}"
    yield "Acceleration", f"{run.acceleration:.4g} achieved, {run.config.acceleration:g} asked"
    along = f"along the undersampled directions {list(pattern.free)} of {list(pattern.shape)}"
    if pattern.trajectory is not None:
        along = (
            f"{pattern.trajectory.candidates} angles at equal steps, {pattern.trajectory.samples} samples each; a "
            f"complete scan has {pattern.full}"
        )
    elif pattern.indexed:
        along = f"{pattern.indexed}s are axis 0 of {list(pattern.shape)}, undersampled are {list(pattern.free)}"
    yield f"All {unit_noun(pattern)}", f"{pattern.units}, {along}"
    yield "Loss", run.config.loss
    yield "Reconstruction", run.config.recon
    yield "Seed", str(run.config.seed)
    yield "Time", f"{run.record.seconds:.1f} s for {run.config.members} x {_steps(run)}"
    yield "Versions", ", ".join(f"{name} {version}" for name, version in run.record.versions.items())


def relation(run: Run) -> str:
    """What the images that a run was measured on are to those that it was learned from."""
    return {
        SAME: "the same that it was learned from",
        SOME: "some of which it was learned from",
        OTHER: f"of {short_source(_source(run))}",
    }.get(_relation(run), "held out")


def _relation(run: Run) -> str:
    if run.record.measured is not None:
        return run.record.measured.seen
    evaluation = run.record.evaluation  # as older runs tell it
    return SAME if evaluation is not None and evaluation.part == run.record.data.part else HELD_OUT


def _source(run: Run) -> str:
    return run.record.data.source if run.record.measured is None else run.record.measured.data


def _noun(run: Run) -> str:
    return sample_noun(run.distribution.pattern)


def _acquired(run: Run) -> str:
    pattern = run.distribution.pattern
    within = f", {run.stated_acceleration}" if run.acceleration_within is not None else ""
    acquired = units_acquired(pattern, run.distribution.budget)
    if pattern.varies and pattern.indexed == CONTRAST:
        acquired += f": {split_of_contrasts(pattern, pattern.restrict(run.mask))}"
    return f"{acquired}{within}"


def _steps(run: Run) -> str:
    return count(len(run.history.loss), describe(run.config.learner).noun)
