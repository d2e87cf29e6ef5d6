"""The main job, end to end: a x8 mask for the built-in brain, beside other masks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from promask.baselines import USUAL_PATTERN, baseline_mask
from promask.data import choose_part, load
from promask.evaluation import evaluate
from promask.learning.learn import learn
from promask.learning.loop import OnStep
from promask.learning.run import Run, check_destination
from promask.patterns import Pattern
from promask.report import write_report
from promask.report.figures import comparison, save_figure

ACCELERATION = 8
SHOWN = 7
"""The held-out slice in the picture: one through the ventricles."""


@dataclass(frozen=True)
class Demo:
    """The run, and how each mask does on held-out slices."""

    run: Run
    evaluations: Mapping[str, Mapping[str, Any]]


def run_demo(out: Path, on_step: OnStep | None = None) -> Demo:
    """Learn, compare with the baselines at the same budget, and write the run folder with a picture."""
    check_destination(out)
    brain = load("brain")
    train, _ = choose_part(brain, "train", usual="train")
    test, _ = choose_part(brain, "test", usual="test")
    run = learn(brain, ACCELERATION, on_step=on_step)
    masks = {
        name: baseline_mask(name, train, Pattern.named(pattern, brain.shape[1:]), ACCELERATION)
        for name, pattern in USUAL_PATTERN.items()
    }
    masks["promask"] = run.mask
    evaluations = {name: evaluate(mask, test, part="all").summary() for name, mask in masks.items()}
    run = run.noting(evaluation={**evaluations["promask"], "part": "test"})
    run.save(out)
    write_report(run, out)
    save_figure(comparison(masks, test, SHOWN), out / "figures" / "comparison.png")
    return Demo(run, evaluations)
