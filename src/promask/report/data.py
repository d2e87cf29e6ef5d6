"""What a run's mask does to images that it has not seen, beside masks that need no learning."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from promask.baselines import BASELINES, baseline_mask, matching_pattern
from promask.data.sample_sets import OTHER_PART, Subset, choose_part
from promask.data.sources import read_part
from promask.errors import InputError
from promask.evaluation.evaluate import Evaluation, evaluate, full_images, measurable, reconstruct
from promask.evaluation.held_out import same_data
from promask.learning.records import Measured, Quality, ReferenceComparison
from promask.learning.run import Run
from promask.losses.segmentation import Segmentation
from promask.recon.base import Reconstruction
from promask.types import Mask, SampleSet, Targets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIVALS = ("equispaced", "gaussian", "poisson", "radial", "centre", "energy")
"""The baselines of a report, as far as they fit the pattern; equispaced lines are there for locations, too.
Poisson discs are for reconstructions that fill in what is missing, and take a while: they are left to those."""
LEARNED = "promask"
DRAWS = 5
"""Masks of each random baseline; one where images take long: iterative reconstructions, networks, many units."""
MANY_UNITS = 2**19
MOST_IMAGES = 16
MOST_VALUES = 2**22
"""How many images masks are compared on, at most, and how many values these may have; half of it if iterative."""
HELD_OUT, SAME, SOME, OTHER = "held out", "same", "some", "other"
"""What the images that a mask is measured on are to those that it was learned from."""
METRICS = ("psnr", "ssim", "nmse", "dice", "iou")

OnMask = Callable[[int, int], None]
"""Told how many masks were measured, and how many there are."""


@dataclass(frozen=True)
class Shown:
    """One image, fully sampled and as each of the masks shows it."""

    place: int
    """Its number in the part of the data that was measured."""
    subject: int
    """As in `Evidence`."""
    title: str
    """What it stands for."""
    full: Targets
    images: Mapping[str, Targets]


@dataclass(frozen=True)
class Evidence:
    """The quality of every image, of the masks beside the learned one, and a few images to look at."""

    evaluation: Evaluation
    source: str
    """The data that were measured."""
    seen: str
    """Whether the mask was learned from them: `HELD_OUT` and the like."""
    subjects: Sequence[int]
    """The subject of each image, counted as they come in the data: their names may be those of patients."""
    compared: Mapping[str, Mapping[str, Any]]
    """Of each mask the means over the same few images; random ones have the spread over draws, `psnr_spread`."""
    images: int
    """How many images masks were compared on."""
    draws: int
    masks: Mapping[str, Mask]
    shown: Sequence[Shown]
    contours: "Figure | None" = None
    """Of one image, where a network judges: what is there, and what it finds."""

    def noted(self, run: Run) -> Run:
        """The run with what was measured in its record."""
        return run.with_record(
            evaluation=Quality.from_json(self.evaluation.summary()),
            measured=Measured(self.source, self.seen),
            compared=ReferenceComparison.from_json(self.summary()),
        )

    def summary(self) -> dict[str, Any]:
        """The comparison, as run.json has it."""
        return {"images": self.images, "draws": self.draws, "masks": self.compared}


def gather(
    run: Run,
    data: SampleSet,
    network: Any = None,
    recon: Reconstruction | None = None,
    part: str | None = None,
    on_mask: OnMask | None = None,
) -> Evidence:
    """Measure a run's mask on the part of the data that it was not learned from, and others beside it.

    `network` and `recon` are those of the run, where they are not in files; `part` is another part of the data.
    Of data that the run was not learned from, it is the one that `evaluate` would take.
    """
    recon = run.reconstruction() if recon is None else recon
    if on_mask is not None:
        on_mask(0, 1 + len(RIVALS))
    task = None if network is None else measurable(network)
    own, learned_from = same_data(run.record.data.source, data.name), run.record.data.part
    part = part or (OTHER_PART[learned_from] if own else None)
    _, measured, part = read_part(data, part=part, default="test", recon=recon)
    evaluation = replace(evaluate(run.mask, measured, "all", network=task, recon=recon), part=part)
    to_look_at, _ = choose_part(data, learned_from if own else OTHER_PART[part], default="train")
    few = Subset(measured, _spread_out(len(measured), _most_images(data, recon)))
    slow = recon.iterative or task is not None or run.distribution.pattern.units > MANY_UNITS
    draws = 1 if slow else DRAWS
    names = [name for name in RIVALS if name != "poisson" or recon.iterative]
    rivals = _rivals(names, run, to_look_at, draws)
    total, done = sum(map(len, rivals.values())) + 1, 0
    compared, masks, of_each = {}, {}, {}
    for name, drawn in {LEARNED: [run.mask], **rivals}.items():
        evaluations = []
        for mask in drawn:
            evaluations.append(evaluate(mask, few, "all", network=task, recon=recon))
            done += 1
            if on_mask is not None:
                on_mask(done, total)
        compared[name] = mean_and_spread([each.summary() for each in evaluations])
        masks[name], of_each[name] = drawn[0], evaluations[0]
    numbers = numbered(measured.groups, data.groups)
    shown = [
        _shown(few, place, title, masks, recon, numbers)
        for title, place in _examples(of_each[LEARNED].psnr).items()
    ]
    contours = None if task is None else _contours(task, few, masks, compared, recon)
    seen = _seen(learned_from, part) if own else OTHER
    return Evidence(evaluation, data.name, seen, numbers, compared, len(few), draws, masks, shown, contours)


def numbered(groups: Sequence[str], known: Sequence[str]) -> list[int]:
    """The numbers of subjects, from 1, in the order in which they appear among those that are known.

    >>> numbered(["otto", "eva", "otto"], known=["anna", "anna", "otto", "eva"])
    [2, 3, 2]
    """
    number_of = {group: number for number, group in enumerate(dict.fromkeys(known), start=1)}
    return [number_of[group] for group in groups]


def _seen(learned_from: str, measured: str) -> str:
    """What a part of the data is to the part that was learned from.

    >>> _seen("train", "test"), _seen("all", "test"), _seen("train", "all")
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
) -> "Figure":
    """The learned mask beside the best of the others."""
    from promask.figures.contours import contour_figure, middle_image

    others = sorted((name for name in masks if name != LEARNED), key=lambda name: -(compared[name]["dice"] or 0))
    chosen = {name: masks[name] for name in (LEARNED, *others[:2])}
    return contour_figure(task, few, middle_image(task, few), chosen, recon)


def mean_and_spread(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The summary of several masks of one kind: means, and the standard deviation under the name and `_spread`."""
    result = {
        name: summaries[0][name] for name in ("acceleration", "images", "part", *METRICS) if name in summaries[0]
    }
    for name in METRICS:
        values = [summary[name] for summary in summaries if summary.get(name) is not None]
        if len(values) > 1:
            result[name], result[f"{name}_spread"] = statistics.mean(values), statistics.stdev(values)
    return result


def _rivals(names: Sequence[str], run: Run, data: SampleSet, draws: int) -> dict[str, list[Mask]]:
    """Masks of each baseline that fits the pattern of a run, for the same acceleration."""
    found: dict[str, list[Mask]] = {}
    for name in names:
        baseline = BASELINES[name]
        pattern = matching_pattern(name, run.distribution.pattern)
        if pattern is None or not baseline.available:
            continue
        try:
            found[name] = [
                baseline_mask(name, data, pattern, run.config.acceleration, seed, run.config.centre or None)
                for seed in range(draws if baseline.draws else 1)
            ]
        except InputError:  # more lines than there are, or a centre that does not fit into so few of them
            continue
    return found


def _most_images(data: SampleSet, recon: Reconstruction) -> int:
    values = MOST_VALUES // (2 if recon.iterative else 1) // torch.Size(data.shape).numel()
    return min(max(values, 1), MOST_IMAGES)


def _spread_out(count: int, most: int) -> list[int]:
    """At most so many numbers below `count`, evenly spread.

    >>> _spread_out(10, 4)
    [1, 3, 6, 8]
    """
    most = min(count, most)
    return [(2 * place + 1) * count // (2 * most) for place in range(most)]


def _examples(psnr: Sequence[float]) -> dict[str, int]:
    """The images to look at, by what they stand for: the middle one first, then the ends.

    >>> _examples([30.0, 20.0, 40.0, 35.0, 10.0])
    {'median PSNR': 0, 'lowest PSNR': 4, 'highest PSNR': 2}
    """
    ranked = sorted(range(len(psnr)), key=psnr.__getitem__)
    places = {"median PSNR": ranked[len(ranked) // 2], "lowest PSNR": ranked[0], "highest PSNR": ranked[-1]}
    chosen: dict[str, int] = {}
    for title, place in places.items():
        if place not in chosen.values():
            chosen[title] = place
    return chosen


def _shown(
    few: Subset, place: int, title: str, masks: Mapping[str, Mask], recon: Reconstruction, numbers: Sequence[int]
) -> Shown:
    alone = range(place, place + 1)
    images = {name: reconstruct(mask, few, alone, recon)[0] for name, mask in masks.items()}
    index = few.indices[place]
    return Shown(index, numbers[index], title, full_images(few, alone, recon), images)
