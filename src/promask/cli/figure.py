"""The commands of `promask figure`: the figures of the paper from runs and masks, each as PNG and SVG."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from promask.cli import options
from promask.cli.options import DATA_HELP, Part, Recon, RunFolder, complete_data, flag, option, with_reading
from promask.cli.progress import ProgressDisplay
from promask.cli.terminal import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from promask.data.file_set import OnFile
    from promask.learning.run import Run
    from promask.types import SampleSet

app = typer.Typer(help="Make the figures of the paper from runs and masks: a PNG and an SVG of each.")

RunFolders = Annotated[list[Path], typer.Argument(metavar="RUNS", help="Run folders.", show_default=False)]
Masks = Annotated[
    list[str],
    typer.Argument(
        metavar="MASKS",
        help="Run folders, mask files, and baselines such as energy, equispaced or energy:1d, which are made for "
        "the data with the pattern of the first run. Each may have a name: ours=runs/brain.",
        show_default=False,
        autocompletion=options.complete_masks,
    ),
]
Out = Annotated[Path, option("FILE", "Where to write FILE.png and FILE.svg.", False)]
Dpi = Annotated[int | None, option("N", "Dots per inch of the pictures.", "200", min=20, max=1200)]
OptionalData = Annotated[
    str | None, option("DATA", f"The images: {DATA_HELP}", "the held-out part of the run's data", complete_data)
]
Image = Annotated[int | None, option("N", "The number of the image to show, from 0.", "the one in the middle")]
Acceleration = Annotated[
    float | None,
    option("NUMBER", "Acceleration factor of baselines.", "that of the first run or file", name="--accel"),
]
Seed = Annotated[int, option("N", f"{options.SEED_HELP} masks.", min=0)]


@app.command()
@with_reading
def film(
    run: RunFolder,
    out: Out,
    data: OptionalData = None,
    image: Image = None,
    frames: Annotated[int | None, option("N", "Steps to show, at most.", "6", min=2)] = None,
    part: Part = None,
    dpi: Dpi = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Show learning as a film strip: probabilities and a reconstructed image at several steps (Figure 1).

    Example: promask figure film runs/brain --out film
    """
    from promask.figures.learning import FRAMES
    from promask.figures.learning import film as make

    def figure(on_file: "OnFile") -> "Figure":
        found = _load_with_trajectory(run)
        return make(found, _images(found, data, part, on_file, reading), image, frames or FRAMES)

    _write(figure, out, dpi)


@app.command()
def probabilities(
    runs: RunFolders,
    out: Out,
    examples: Annotated[bool, flag("--examples/--no-examples", "An image of the data at the right.")] = True,
    dpi: Dpi = None,
) -> None:
    """Show what was learned from different data (rows) at different accelerations (columns; Figure 4).

    Example: promask figure probabilities runs/brain8 runs/brain16 runs/knee8 runs/knee16 --out probabilities
    """
    from promask.figures.masks import examples_of
    from promask.figures.masks import probabilities as make

    def figure(on_file: "OnFile") -> "Figure":
        found = _load(runs)
        return make(found, examples_of(found, on_file) if examples else None)

    _write(figure, out, dpi)


@app.command()
def histograms(run: RunFolder, out: Out, dpi: Dpi = None) -> None:
    """Show histograms of the probabilities in the phases of learning (Figure 2).

    Example: promask figure histograms runs/paper --out histograms
    """
    from promask.figures.learning import histograms as make

    _write(lambda _: make(*_load([run])), out, dpi)


@app.command()
@with_reading
def curves(
    run: RunFolder,
    out: Out,
    data: OptionalData = None,
    images: Annotated[int | None, option("N", "Images to reconstruct, at most.", "4", min=1)] = None,
    draws: Annotated[int | None, option("N", "Random masks at each step shown.", "3", min=0)] = None,
    seed: Seed = 0,
    part: Part = None,
    dpi: Dpi = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Show sparsity and SSIM over the steps of learning (Figure 3).

    Example: promask figure curves runs/paper --out curves
    """
    from promask.figures.learning import DRAWS, IMAGES
    from promask.figures.learning import curves as make

    def figure(on_file: "OnFile") -> "Figure":
        found = _load_with_trajectory(run)
        of_draws = DRAWS if draws is None else draws
        return make(found, _images(found, data, part, on_file, reading), images or IMAGES, of_draws, seed)

    _write(figure, out, dpi)


@app.command()
@with_reading
def reconstructions(
    masks: Masks,
    out: Out,
    data: OptionalData = None,
    image: Image = None,
    acceleration: Acceleration = None,
    zoom: Annotated[
        str | None, option("ROWS,COLUMNS", "The part to enlarge, such as 60:110,40:90.", "most detail")
    ] = None,
    recon: Recon = None,
    seed: Seed = 0,
    part: Part = None,
    dpi: Dpi = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Show reconstructions with several masks: image, enlarged part, error and mask (Figure 8).

    Example: promask figure reconstructions runs/brain energy equispaced --out reconstructions
    """
    from promask.figures.images import Entrant, entered
    from promask.figures.images import reconstructions as make
    from promask.figures.layout import parse_box

    def figure(on_file: "OnFile") -> "Figure":
        box = None if zoom is None else parse_box(zoom)
        shown = entered(
            [Entrant.parse(word) for word in masks], data, acceleration, recon, seed, part, on_file, **reading
        )
        return make(shown.masks, shown.images, image, shown.recon, box)

    _write(figure, out, dpi)


@app.command()
@with_reading
def contours(
    masks: Masks,
    out: Out,
    network: Annotated[
        Path | None, option("FILE", "The segmentation network.", "that of the first run that has one")
    ] = None,
    data: OptionalData = None,
    image: Image = None,
    acceleration: Acceleration = None,
    recon: Recon = None,
    seed: Seed = 0,
    part: Part = None,
    dpi: Dpi = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Show the segmentation of an image with several masks, beside the true one (Figure 10).

    Example: promask figure contours runs/task energy equispaced --network unet.safetensors --out contours
    """
    from promask.data.preprocess import channels_seen
    from promask.evaluation.evaluate import measurable
    from promask.evaluation.held_out import check_index
    from promask.figures.contours import contour_figure as make
    from promask.figures.contours import middle_image
    from promask.figures.images import Entrant, entered, network_of

    def figure(on_file: "OnFile") -> "Figure":
        entrants = [Entrant.parse(word) for word in masks]
        task = measurable(network or network_of(entrants))
        shown = entered(entrants, data, acceleration, recon, seed, part, on_file, **reading)
        task.check(shown.images, channels_seen(shown.images, shown.recon))
        index = middle_image(task, shown.images) if image is None else check_index(image, shown.images)
        return make(task, shown.images, index, shown.masks, shown.recon)

    _write(figure, out, dpi)


@app.command()
@with_reading
def variance(
    runs: RunFolders,
    out: Out,
    data: OptionalData = None,
    image: Image = None,
    draws: Annotated[int | None, option("N", "Random masks of each run.", "20", min=2)] = None,
    seed: Seed = 0,
    masks_only: Annotated[bool, flag("--masks-only", "Only where members disagree, without images.")] = False,
    part: Part = None,
    dpi: Dpi = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Show where the members of runs disagree, and how an image varies over random masks (Figures 5 to 7).

    Example: promask figure variance runs/x4 runs/x8 runs/x16 runs/x32 --out variance
    """
    from promask.figures.masks import DRAWS
    from promask.figures.masks import variance as make

    def figure(on_file: "OnFile") -> "Figure":
        found = _load(runs)
        images = [] if masks_only else [_images(run, data, part, on_file, reading) for run in found]
        return make(found, images or None, image, draws or DRAWS, seed)

    _write(figure, out, dpi)


def _write(make: "Callable[[OnFile], Figure]", out: Path, dpi: int | None) -> None:
    """Make a figure, after a look at the place for it, and say where it is."""
    from promask.figures.layout import RESOLUTION, figure_files, save_as_both

    figure_files(out)
    with ProgressDisplay() as display:
        figure = make(display.on_file)
    output.print("Written: " + ", ".join(map(str, save_as_both(figure, out, dpi or RESOLUTION))))


def _load(folders: list[Path]) -> "list[Run]":
    from promask.learning.run import Run

    return [Run.load(folder) for folder in folders]


def _load_with_trajectory(folder: Path) -> "Run":
    """Load a run, and refuse one without a trajectory before its data are read."""
    from promask.figures.learning import moments

    (run,) = _load([folder])
    moments(run)
    return run


def _images(
    run: "Run", data: str | None, part: str | None, on_file: "OnFile", reading: dict[str, Any]
) -> "SampleSet":
    from promask.evaluation.held_out import held_out

    return held_out(run, data, part, None, on_file, **reading)
