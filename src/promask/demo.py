"""The main job, end to end: a x8 mask for the built-in brain, beside other masks."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from promask.baselines import BASELINES, baseline_mask
from promask.data import choose_part, load
from promask.evaluation import evaluate
from promask.learning.learn import learn
from promask.learning.loop import OnStep
from promask.learning.run import Run, check_destination
from promask.patterns import Pattern
from promask.report import write_report
from promask.report.figures import comparison, save_figure

ACCELERATION = 8
DRAWS = 10
"""How many masks of a random baseline are averaged over."""
COMPARED = ("equispaced", "gaussian", "energy")
SHOWN = 7
"""The held-out slice in the picture: one through the ventricles."""


@dataclass(frozen=True)
class Demo:
    """The run, and how each mask does on held-out slices: means, with the spread over random masks."""

    run: Run
    evaluations: Mapping[str, Mapping[str, Any]]
    images: int
    draws: int = DRAWS


def run_demo(out: Path, on_step: OnStep | None = None) -> Demo:
    """Learn, compare with the baselines at the same budget, and write the run folder with a picture."""
    check_destination(out)
    brain = load("brain")
    run = learn(brain, ACCELERATION, on_step=on_step)
    train, _ = choose_part(brain, "train", usual="train")
    test, _ = choose_part(brain, "test", usual="test")
    evaluations, shown = {}, {}
    for name in COMPARED:
        units = Pattern.named(BASELINES[name].usual, brain.shape[1:])
        seeds = range(DRAWS if BASELINES[name].draws else 1)
        masks = [baseline_mask(name, train, units, ACCELERATION, seed) for seed in seeds]
        evaluations[name] = _mean_and_spread([evaluate(mask, test).summary() for mask in masks])
        shown[name] = masks[0]
    evaluations["promask"] = evaluate(run.mask, brain).summary()
    shown["promask"] = run.mask

    run = run.noting(evaluation=evaluations["promask"])
    run.save(out)
    write_report(run, out)
    save_figure(comparison(shown, test, SHOWN), out / "figures" / "comparison.png")
    return Demo(run, evaluations, images=len(test))


def _mean_and_spread(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    result = dict(summaries[0])
    if len(summaries) > 1:
        for name in ("psnr", "ssim", "nmse"):
            values = [summary[name] for summary in summaries]
            result[name], result[f"{name}_spread"] = statistics.mean(values), statistics.stdev(values)
    return result
