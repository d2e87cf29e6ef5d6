"""The same images at different scales, learned by both presets: the table of docs/benchmarks.md on scale.

python -m benchmarks.scale
"""

import warnings

import torch

from promask.baselines import baseline_mask
from promask.data.arrays import from_images
from promask.data.sample_sets import ArraySet
from promask.data.sources import load
from promask.evaluation.evaluate import evaluate
from promask.learning.api import learn
from promask.sampling.pattern import Pattern
from promask.types import Mask

SCALES = (1.0, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0001)
ACCELERATIONS = (4, 16)


def brains(scale: float) -> ArraySet:
    """Ten slices of the built-in brain in 64 x 64 pixels, with this largest value."""
    images = torch.nn.functional.avg_pool2d(load("brain").images[::6, :, :192, :192].float(), 3)
    return from_images(scale * images / images.max())


def row(acceleration: float, scale: float, steps: int = 800) -> str:
    """PSNR gains over the closed form: published and default learner; and whether a warning was given."""
    data = brains(scale)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        published = learn(data, acceleration, preset="paper", members=1, steps=steps, batch_size=8, samples=2)
    default = learn(data, acceleration)

    def psnr(mask: Mask) -> float:
        return float(evaluate(mask, data).summary()["psnr"])

    closed_form = psnr(baseline_mask("energy", data, Pattern.named("2d", data.shape[1:]), acceleration))
    gains = [f"{psnr(run.mask) - closed_form:+.2f}" for run in (published, default)]
    return f"| {acceleration:g} | {scale:g} | {gains[0]} | {'yes' if caught else 'no'} | {gains[1]} |"


def main() -> None:
    """Print a row for every acceleration and scale."""
    print("| x | largest value | published, dB over the closed form | warned | default |\n|---|---|---|---|---|")
    for acceleration in ACCELERATIONS:
        for scale in SCALES:
            print(row(acceleration, scale), flush=True)


if __name__ == "__main__":
    main()
