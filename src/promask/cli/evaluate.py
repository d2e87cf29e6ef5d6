"""The commands that measure a mask or a run on data."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from promask.cli import options as offers
from promask.cli.options import Convention, Data, Iterations, Json, Part, Regularisation, setting, with_reading
from promask.cli.show import quality_tables, show_stability
from promask.cli.terminal import output, print_json, progress_bar, warnings_as_sentences
from promask.errors import count


@with_reading
def evaluate(
    mask: Annotated[
        Path,
        typer.Argument(metavar="MASK_OR_RUN", help="A run folder, or a mask: .npy, .mat, .cfl, .png, .csv, .h5."),
    ],
    data: Data,
    network: Annotated[
        Path | None, setting("FILE", "Also measure what this network finds: Dice and IoU.", "that of the run")
    ] = None,
    recon: Annotated[
        str | None,
        setting(
            "NAME",
            "How images are reconstructed: see promask learn.",
            "that of the run, zero-filled",
            offers.one_of(offers.RECONSTRUCTIONS),
        ),
    ] = None,
    iterations: Iterations = None,
    regularisation: Regularisation = None,
    part: Part = None,
    convention: Convention = "paper",
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Measure the image quality that a mask gives, and what a network finds in the images.

    A run is measured on what it did not see of its data, which are read as they were when it was learned, unless
    options say otherwise.

    Examples:
      promask evaluate runs/brain brain
      promask evaluate runs/brain scans.npz --part all --json
      promask evaluate mask.mat scans.npz --recon cs
      promask evaluate runs/knee fastmri:ROOT --convention fastmri
      promask evaluate runs/task cardiac --network unet.safetensors
    """
    from promask.evaluation.conventions import find_convention
    from promask.evaluation.evaluate import evaluate as measure
    from promask.export import read_mask
    from promask.learning.run import Run

    with progress_bar() as bar, warnings_as_sentences():
        subject = Run.load(mask) if (mask / "run.json").is_file() else read_mask(mask)
        of_recon: dict[str, Any] = {"iterations": iterations, "regularisation": regularisation}
        result = measure(subject, data, part, bar.on_file, convention, network, recon, **of_recon, **reading)
    summary = result.summary()
    if as_json:
        print_json(summary)
    else:
        output.print(*quality_tables({str(mask): summary}), sep="\n")
        volumes = f" in {count(len(result.psnr), 'volume')}" if result.of == "volume" else ""
        output.print(
            f"{count(result.images, 'sample')}{volumes} of {data} ({result.part}), {result.recon}. "
            f"{find_convention(convention).sentence}"
        )
        if result.segmented:
            output.print(
                f"Dice and IoU of what {result.network} finds; an image counts for a class that is in it."
            )


@with_reading
def stability(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    data: Data,
    draws: Annotated[int, typer.Option(metavar="N", help="Random masks of either kind, at least 2.")] = 20,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same masks.")] = 0,
    out: Annotated[
        Path | None, setting("DIR", "The folder for stability.json and figures/stability.png.", "the run")
    ] = None,
    part: Part = None,
    convention: Convention = "paper",
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Tell how stable a run is: members against each other, and random masks against the mode.

    This is section 4.2 of the paper. The data are chosen and read as by promask evaluate.

    Examples:
      promask stability runs/brain brain
      promask stability runs/brain brain --draws 50 --json
    """
    from promask.data.atomic import check_writable, save_text
    from promask.evaluation.stability import stability as measure_stability
    from promask.figures.comparison import stability_figure
    from promask.figures.layout import save_figure
    from promask.learning.run import Run

    run = Run.load(folder)
    numbers = (out or folder) / "stability.json"
    figure = (out or folder) / "figures" / "stability.png"
    for place in (numbers.parent, figure.parent):
        check_writable(place)
    with progress_bar() as bar, warnings_as_sentences():
        result = measure_stability(run, data, part, draws, seed, convention, bar.on_image, bar.on_file, **reading)
    summary = {"run": str(folder), "data": data, **result.summary()}
    save_figure(stability_figure(result), figure)
    save_text(numbers, json.dumps(summary, indent=1, allow_nan=False))
    if as_json:
        print_json(summary)
    else:
        show_stability(result, data, (numbers, figure))
