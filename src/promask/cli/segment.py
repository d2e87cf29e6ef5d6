"""The commands of `promask segment`: networks that find structures in images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from promask.cli import options as offers
from promask.cli.options import Data, Json, setting, with_reading
from promask.cli.show import OVERLAP, metrics_table
from promask.cli.terminal import output, print_json, progress_bar, warnings_as_sentences
from promask.errors import count

if TYPE_CHECKING:
    from promask.segmentation.network import SegmentationNetwork

app = typer.Typer(
    help="""Train networks that find structures in images.

    Examples:
      promask segment train cardiac --preset small --out unet.safetensors
      promask learn cardiac --network unet.safetensors --accel 16 --out runs/task
    """
)


@app.command()
@with_reading
def train(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The network: a .safetensors file.")],
    classes: Annotated[
        list[str] | None,
        setting(
            "NAMES", "Names and label numbers, such as myocardium=1 ventricle=2.", "all numbers in the labels"
        ),
    ] = None,
    overlapping: Annotated[
        bool,
        typer.Option(
            "--overlapping",
            metavar="",
            help="A pixel belongs to every class whose number its label reaches; brats: always has it.",
        ),
    ] = False,
    preset: Annotated[
        str,
        typer.Option(
            metavar="default|small",
            help="small: a minute, for a first try.",
            autocompletion=offers.one_of(offers.TRAINING_PRESETS),
        ),
    ] = "default",
    epochs: Annotated[
        int | None, setting("N", "Times that every image is seen, at most.", "20; small: 10")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same network.")] = 0,
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Train a U-Net on fully sampled images, by patient split into training, validation and test.

    Examples:
      promask segment train cardiac --preset small --out unet.safetensors
      promask segment train scans.npz --classes heart=1 --out unet.safetensors
      promask segment train brats:ROOT --epochs 5 --json --out tumour.safetensors
    """
    from promask.segmentation.network import check_network_file
    from promask.segmentation.train import train as train_network

    check_network_file(out)
    with progress_bar() as bar, warnings_as_sentences():
        network = train_network(
            data,
            classes=classes or None,
            overlapping=overlapping,
            preset=preset,
            epochs=epochs,
            seed=seed,
            on_epoch=bar.on_epoch,
            on_batch=bar.on_batch,
            on_file=bar.on_file,
            **reading,
        )
    network.save(out)
    if as_json:
        print_json({"network": str(out), **network.record["test"], **_about(network)})
    else:
        _show(network, out)


def _about(network: "SegmentationNetwork") -> dict[str, Any]:
    return {name: network.record[name] for name in ("split", "epochs", "best_epoch", "seconds")}


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
