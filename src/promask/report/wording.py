"""The sentences and key figures of a report."""

from collections.abc import Iterator
from pathlib import Path

from promask.errors import count
from promask.learners import describe
from promask.learning.run import Run
from promask.report.data import HELD_OUT, LEARNED, OTHER, SAME, SOME, Evidence

PLAIN = {
    "energy": "largest energy",
    "centre": "the central block",
    "mse": "what is learned for the squared error",
    "start": "the start",
    "zero-filled": "what is learned for zero-filling",
}
"""The masks that a learned one is compared with at the end."""
PYTHON = """import numpy

mask = numpy.load("mask.npy")  # in the folder of this report: bool, DC at index n // 2 of every axis
undersampled = mask * kspace  # kspace: centred, as by numpy.fft.fftshift
"""
EXPORTS = """promask export . --out ../mask.mat                # MATLAB; in the folder of this report
promask export . --to bart --out ../mask          # BART: mask.cfl and mask.hdr
promask export . --to fastmri --out ../mask.h5    # fastMRI
promask export . --out ../mask.csv                # the order of phase encodes
"""


def title(run: Run) -> str:
    """What the report is of."""
    return f"x{run.acceleration:.4g} mask for {short(run.record.data.source)}"


def short(source: str) -> str:
    """Data without the place where they lie, which the table at the end tells.

    >>> short("scans/knee.npz"), short("acdc:data/ACDC/"), short("brain")
    ('knee.npz', 'acdc:ACDC', 'brain')
    """
    kind, colon, place = source.rpartition(":")
    return f"{kind}{colon}{Path(place).name or place}"


def lead(run: Run) -> str:
    """The run in a sentence."""
    data, distribution = run.record.data, run.distribution
    learned = f"Learned from {count(data.images, _noun(run))} ({data.part})"
    subjects = f" of {data.groups} subjects" if data.groups > 1 else ""
    return (
        f"{learned}{subjects}: {distribution.budget} of {distribution.pattern.units} {_units(run)}, "
        f"for {run.config.loss}, {run.config.recon}."
    )


def cards(run: Run, evidence: Evidence | None) -> Iterator[dict[str, str]]:
    """The figures that people look for first."""
    yield {
        "name": "acceleration",
        "value": f"x{run.acceleration:.4g}",
        "note": f"{run.distribution.budget} of {run.distribution.pattern.units} {_units(run)}",
    }
    evaluation = run.record.evaluation
    if evaluation:
        on = f"mean of {count(evaluation.images, _noun(run))}, {seen(run)}"
        for name, heading, style in (
            ("dice", "Dice", ".3f"),
            ("psnr", "PSNR", ".2f"),
            ("ssim", "SSIM", ".4f"),
        ):
            value = getattr(evaluation, name)
            if value is not None:
                unit = " dB" if name == "psnr" else ""
                yield {"name": heading, "value": f"{value:{style}}{unit}", "note": on}
    if evidence is not None:
        yield from _lead_over(evidence)
    yield {
        "name": "to learn",
        "value": f"{run.record.seconds:.1f} s",
        "note": _steps(run) + (f", {run.config.members} members" if run.config.members > 1 else ""),
    }


def _lead_over(evidence: Evidence) -> Iterator[dict[str, str]]:
    """What promask has over the best other mask, by the Dice if there is one, or by PSNR."""
    for metric, heading, style in (("dice", "Dice", "+.3f"), ("psnr", "PSNR", "+.2f")):
        known = {name: row[metric] for name, row in evidence.compared.items() if row.get(metric) is not None}
        others = {name: value for name, value in known.items() if name != LEARNED}
        if LEARNED in known and others:
            best = max(others, key=others.__getitem__)
            difference = f"{known[LEARNED] - others[best]:{style}}".replace("-", "\N{MINUS SIGN}")
            yield {
                "name": f"{heading} against {best}",
                "value": f"{difference} dB" if metric == "psnr" else difference,
                "note": "the best of the other masks below",
            }
            return


def notes(run: Run, evidence: Evidence | None) -> Iterator[str]:
    """What one should know before believing the rest."""
    if run.record.reference:
        yield instead(run)
    told = {
        SAME: "Nothing was held out: the mask is measured on the images that it was learned from.",
        SOME: "The mask was learned from some of the images that it is measured on.",
        OTHER: f"The mask is measured on {short(_source(run))}, and was learned from "
        f"{short(run.record.data.source)}.",
    }
    if run.record.evaluation and _relation(run) in told:
        yield told[_relation(run)]
    if evidence is None:
        yield "The images were not at hand when this report was made: promask report RUN --data DATA adds them."


def instead(run: Run) -> str:
    """Which mask took the place of the learned one."""
    judged = "the validation part" if run.record.data.validation else "the images to learn from"
    return f"The mask is that of {PLAIN[str(run.record.reference)]}: on {judged}, what was learned is not better."


def about_mask(run: Run) -> str:
    """What the pictures of k-space show."""
    pattern = run.distribution.pattern
    shown = "The plane through the middle of k-space. " if len(pattern.shape) > 2 else ""
    what = f"White is acquired: {run.distribution.budget} of {pattern.units} {_units(run)}."
    padding = " Grey is padding, which is never acquired." if pattern.padding().any() else ""
    return f"{shown}{what}{padding}"


def about_probabilities(run: Run) -> str:
    """The caption of the probabilities."""
    return (
        "Probabilities"
        if describe(run.config.learner).random and not run.record.reference
        else "Probabilities: 0 or 1"
    )


def about_examples(run: Run) -> str:
    """How the images were chosen and made."""
    return (
        f"Reconstructed by {run.config.recon}. All images of a slice are in the same window, and all error maps; "
        f"PSNR and SSIM are those of this image alone. Move the slider, or drag in the image."
    )


def about_compared(run: Run, evidence: Evidence) -> str:
    """How the masks were measured, and where there is more."""
    how = how_compared(run, evidence.images, evidence.draws)
    return f"{how} More methods, more masks and confidence intervals: promask compare. A click on a heading sorts."


def how_compared(run: Run, images: int, draws: int) -> str:
    """On which images the masks were measured, and how many random ones there were."""
    same = f"All on the same {count(images, _noun(run))}, {seen(run)}, {run.config.recon}."
    if images == 1:
        same = f"All on one {_noun(run)}, {seen(run)}, {run.config.recon}."
    drawn = f"± is the standard deviation over {draws} random masks."
    return f"{same} {drawn if draws > 1 else 'Of masks that are drawn at random there is one.'}"


def about_slices(run: Run, evidence: Evidence, rows: int) -> str:
    """Which images the table holds."""
    measured = len(evidence.evaluation.psnr)
    which = f"{count(measured, _noun(run))} ({evidence.evaluation.part})"
    if rows < measured:
        which = f"{rows} of {which}, evenly spread"
    return f"With the learned mask: {which}. A click on a heading sorts."


def about_learning(run: Run) -> str:
    """What the curve shows."""
    text = describe(run.config.learner).curve
    if run.history.stopped_after is not None:
        text += (
            f" It ended after {run.history.stopped_after} of {run.config.steps} steps: the mask no longer changed."
        )
    return text


def about_trajectory(run: Run) -> str:
    """What the film shows."""
    text = "The last picture shows the probabilities on the way, from the start to the end"
    text += " of the first member" if run.config.members > 1 else ""
    return text + (", before another mask took the place of what was learned." if run.record.reference else ".")


def command(run: Run) -> str:
    """The command that made a run, or the call."""
    typed = run.record.command
    if typed:
        return str(typed)
    source = run.record.data.source
    return (
        f"promask.learn(...)  # from Python, on {source}: acceleration={run.config.acceleration:g}, "
        f"seed={run.config.seed}; all settings are below"
    )


def facts(run: Run) -> Iterator[tuple[str, str]]:
    """How the run came about, line by line."""
    data, pattern = run.record.data, run.distribution.pattern
    shape = list(data.shape)
    yield "Learned from", f"{data.source}: {count(data.images, _noun(run))} ({data.part}), {shape} each"
    evaluation = run.record.evaluation
    if evaluation:
        measured = f"{count(evaluation.images, _noun(run))} ({evaluation.part}), {seen(run)}"
        yield "Measured on", f"{_source(run)}: {measured}"
    yield "Acceleration", f"{run.acceleration:.4g} achieved, {run.config.acceleration:g} asked"
    yield "Units", f"{pattern.units}, on the free axes {list(pattern.free)} of {list(pattern.shape)}"
    yield "Loss", run.config.loss
    yield "Reconstruction", run.config.recon
    yield "Seed", str(run.config.seed)
    yield (
        "Time",
        f"{run.record.seconds:.1f} s for {run.config.members} x {_steps(run)}",
    )
    versions = run.record.versions
    yield "Versions", ", ".join(f"{name} {version}" for name, version in versions.items())


def seen(run: Run) -> str:
    """What the images that a run was measured on are to those that it was learned from."""
    return {
        SAME: "the same that it was learned from",
        SOME: "some of which it was learned from",
        OTHER: f"of {short(_source(run))}",
    }.get(_relation(run), "held out")


def _relation(run: Run) -> str:
    if run.record.measured is not None:
        return run.record.measured.seen
    evaluation = run.record.evaluation  # as older runs tell it
    return SAME if evaluation is not None and evaluation.part == run.record.data.part else HELD_OUT


def _source(run: Run) -> str:
    return run.record.data.source if run.record.measured is None else run.record.measured.data


def _noun(run: Run) -> str:
    return "volume" if run.config.volumes else "image"


def _units(run: Run) -> str:
    return "lines" if len(run.distribution.pattern.free) == 1 else "locations"


def _steps(run: Run) -> str:
    return count(len(run.history.loss), describe(run.config.learner).noun)
