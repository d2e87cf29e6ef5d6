"""What it costs to resample a mask to another matrix size: the table of docs/data.md.

python -m benchmarks.carrying
"""

from benchmarks.steps import hearts
from promask.baselines import baseline_mask
from promask.evaluation.evaluate import evaluate
from promask.export.mask_function import resized
from promask.learning.api import learn
from promask.types import Mask

SIZES = (192, 256)
CASES = (("2d", 4), ("2d", 8), ("2d", 16), ("1d", 4), ("1d", 8))


def carried(pattern: str, acceleration: float, sizes: tuple[int, int], steps: int) -> list[dict[str, float]]:
    """Held-out PSNR at two sizes of the mask learned at that size and of masks resampled from the other size."""
    data = {size: hearts(size) for size in sizes}
    runs = {size: learn(data[size], acceleration, steps=steps, pattern=pattern) for size in sizes}

    def psnr(mask: Mask, size: int) -> float:
        return float(evaluate(mask, data[size]).summary()["psnr"])

    def gaussian(size: int) -> Mask:
        return baseline_mask("gaussian", data[size], runs[size].distribution.pattern, acceleration)

    return [
        {
            "from": old,
            "to": new,
            "learned": psnr(runs[new].mask, new),
            "carried": psnr(resized(runs[old], (new, new)).mask, new),
            "carried_mask": psnr(resized(runs[old].mask, (new, new)).mask, new),
            "gaussian": psnr(gaussian(new), new),
        }
        for old, new in (sizes, sizes[::-1])
    ]


def main() -> None:
    """Print a row for every case and direction."""
    print("| pattern | x | from | to | learned at that size | resampled | resampled, from mask.npy | Gaussian |")
    print("|---|---|---|---|---|---|---|---|")
    for pattern, acceleration in CASES:
        for row in carried(pattern, acceleration, SIZES, steps=100):
            masks = [f"{row[name]:.2f}" for name in ("learned", "carried", "carried_mask", "gaussian")]
            words = [pattern, acceleration, row["from"], row["to"], *masks]
            print(f"| {' | '.join(map(str, words))} |", flush=True)


if __name__ == "__main__":
    main()
