"""The quality of a run's mask on images that it was not learned from, beside reference masks and given ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float

from promask.baselines import BASELINES, matching_pattern
from promask.data.device import find_device
from promask.data.file_set import prepare
from promask.data.sample_sets import OTHER_PART, Subset, choose_part
from promask.data.sensitivities import calibrate
from promask.data.sources import read_part, same_data
from promask.errors import InputError
from promask.evaluation.cells import Cell, Conditions, make_mask
from promask.evaluation.evaluate import achieved_acceleration, evaluate, noise_of_middle
from promask.evaluation.images import ReconstructedImage, reconstruct_one
from promask.evaluation.methods import Method, fit_mask
from promask.evaluation.noise import REPLICAS, NoiseMap
from promask.evaluation.physics import MaskPhysics, mask_physics, pattern_of
from promask.evaluation.result import Evaluation, mean_and_spread
from promask.evaluation.rotations import angular_energy
from promask.evaluation.segmentation import NetworkLike, measurable
from promask.learning.records import METRICS, SERIES_METRICS, Measured, Quality, ReferenceComparison
from promask.learning.run import Run
from promask.learning.setup import full_images
from promask.losses.segmentation import Segmentation
from promask.problem.batches import patient_parts
from promask.recon.base import Fittable, Reconstruction
from promask.sampling.limits import FRAME
from promask.sampling.pattern import Pattern
from promask.types import Mask, SampleSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REFERENCES = ("equispaced", "gaussian", "radial", "centre", "energy")
"""The reference masks of a report, as far as they fit the pattern; equispaced lines also beside samples."""
FOR_COILS = ("regular", "caipi", "variable-density", "poisson", "poisson-tuned")
"""Further ones where the reconstruction is iterative or there are coils, which they are meant for."""
OF_FRAMES = ("kt-lattice", "kt-golden", "variable-density", "static-variable-density", "static-energy")
"""Those where frames have patterns of their own."""
OF_CONTRASTS = ("static-variable-density", "static-energy", "equal-energy", "energy")
"""Those where contrasts have patterns of their own: the first three acquire the same number of each."""
OF_ROTATIONS = ("uniform-best", "golden", "tiny-golden", "raga", "random")
"""Those of spokes and interleaves."""
LEARNED = "promask"
DRAWS = 5
"""Masks of each random baseline; one where images take long: iterative reconstructions, networks, many units."""
MANY_UNITS = 2**19
MOST_IMAGES = 16
MOST_VALUES = 2**22
"""How many images masks are compared on, at most, and how many values these may have; half of it if iterative."""
FEWEST_SERIES = 4
"""On so many series they are compared in any case: a single heart says little of others."""
HELD_OUT, SAME, SOME, OTHER = "held out", "same", "some", "other"
"""What the images that a mask is measured on are to those that it was learned from."""

OnMask = Callable[[int, int], None]
"""Called with the number of masks measured, and how many there are."""


@dataclass(frozen=True)
class ExampleImage:
    """One image of the report, reconstructed with each of the masks."""

    index: int
    """Its number in the part of the data that was measured."""
    subject: int
    """As in `RunMeasurements`."""
    title: str
    """Why it was chosen."""
    images: Mapping[str, ReconstructedImage]


@dataclass(frozen=True)
class RunMeasurements:
    """The quality of every image, of reference masks beside the learned one, and a few images to look at.

    Args:
        evaluation: The quality of the learned mask on every image.
        source: The name of the data that were measured.
        relation: Whether the mask was learned from them: `held out`, `same`, `some` or `other`.
        subjects: The number of the subject of each image; names are left out, as they may be those of patients.
        compared: Of each mask the means over the same few images; random ones have the spread over draws,
            `psnr_spread`.
        images: How many images masks were compared on.
        draws: Masks of each random baseline.
        masks: The first mask of each kind.
        examples: A few images with all masks.
        contours: Of one image, the labels and what the network finds, if there is a network.
        physics: Of each mask, its point-spread function and its sampling density.
        noise: Of each mask, the noise amplification of the middle image, where coils are combined.
        energy: Of spokes and interleaves, the energy of the images at the angle of each candidate, relative to the
            mean.
    """

    evaluation: Evaluation
    source: str
    relation: str
    subjects: Sequence[int]
    compared: Mapping[str, Mapping[str, Any]]
    images: int
    draws: int
    masks: Mapping[str, Mask]
    examples: Sequence[ExampleImage]
    contours: "Figure | None" = None
    physics: Mapping[str, MaskPhysics] = field(default_factory=dict)
    noise: Mapping[str, NoiseMap] = field(default_factory=dict)
    energy: Float[torch.Tensor, " candidates"] | None = None

    def add_to(self, run: Run) -> Run:
        """The run with these measurements in its record, as run.json keeps them.

        Args:
            run: The run that was measured.

        Returns:
            A new run; the given one is not changed.
        """
        compared = {"images": self.images, "draws": self.draws, "masks": self.compared}
        return run.with_record(
            evaluation=Quality.from_json(self.evaluation.summary()),
            measured=Measured(self.source, self.relation),
            compared=ReferenceComparison.from_json(compared),
        )


def measure_run(
    run: Run,
    data: SampleSet,
    network: NetworkLike | None = None,
    recon: Reconstruction | None = None,
    part: str | None = None,
    on_mask: OnMask | None = None,
    beside: Mapping[str, Any] | None = None,
    device: str | torch.device = "cpu",
) -> RunMeasurements:
    """Measure a run's mask on the part of the data that it was not learned from, and reference masks beside it.

    Args:
        run: The run.
        data: A data set of `promask.data.load`.
        network: The segmentation network, or its file, that images are judged by, too.
        recon: How images are reconstructed; None: as the run was learned for.
        part: `train`, `test` or `all`; None: what the run was not learned from, or, of other data, the held-out
            subjects.
        on_mask: Called with the number of masks measured, and how many there are.
        beside: Further masks to compare with, by their names: whatever `evaluate` takes.
        device: Where PyTorch computes, as for `evaluate`.

    Returns:
        What `write_report` shows, and what `add_to` puts into the record of the run.
    """
    device, recon = find_device(device), run.reconstruction() if recon is None else recon
    given = {name: [fit_mask(name, mask, data)] for name, mask in (beside or {}).items()}
    if on_mask is not None:
        on_mask(0, 1 + len(_references(data, recon, run.distribution.pattern)) + len(given))
    task = None if network is None else measurable(network, device)
    own, learned_from = same_data(run.record.data.source, data.name), run.record.data.part
    part = part or (OTHER_PART[learned_from] if own else None)
    _, measured, part, read = read_part(data, part=part, default="test", recon=recon)
    pattern = run.distribution.pattern
    by: dict[str, Any] = {"network": task, "recon": recon, "device": device}

    def measure(mask: Mask, samples: SampleSet) -> Evaluation:
        found = evaluate(mask, samples, "all", **by)
        achieved = achieved_acceleration(mask, data.geometry, pattern.limits.cost)
        return replace(found, acceleration=achieved)

    evaluation = measure(run.mask, measured).of_part(part, read)
    few = Subset(measured, _spread_out(len(measured), _most_images(data, recon)))
    slow = recon.iterative or task is not None or run.distribution.pattern.units > MANY_UNITS
    draws = 1 if slow else DRAWS
    learning, _ = choose_part(data, learned_from if own else OTHER_PART[part], "train")
    learning = calibrate(prepare(learning), recon)  # once for all reference masks
    masks = {LEARNED: [run.mask], **_reference_masks(run, learning, recon, draws, device), **given}
    total, done = sum(map(len, masks.values())), 0
    evaluations: dict[str, list[Evaluation]] = {name: [] for name in masks}
    for name, of_method in masks.items():
        for mask in of_method:
            evaluations[name].append(measure(mask, few))
            done += 1
            if on_mask is not None:
                on_mask(done, total)
    compared = {name: _summary(each) for name, each in evaluations.items()}
    first = {name: of_method[0] for name, of_method in masks.items()}
    subjects = number_subjects(measured.groups, data.groups)
    examples = []
    for title, place in _choose_examples(evaluations[LEARNED][0].psnr).items():
        images = {name: reconstruct_one(mask, few, place, recon, device=device) for name, mask in first.items()}
        examples.append(ExampleImage(few.indices[place], subjects[few.indices[place]], title, images))
    contours = None if task is None else _contours(task, few, first, compared, recon, device)
    free, geometry = run.distribution.pattern.free, data.geometry
    physics = {
        name: mask_physics(mask, pattern_of(mask, geometry, free), geometry.voxel) for name, mask in first.items()
    }
    noise = {
        name: found
        for name, mask in first.items()
        if (found := noise_of_middle(mask, measured, recon, physics[name].density.acceleration, REPLICAS, device))
    }
    evaluation = replace(evaluation, physics=physics[LEARNED], noise=noise.get(LEARNED))
    relation = _relation(learned_from, part) if own else OTHER
    return RunMeasurements(
        evaluation,
        data.name,
        relation,
        subjects,
        compared,
        len(few),
        draws,
        first,
        examples,
        contours,
        physics,
        noise,
        None if pattern.trajectory is None else angular_energy((few[index] for index in range(len(few))), pattern),
    )


def _references(data: SampleSet, recon: Reconstruction, pattern: Pattern) -> tuple[str, ...]:
    if pattern.trajectory is not None:
        return OF_ROTATIONS
    if pattern.varies:
        return OF_FRAMES if pattern.indexed == FRAME else OF_CONTRASTS
    return REFERENCES + (FOR_COILS if recon.iterative or data.geometry.channels == "coil" else ())


def _reference_masks(
    run: Run, learning: SampleSet, recon: Reconstruction, draws: int, device: torch.device
) -> dict[str, list[Mask]]:
    """Masks of each reference method that fits the pattern of a run, for the same acceleration."""
    pattern = run.distribution.pattern
    centre = run.config.centre or None
    if isinstance(recon, Fittable) and getattr(recon, "unseen", None) is None:
        # A run that was loaded knows its prior, but not those without each part of the patients: with a prior that
        # has seen the series, other masks are better.
        recon = recon.fitted(full_images(learning, recon), patient_parts(learning.groups))
    conditions = Conditions(learning, learning, recon=recon, centre=centre, beside=pattern, device=device)
    masks: dict[str, list[Mask]] = {}
    for name in _references(learning, recon, pattern):
        method = Method.parse(name, recon=recon.name, per=run.config.per)
        cells = [Cell(method, run.config.acceleration, seed) for seed in range(draws if method.draws else 1)]
        try:
            if matching_pattern(name, pattern) is None or BASELINES[name].missing:
                continue
            masks[name] = [mask for cell in cells if (mask := make_mask(conditions, cell).mask) is not None]
        except InputError:  # more lines than there are, a centre that does not fit, or a period without frames
            continue
    return masks


def _summary(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    first = evaluations[0].summary()
    about = {name: first[name] for name in ("acceleration", "images", "part")}
    about |= {name: first[name] for name in ("psnr_over_time", "psnr_of_contrasts", "frozen") if name in first}
    known = [name for name in (*METRICS, *SERIES_METRICS) if name in first]
    return about | mean_and_spread(evaluations, known)


def number_subjects(groups: Sequence[str], known: Sequence[str]) -> list[int]:
    """The numbers of subjects, from 1, in the order in which they appear among those that are known.

    >>> number_subjects(["otto", "eva", "otto"], known=["anna", "anna", "otto", "eva"])
    [2, 3, 2]
    """
    number_of = {group: number for number, group in enumerate(dict.fromkeys(known), start=1)}
    return [number_of[group] for group in groups]


def _relation(learned_from: str, measured: str) -> str:
    """What a part of the data is to the part that was learned from.

    >>> _relation("train", "test"), _relation("all", "test"), _relation("train", "all")
    ('held out', 'same', 'some')
    """
    if learned_from in ("all", measured):
        return SAME
    return SOME if measured == "all" else HELD_OUT


def _contours(
    task: Segmentation,
    few: SampleSet,
    masks: Mapping[str, Mask],
    compared: Mapping[str, Mapping[str, Any]],
    recon: Reconstruction,
    device: torch.device,
) -> "Figure":
    """The learned mask beside the best of the others."""
    from promask.figures.contours import contour_figure, middle_image

    others = sorted((name for name in masks if name != LEARNED), key=lambda name: -(compared[name]["dice"] or 0))
    chosen = {name: masks[name] for name in (LEARNED, *others[:2])}
    return contour_figure(task, few, middle_image(task, few), chosen, recon, device)


def _most_images(data: SampleSet, recon: Reconstruction) -> int:
    values = MOST_VALUES // (2 if recon.iterative else 1) // torch.Size(data.shape).numel()
    return min(max(values, FEWEST_SERIES if data.geometry.indexed else 1), MOST_IMAGES)


def _spread_out(count: int, most: int) -> list[int]:
    """At most so many numbers below `count`, evenly spread.

    >>> _spread_out(10, 4)
    [1, 3, 6, 8]
    """
    most = min(count, most)
    return [(2 * place + 1) * count // (2 * most) for place in range(most)]


def _choose_examples(psnr: Sequence[float]) -> dict[str, int]:
    """The images to look at, by what they stand for: the middle one first, then the ends.

    >>> _choose_examples([30.0, 20.0, 40.0, 35.0, 10.0])
    {'median PSNR': 0, 'lowest PSNR': 4, 'highest PSNR': 2}
    """
    ranked = sorted(range(len(psnr)), key=psnr.__getitem__)
    places = {"median PSNR": ranked[len(ranked) // 2], "lowest PSNR": ranked[0], "highest PSNR": ranked[-1]}
    chosen: dict[str, int] = {}
    for title, place in places.items():
        if place not in chosen.values():
            chosen[title] = place
    return chosen
