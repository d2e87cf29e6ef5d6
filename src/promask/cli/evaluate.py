"""The commands that measure a mask or a run on data."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from promask.cli import options
from promask.cli.options import RECONSTRUCTIONS, option, with_reading
from promask.cli.progress import ProgressDisplay
from promask.cli.show import frozen_row, physics_sentences, quality_tables, show_stability
from promask.cli.terminal import output, print_json
from promask.errors import count


@with_reading
def evaluate(
    mask: Annotated[
        Path,
        typer.Argument(metavar="MASK_OR_RUN", help="A run folder, or a mask: .npy, .mat, .cfl, .png, .csv, .h5."),
    ],
    data: options.Data,
    network: Annotated[
        Path | None, option("FILE", "Also measure the segmentation by this network: Dice, IoU.", "that of the run")
    ] = None,
    recon: Annotated[
        str | None,
        option("NAME", "Reconstruction: see promask learn.", "that of the run, zero-filled", RECONSTRUCTIONS),
    ] = None,
    iterations: options.Iterations = None,
    regularisation: options.Regularisation = None,
    part: options.Part = None,
    convention: options.Convention = "paper",
    device: options.Device = "cpu",
    noise_replicas: Annotated[
        int,
        option("N", "Pseudo-replicas of one image, for its noise amplification where coils are combined."),
    ] = 16,
    as_json: options.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Measure the image quality that a mask gives, and the segmentation of the images by a network.

    A run is measured on the part of its data that it was not learned from. The data are read as they were for
    learning, unless options say otherwise.

    Examples:
      promask evaluate runs/brain brain
      promask evaluate runs/brain scans.npz --part all --json
      promask evaluate runs/brain a.h5 b.h5 "scans/*.mat"
      promask evaluate mask.mat scans.npz --recon cs
      promask evaluate runs/knee fastmri:ROOT --convention fastmri
      promask evaluate runs/task cardiac --network unet.safetensors
    """
    from promask.data.folders import shorten
    from promask.evaluation.conventions import find_convention
    from promask.evaluation.evaluate import evaluate as measure
    from promask.export import read_mask
    from promask.learning.run import Run

    with ProgressDisplay() as display:
        subject = Run.load(mask) if (mask / "run.json").is_file() else read_mask(mask)
        by = (convention, network, recon, iterations, regularisation, device, noise_replicas)
        result = measure(subject, data, part, display.on_file, *by, **reading)
    summary = result.summary()
    if as_json:
        print_json(summary)
    else:
        output.print(*quality_tables({**frozen_row(summary), str(mask): summary}), sep="\n")
        volumes = f" in {count(len(result.psnr), 'volume')}" if result.of == "volume" else ""
        measured = count(result.images, "series" if result.of == "series" else "sample")
        about = (result.indexed, bool(result.contrasts and result.contrasts.t2_error))
        output.print(
            f"{measured}{volumes} of {shorten(data)} ({result.part}), {result.recon}. "
            f"{find_convention(convention).described(*about)}"
        )
        for sentence in physics_sentences(result):
            output.print(sentence)
        if result.segmented:
            output.print(
                f"Dice and IoU of the segmentation by {result.network}; "
                f"a class is measured on the images that have it."
            )


@with_reading
def stability(
    folder: options.RunFolder,
    data: options.Data,
    draws: Annotated[int, option("N", "Random masks of either kind, at least 2.")] = 20,
    seed: Annotated[int, option("N", f"{options.SEED_HELP} masks.")] = 0,
    out: Annotated[
        Path | None, option("DIR", "The folder for stability.json and figures/stability.png.", "the run")
    ] = None,
    part: options.Part = None,
    convention: options.Convention = "paper",
    device: options.Device = "cpu",
    as_json: options.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Measure how stable a run is: members against each other, and random masks against the mode.

    This is section 4.2 of the paper. The data are chosen and read as by promask evaluate.

    Examples:
      promask stability runs/brain brain
      promask stability runs/brain brain --draws 50 --json
    """
    from promask.data.atomic import check_writable, save_text
    from promask.data.folders import shorten
    from promask.evaluation.stability import stability as measure_stability
    from promask.figures.comparison import stability_figure
    from promask.figures.layout import save_figure
    from promask.learning.run import Run

    run = Run.load(folder)
    numbers = (out or folder) / "stability.json"
    figure = (out or folder) / "figures" / "stability.png"
    for place in (numbers.parent, figure.parent):
        check_writable(place)
    with ProgressDisplay() as display:
        callbacks = (display.on_measurement, display.on_file)
        result = measure_stability(run, data, part, draws, seed, convention, *callbacks, device, **reading)
    measured = result.summary()
    summary = {"run": str(folder), **measured, "data": measured["data"]["source"], "read": measured["data"]}
    save_figure(stability_figure(result), figure)
    save_text(numbers, json.dumps(summary, indent=1, allow_nan=False))
    if as_json:
        print_json(summary)
    else:
        show_stability(result, shorten(data), (numbers, figure))
