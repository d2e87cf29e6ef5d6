"""The commands of `promask figure`: the figures of the paper from runs and masks, each as PNG and SVG."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from promask.cli import options as offers
from promask.cli.options import DATA_HELP, Part, Recon, setting, with_reading
from promask.cli.terminal import output, progress_bar, warnings_as_sentences

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from promask.data.file_set import OnFile
    from promask.learning.run import Run
    from promask.types import SampleSet

app = typer.Typer(help="Make the figures of the paper from runs and masks: a PNG and an SVG of each.")


def offered_masks(incomplete: str) -> list[str]:
    """Baselines, perhaps with a pattern, and files; where no baseline is meant, the shell may do better.

    >>> offered_masks("igs:1"), offered_masks("poi")
    (['igs:1d'], ['poisson'])
    """
    baseline, colon, begun = incomplete.partition(":")
    if colon and baseline in offers.BASELINES:
        return [f"{baseline}:{pattern}" for pattern in offers.one_of(offers.PATTERNS)(begun)]
    named = offers.one_of(offers.BASELINES)(incomplete)
    return [*named, *offers.paths(incomplete)] if named else []


def _count(text: str, default: str, least: int, most: int | None = None) -> Any:
    """A whole number; its default is that of the function behind the command, and here a text for the help."""
    return typer.Option(metavar="N", min=least, max=most, help=text, show_default=default)


OneRun = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]
Runs = Annotated[list[Path], typer.Argument(metavar="RUNS", help="Run folders.", show_default=False)]
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="MASKS",
        help="Run folders, mask files, and baselines such as energy, equispaced or energy:1d, which are made for "
        "the data, of the pattern of the first run; each may have a name: ours=runs/brain.",
        show_default=False,
        autocompletion=offered_masks,
    ),
]
Out = Annotated[
    Path, typer.Option(metavar="FILE", help="Where to write FILE.png and FILE.svg.", show_default=False)
]
Dpi = Annotated[int | None, _count("Dots per inch of the pictures.", "200", 20, 1200)]
OfData = Annotated[
    str | None,
    setting("DATA", f"The images: {DATA_HELP}", "what the run did not see of its data", offers.data),
]
Image = Annotated[
    int | None, setting("N", "The number of the image that is shown, from 0.", "the one in the middle")
]
Accel = Annotated[float | None, setting("NUMBER", "For baselines.", "that of the first run or file")]


@app.command()
@with_reading
def film(
    run: OneRun,
    out: Out,
    data: OfData = None,
    image: Image = None,
    frames: Annotated[int | None, _count("Moments to show, at most.", "6", 2)] = None,
    part: Part = None,
    dpi: Dpi = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Show learning as a strip of film: probabilities, and an image with the mask of each moment (Figure 1).

    Example: promask figure film runs/brain --out film
    """
    from promask.figures.learning import FRAMES
    from promask.figures.learning import film as make

    def figure(on_file: "OnFile") -> "Figure":
        (found,) = _runs([run])
        _moments(found)
        return make(found, _images(found, data, part, on_file, reading), image, frames or FRAMES)

    _write(figure, out, dpi)


@app.command()
def probabilities(
    runs: Runs,
    out: Out,
    examples: Annotated[
        bool, typer.Option("--examples/--no-examples", metavar="", help="An image of the data at the right.")
    ] = True,
    dpi: Dpi = None,
) -> None:
    """Show what was learned from different data (rows) at different accelerations (columns; Figure 4).

    Example: promask figure probabilities runs/brain8 runs/brain16 runs/knee8 runs/knee16 --out probabilities
    """
    from promask.figures.masks import examples_of
    from promask.figures.masks import probabilities as make

    def figure(on_file: "OnFile") -> "Figure":
        found = _runs(runs)
        return make(found, examples_of(found, on_file) if examples else None)

    _write(figure, out, dpi)


@app.command()
def histograms(run: OneRun, out: Out, dpi: Dpi = None) -> None:
    """Show how the probabilities spread over the phases of learning (Figure 2).

    Example: promask figure histograms runs/paper --out histograms
    """
    from promask.figures.learning import histograms as make

    _write(lambda _: make(*_runs([run])), out, dpi)


@app.command()
@with_reading
def curves(
    run: OneRun,
    out: Out,
    data: OfData = None,
    images: Annotated[int | None, _count("Images that are looked at, at most.", "4", 1)] = None,
    draws: Annotated[int | None, _count("Random masks at each moment.", "3", 0)] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The same seed gives the same masks.")] = 0,
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
        (found,) = _runs([run])
        _moments(found)
        of_draws = DRAWS if draws is None else draws
        return make(found, _images(found, data, part, on_file, reading), images or IMAGES, of_draws, seed)

    _write(figure, out, dpi)


@app.command()
@with_reading
def reconstructions(
    masks: Words,
    out: Out,
    data: OfData = None,
    image: Image = None,
    accel: Accel = None,
    zoom: Annotated[
        str | None, setting("ROWS,COLUMNS", "What is shown larger, such as 60:110,40:90.", "most detail")
    ] = None,
    recon: Recon = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of baselines that are drawn.")] = 0,
    part: Part = None,
    dpi: Dpi = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Show an image with several masks: the image, a part of it, its error and the mask (Figure 8).

    Example: promask figure reconstructions runs/brain energy equispaced --out reconstructions
    """
    from promask.figures.images import MaskSource, load_masks
    from promask.figures.images import reconstructions as make
    from promask.figures.layout import parse_box

    def figure(on_file: "OnFile") -> "Figure":
        box = None if zoom is None else parse_box(zoom)
        shown = load_masks(
            [MaskSource.parse(word) for word in masks], data, accel, recon, seed, part, on_file, **reading
        )
        return make(shown.masks, shown.images, image, shown.recon, box)

    _write(figure, out, dpi)


@app.command()
@with_reading
def contours(
    masks: Words,
    out: Out,
    network: Annotated[
        Path | None, setting("FILE", "The network that segments.", "that of the first run that has one")
    ] = None,
    data: OfData = None,
    image: Image = None,
    accel: Accel = None,
    recon: Recon = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of baselines that are drawn.")] = 0,
    part: Part = None,
    dpi: Dpi = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Show what a network finds with several masks, beside what is there (Figure 10).

    Example: promask figure contours runs/task energy equispaced --network unet.safetensors --out contours
    """
    from promask.data.preprocess import reconstructed_channels
    from promask.evaluation.evaluate import measurable
    from promask.figures.contours import contour_figure as make
    from promask.figures.contours import middle_image
    from promask.figures.images import MaskSource, check_index, load_masks, network_of

    def figure(on_file: "OnFile") -> "Figure":
        sources = [MaskSource.parse(word) for word in masks]
        task = measurable(network or network_of(sources))
        shown = load_masks(sources, data, accel, recon, seed, part, on_file, **reading)
        task.check(shown.images, reconstructed_channels(shown.images, shown.recon))
        index = middle_image(task, shown.images) if image is None else check_index(image, shown.images)
        return make(task, shown.images, index, shown.masks, shown.recon)

    _write(figure, out, dpi)


@app.command()
@with_reading
def variance(
    runs: Runs,
    out: Out,
    data: OfData = None,
    image: Image = None,
    draws: Annotated[int | None, _count("Random masks of each run.", "20", 2)] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The same seed gives the same masks.")] = 0,
    masks_only: Annotated[
        bool, typer.Option("--masks-only", metavar="", help="Only where members disagree, without images.")
    ] = False,
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
        found = _runs(runs)
        images = [] if masks_only else [_images(run, data, part, on_file, reading) for run in found]
        return make(found, images or None, image, draws or DRAWS, seed)

    _write(figure, out, dpi)


def _write(figure: "Callable[[OnFile], Figure]", out: Path, dpi: int | None) -> None:
    """Make a figure, after a look at the place for it, and say where it is."""
    from promask.figures.layout import RESOLUTION, figure_files, save_as_both

    figure_files(out)
    with progress_bar() as bar, warnings_as_sentences():
        made = figure(bar.on_file)
    output.print("Written: " + ", ".join(map(str, save_as_both(made, out, dpi or RESOLUTION))))


def _runs(folders: list[Path]) -> "list[Run]":
    from promask.learning.run import Run

    return [Run.load(folder) for folder in folders]


def _moments(run: "Run") -> None:
    """Refuse a run without a way, before its data are read."""
    from promask.figures.learning import trajectory_steps

    trajectory_steps(run)


def _images(
    run: "Run", data: str | None, part: str | None, on_file: "OnFile", reading: dict[str, Any]
) -> "SampleSet":
    from promask.evaluation.evaluate import held_out

    return held_out(run, data, part, None, on_file, **reading)
