"""The commands of `promask segment`, which train segmentation networks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from promask.cli import options
from promask.cli.options import flag, option, with_reading
from promask.cli.progress import ProgressDisplay
from promask.cli.show import OVERLAP, metrics_table
from promask.cli.terminal import output, print_json
from promask.errors import count

if TYPE_CHECKING:
    from promask.segmentation.network import SegmentationNetwork

app = typer.Typer(
    help="""Train segmentation networks.

    Examples:
      promask segment train cardiac --preset small --out unet.safetensors
      promask learn cardiac --network unet.safetensors --accel 16 --out runs/task
    """
)


@app.command()
@with_reading
def train(
    data: options.Data,
    out: Annotated[Path, option("FILE", "The network: a .safetensors file.")],
    classes: Annotated[
        list[str] | None,
        option("NAMES", "Names and label numbers, such as myocardium=1 ventricle=2.", "all numbers in the labels"),
    ] = None,
    overlapping: Annotated[
        bool,
        flag("--overlapping", "A pixel belongs to each class up to its label number; always on for brats:ROOT."),
    ] = False,
    preset: Annotated[
        str, option("default|small", "small: a minute, for a first try.", values=options.TRAINING_PRESETS)
    ] = "default",
    epochs: Annotated[int | None, option("N", "Epochs at most.", "20; small: 10")] = None,
    seed: Annotated[int, option("N", f"{options.SEED_HELP} network.")] = 0,
    device: options.Device = "cpu",
    as_json: options.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Train a U-Net on fully sampled images, split by subject into training, validation and test parts.

    Examples:
      promask segment train cardiac --preset small --out unet.safetensors
      promask segment train scans.npz --classes heart=1 --out unet.safetensors
      promask segment train brats:ROOT --epochs 5 --json --out tumour.safetensors
    """
    from promask.segmentation.network import check_network_file
    from promask.segmentation.train import train as train_network

    check_network_file(out)
    with ProgressDisplay() as display:
        network = train_network(
            data,
            classes=classes or None,
            overlapping=overlapping,
            preset=preset,
            epochs=epochs,
            seed=seed,
            device=device,
            on_epoch=display.on_epoch,
            on_batch=display.on_batch,
            on_file=display.on_file,
            **reading,
        )
    network.save(out)
    if as_json:
        record = {name: network.record[name] for name in ("split", "epochs", "best_epoch", "seconds")}
        print_json({"network": str(out), **network.record["test"], **record})
    else:
        _show(network, out)


def _show(network: "SegmentationNetwork", out: Path) -> None:
    """How well the network segments the test part, how it was trained, and where it lies."""
    record, test = network.record, network.record["test"]
    rows = test["classes"] if len(network.classes) == 1 else {**test["classes"], "macro": test}
    output.print(metrics_table(rows, OVERLAP, first="class"))
    parts = {
        part: f"{count(size['samples'], 'sample')} of {count(size['subjects'], 'subject')}"
        for part, size in record["split"].items()
    }
    output.print(
        f"Measured on {parts['test']} of {record['data']}, held out; learned from {parts['train']}, and from "
        f"{parts['validation']} when to stop: epoch {record['best_epoch']} of {record['epochs']} was the best, "
        f"in {record['seconds']:.0f} s."
    )
    output.print(f"The network is in {out}")
