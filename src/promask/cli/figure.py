"""The commands of `promask figure`: the figures of the paper and those of physicists, each as PNG and SVG."""

import functools
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from promask.cli import options
from promask.cli.options import flag, option, with_reading
from promask.cli.progress import ProgressDisplay
from promask.cli.terminal import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from promask.data.file_set import OnFile
    from promask.learning.run import Run
    from promask.types import SampleSet

app = typer.Typer(
    help="Make the figures of the paper, and those of physicists, from runs and masks: a PNG and an SVG of each."
)

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
MaskFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="MASKS",
        help="Run folders and mask files. Each may have a name: ours=runs/brain.",
        show_default=False,
    ),
]
Out = Annotated[Path, option("FILE", "Where to write FILE.png and FILE.svg.", False)]
Dpi = Annotated[int | None, option("N", "Dots per inch of the pictures.", "200", min=20, max=1200)]
OptionalData = Annotated[
    list[str] | None,
    option(
        "DATA...", f"The images: {options.DATA_HELP}", "the held-out part of the run's data", options.complete_data
    ),
]
Image = Annotated[int | None, option("N", "The number of the image to show, from 0.", "the one in the middle")]
Acceleration = Annotated[
    float | None,
    option("NUMBER", "Acceleration factor of baselines.", "that of the first run or file", name="--accel"),
]
Seed = Annotated[int, option("N", f"{options.SEED_HELP} masks.", min=0)]


def figure_command(make: "Callable[..., Figure]") -> "Callable[..., None]":
    """Make a command of a function that returns a figure: with `--out` and `--dpi`, it writes two files.

    The function gets the callback `on_file`, and the options that were used for reading files as `reading`, each
    if it takes an argument of that name; without `reading`, the command has no such options.
    """

    @functools.wraps(make)
    def run(out: Path, dpi: int | None, **values: Any) -> None:
        from promask.data.device import find_device
        from promask.figures.layout import RESOLUTION, figure_files, save_as_both

        figure_files(out)  # before any work, see that they can be written
        if "device" in values:
            find_device(values["device"])
        with ProgressDisplay() as display:
            figure = make(**values, **({"on_file": display.on_file} if "on_file" in signature.parameters else {}))
        output.print("Written: " + ", ".join(map(str, save_as_both(figure, out, dpi or RESOLUTION))))

    signature = inspect.signature(make)
    first, *others = (each for each in signature.parameters.values() if each.name != "on_file")
    written = inspect.Parameter("out", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Out)
    resolution = inspect.Parameter("dpi", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Dpi)
    run.__dict__["__signature__"] = signature.replace(parameters=[first, written, *others, resolution])
    run.__annotations__ = {}  # those of the signature count
    app.command()(with_reading(run) if "reading" in signature.parameters else run)
    return run


@figure_command
def film(
    run: options.RunFolder,
    data: OptionalData = None,
    image: Image = None,
    frames: Annotated[int | None, option("N", "Steps to show, at most.", "6", min=2)] = None,
    part: options.Part = None,
    device: options.Device = "cpu",
    *,
    on_file: "OnFile",
    reading: dict[str, Any],
) -> "Figure":
    """Show learning as a film strip: probabilities and a reconstructed image at several steps (Figure 1).

    Example: promask figure film runs/brain --out film
    """
    from promask.figures import learning

    found = _load_with_trajectory(run)
    images = _images(found, data, part, on_file, reading)
    return learning.film(found, images, image, frames or learning.FRAMES, device=device)


@figure_command
def probabilities(
    runs: RunFolders,
    examples: Annotated[bool, flag("--examples/--no-examples", "An image of the data at the right.")] = True,
    *,
    on_file: "OnFile",
) -> "Figure":
    """Show what was learned from different data (rows) at different accelerations (columns; Figure 4).

    Example: promask figure probabilities runs/brain8 runs/brain16 runs/knee8 runs/knee16 --out probabilities
    """
    from promask.figures import masks

    found = _load(runs)
    return masks.probabilities(found, masks.examples_of(found, on_file) if examples else None)


@figure_command
def histograms(run: options.RunFolder) -> "Figure":
    """Show histograms of the probabilities in the phases of learning (Figure 2).

    Example: promask figure histograms runs/paper --out histograms
    """
    from promask.figures import learning

    return learning.histograms(*_load([run]))


@figure_command
def curves(
    run: options.RunFolder,
    data: OptionalData = None,
    images: Annotated[int | None, option("N", "Images to reconstruct, at most.", "4", min=1)] = None,
    draws: Annotated[int | None, option("N", "Random masks at each step shown.", "3", min=0)] = None,
    seed: Seed = 0,
    part: options.Part = None,
    device: options.Device = "cpu",
    *,
    on_file: "OnFile",
    reading: dict[str, Any],
) -> "Figure":
    """Show sparsity and SSIM over the steps of learning (Figure 3).

    Example: promask figure curves runs/paper --out curves
    """
    from promask.figures import learning

    found = _load_with_trajectory(run)
    samples = _images(found, data, part, on_file, reading)
    draws = learning.DRAWS if draws is None else draws
    return learning.curves(found, samples, images or learning.IMAGES, draws, seed, device=device)


@figure_command
def reconstructions(
    masks: Masks,
    data: OptionalData = None,
    image: Image = None,
    acceleration: Acceleration = None,
    zoom: Annotated[str | None, option("ROWS,COLUMNS", "Part to enlarge: 60:110,40:90.", "most detail")] = None,
    recon: options.Recon = None,
    seed: Seed = 0,
    part: options.Part = None,
    device: options.Device = "cpu",
    *,
    on_file: "OnFile",
    reading: dict[str, Any],
) -> "Figure":
    """Show reconstructions with several masks: image, enlarged part, error and mask (Figure 8).

    Example: promask figure reconstructions runs/brain energy equispaced --out reconstructions
    """
    from promask.figures.images import MaskSource, load_masks
    from promask.figures.images import reconstructions as make
    from promask.figures.layout import parse_box

    box = None if zoom is None else parse_box(zoom)
    sources = [MaskSource.parse(word) for word in masks]
    shown = load_masks(sources, data, acceleration, recon, seed, part, on_file, device, **reading)
    return make(shown.masks, shown.images, image, shown.recon, box, device)


@figure_command
def contours(
    masks: Masks,
    network: Annotated[Path | None, option("FILE", "The segmentation network.", "the first run's")] = None,
    data: OptionalData = None,
    image: Image = None,
    acceleration: Acceleration = None,
    recon: options.Recon = None,
    seed: Seed = 0,
    part: options.Part = None,
    device: options.Device = "cpu",
    *,
    on_file: "OnFile",
    reading: dict[str, Any],
) -> "Figure":
    """Show the segmentation of an image with several masks, beside the true one (Figure 10).

    Example: promask figure contours runs/task energy equispaced --network unet.safetensors --out contours
    """
    from promask.data.preprocess import reconstructed_channels
    from promask.evaluation.segmentation import measurable
    from promask.figures.contours import contour_figure as make
    from promask.figures.contours import middle_image
    from promask.figures.images import MaskSource, check_index, load_masks, network_of

    sources = [MaskSource.parse(word) for word in masks]
    task = measurable(network or network_of(sources), device)
    shown = load_masks(sources, data, acceleration, recon, seed, part, on_file, device, **reading)
    task.check(shown.images, reconstructed_channels(shown.images, shown.recon))
    index = middle_image(task, shown.images) if image is None else check_index(image, shown.images)
    return make(task, shown.images, index, shown.masks, shown.recon, device)


@figure_command
def variance(
    runs: RunFolders,
    data: OptionalData = None,
    image: Image = None,
    draws: Annotated[int | None, option("N", "Random masks of each run.", "20", min=2)] = None,
    seed: Seed = 0,
    masks_only: Annotated[bool, flag("--masks-only", "Only where members disagree, without images.")] = False,
    part: options.Part = None,
    device: options.Device = "cpu",
    *,
    on_file: "OnFile",
    reading: dict[str, Any],
) -> "Figure":
    """Show where the members of runs disagree, and how an image varies over random masks (Figures 5 to 7).

    Example: promask figure variance runs/x4 runs/x8 runs/x16 runs/x32 --out variance
    """
    from promask.figures import masks

    found = _load(runs)
    images = None if masks_only else [_images(run, data, part, on_file, reading) for run in found]
    return masks.variance(found, images, image, draws or masks.DRAWS, seed, device=device)


@figure_command
def psf(masks: MaskFiles) -> "Figure":
    """Show the point-spread function of masks: side lobes, and the width along each undersampled direction.

    Example: promask figure psf runs/brain caipi=caipi.npy --out psf
    """
    from promask.figures import physics
    from promask.figures.images import MaskSource, masks_by_name, voxel_of

    sources = [MaskSource.parse(word) for word in masks]
    return physics.point_spread_figure(masks_by_name(sources), voxel_of(sources))


@figure_command
def density(masks: MaskFiles) -> "Figure":
    """Show where masks sample: density against distance, samples of each ky and kz, the actual ACS.

    Example: promask figure density runs/brain caipi=caipi.npy --out density
    """
    from promask.figures import physics
    from promask.figures.images import MaskSource, masks_by_name

    return physics.density_figure(masks_by_name([MaskSource.parse(word) for word in masks]))


@figure_command
def noise(
    masks: Masks,
    data: OptionalData = None,
    image: Image = None,
    position: Annotated[
        int | None, option("N", "Of a volume, the position along the readout.", "the one in the middle", min=0)
    ] = None,
    replicas: Annotated[int | None, option("N", "Pseudo-replicas of the image.", "64", min=2)] = None,
    acceleration: Acceleration = None,
    recon: options.Recon = None,
    seed: Seed = 0,
    part: options.Part = None,
    device: options.Device = "cpu",
    *,
    on_file: "OnFile",
    reading: dict[str, Any],
) -> "Figure":
    """Show how masks amplify noise where coils are combined, by pseudo-replicas.

    Of a mask that is a lattice, the g-factor of SENSE is stated as well.

    Example: promask figure noise runs/coils caipi=caipi.npy --replicas 100 --out noise
    """
    from promask.data.device import find_device
    from promask.evaluation.evaluate import achieved_acceleration
    from promask.evaluation.noise import measure_noise
    from promask.figures import physics
    from promask.figures.images import MaskSource, check_index, load_masks

    sources = [MaskSource.parse(word) for word in masks]
    shown = load_masks(sources, data, acceleration, recon, seed, part, on_file, device, **reading)
    sample, geometry = shown.images[check_index(image, shown.images)], shown.images.geometry
    maps = {
        name: measure_noise(
            sample,
            mask,
            shown.recon,
            achieved_acceleration(mask, geometry),
            replicas or physics.REPLICAS,
            position,
            seed,
            find_device(device),
            geometry.indexed,
            geometry.trajectory,
        )
        for name, mask in shown.masks.items()
    }
    return physics.noise_figure(maps)


@figure_command
def xt(
    masks: Masks,
    data: OptionalData = None,
    image: Image = None,
    acceleration: Acceleration = None,
    recon: options.Recon = None,
    seed: Seed = 0,
    part: options.Part = None,
    device: options.Device = "cpu",
    *,
    on_file: "OnFile",
    reading: dict[str, Any],
) -> "Figure":
    """Show a series of frames over time: profiles through what moves, errors, and the PSNR of every frame.

    Example: promask figure xt runs/cine lattice=lattice.npy --out xt
    """
    from promask.figures.images import MaskSource, load_masks
    from promask.figures.series import xt as make

    sources = [MaskSource.parse(word) for word in masks]
    shown = load_masks(sources, data, acceleration, recon, seed, part, on_file, device, **reading)
    return make(shown.masks, shown.images, image, shown.recon, device)


@app.command()
@with_reading
def movie(
    masks: Masks,
    out: Annotated[Path, option("FILE", "Where to write it: .gif or .webp.", False)],
    data: OptionalData = None,
    image: Image = None,
    acceleration: Acceleration = None,
    recon: options.Recon = None,
    seed: Seed = 0,
    part: options.Part = None,
    device: options.Device = "cpu",
    dpi: Annotated[int | None, option("N", "Dots per inch of the pictures.", "110", min=20, max=600)] = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Write an animated picture of a series of frames with several masks, and of their errors.

    Example: promask figure movie runs/cine lattice=lattice.npy --out movie.gif
    """
    from promask.data.device import find_device
    from promask.figures.images import MaskSource, load_masks
    from promask.figures.series import LENGTH, film_file
    from promask.figures.series import movie as make

    film_file(out)  # before any work, see that it can be written
    find_device(device)
    sources = [MaskSource.parse(word) for word in masks]
    with ProgressDisplay() as display:
        shown = load_masks(sources, data, acceleration, recon, seed, part, display.on_file, device, **reading)
        path = make(shown.masks, shown.images, out, image, shown.recon, device, dpi or LENGTH)
    output.print(f"Written: {path}")


def _load(folders: list[Path]) -> "list[Run]":
    from promask.learning.run import Run

    return [Run.load(folder) for folder in folders]


def _load_with_trajectory(folder: Path) -> "Run":
    """Load a run, and refuse one without a trajectory before its data are read."""
    from promask.figures.learning import trajectory_steps

    (run,) = _load([folder])
    trajectory_steps(run)
    return run


def _images(
    run: "Run", data: list[str] | None, part: str | None, on_file: "OnFile", reading: dict[str, Any]
) -> "SampleSet":
    from promask.evaluation.matching import held_out

    return held_out(run, data, part, None, on_file, **reading)
