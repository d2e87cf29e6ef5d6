"""The command line: parse, and call the library. Everything heavy is imported when it is needed."""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.exceptions import TyperException

from promask.errors import InputError, InputWarning
from promask.options import (
    Axis,
    Convention,
    Data,
    Iterations,
    Json,
    Part,
    Recon,
    Regularisation,
    To,
    axes,
    setting,
    with_options_repeated,
    with_reading,
)
from promask.segment_cli import app as segment
from promask.showing import metrics_table, quality_tables, show_comparison, show_run, show_stability
from promask.terminal import (
    cells_told,
    count,
    messages,
    output,
    print_json,
    progress_bar,
    warnings_as_sentences,
)

if TYPE_CHECKING:
    from promask.learning.run import Run

app = typer.Typer(
    help="Learn where to sample k-space.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(segment, name="segment")
INTERRUPTED = 130
BASELINES_HELP = (
    "Drawn: random, centre, equispaced, gaussian, poisson, radial; by the data: energy, igs, greedy, loupe; "
    "as published: equispaced-paper, gaussian-paper, igs-paper."
)


@app.command()
@with_reading
def learn(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="RUN", help="The folder for the result.")],
    accel: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Units over units acquired, from 1; needed unless --config has it."),
    ] = None,
    pattern: Annotated[
        str | None, setting("1d|2d|3d", "How many axes of k-space are free; 1d: lines.", "2d")
    ] = None,
    axis: Axis = None,
    task: Annotated[
        str | None,
        setting(
            "TASK",
            "What the images are for: reconstruction or segmentation.",
            "segmentation with a network",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        setting(
            "LOSS",
            "What a good image is: mse, l1, ssim, complex-mse, complex-l1, segmentation, or a sum: "
            "'0.5*segmentation + 0.5*mse', each as a share of its value at the energy mask.",
            "mse; segmentation with a network",
        ),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The network that segments: see promask segment train.", show_default=False
        ),
    ] = None,
    finetune: Annotated[
        bool, typer.Option("--finetune", metavar="", help="Train the network on while the mask is learned.")
    ] = False,
    network_rate: Annotated[float | None, setting("RATE", "The learning rate of --finetune.", "1e-4")] = None,
    recon: Recon = None,
    iterations: Iterations = None,
    regularisation: Regularisation = None,
    preset: Annotated[str, typer.Option(metavar="default|paper", help="Settings to start from.")] = "default",
    steps: Annotated[
        int | None,
        setting("N", "Steps; with a network 5 rounds, for cg-sense and the like 120.", "100; paper: 2500"),
    ] = None,
    batch_size: Annotated[
        int | None,
        setting("N", "Images per step; with a network 48, for cg-sense and the like 4.", "16; paper: 32"),
    ] = None,
    samples: Annotated[int | None, setting("N", "Masks per image and step.", "1; paper: 4")] = None,
    members: Annotated[int | None, setting("N", "Independent runs to average over.", "1; paper: 10")] = None,
    init: Annotated[
        str | None,
        setting(
            "energy|uniform|FILE",
            "Where to start: in the order of the energy, at random, or at probabilities: a .npy file or a run.",
            "energy; paper: uniform",
        ),
    ] = None,
    centre: Annotated[
        int | None,
        setting("N", "Width of the central block that is always acquired, counted in the budget.", "0"),
    ] = None,
    annealing: Annotated[
        str | None,
        setting("none|cubic|linear", "How the budget falls to its target.", "none; paper: cubic"),
    ] = None,
    patience: Annotated[
        int | None,
        setting("N", "Stop when the mask is the same as N steps before; 0: never.", "10; paper: 0"),
    ] = None,
    seed: Annotated[int | None, setting("N", "The same seed gives the same mask, bit for bit.", "0")] = None,
    device: Annotated[str | None, setting("NAME", "Where PyTorch computes: cpu, cuda, ...", "cpu")] = None,
    part: Part = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON of settings, or a run.json; options come first.")
    ] = None,
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Learn a mask from data.

    Example: promask learn brain --accel 8 --out runs/brain
    """
    from promask.config import Config, read_settings
    from promask.data import OTHER_PART, choose_part, load, prepared
    from promask.evaluation import evaluate
    from promask.learning.learn import learn as learn_mask
    from promask.learning.run import check_destination
    from promask.report import write_report
    from promask.segmentation.network import SegmentationNetwork

    options = {
        "acceleration": accel,
        "pattern": pattern,
        "axis": axes(axis),
        "task": task,
        "loss": loss,
        "network": None if network is None else str(network),
        "finetune": finetune or None,
        "network_rate": network_rate,
        "recon": recon,
        "iterations": iterations,
        "regularisation": regularisation,
        "steps": steps,
        "batch_size": batch_size,
        "samples": samples,
        "members": members,
        "init": init,
        "centre": centre,
        "annealing": annealing,
        "patience": patience,
        "seed": seed,
        "device": device,
        "part": part,
    }
    settings = read_settings(config) if config else {}
    settings |= {name: value for name, value in options.items() if value is not None}
    settings |= reading
    whole_config = Config.preset(preset, **settings)
    check_destination(out)
    with progress_bar() as bar, warnings_as_sentences():
        data_set = load(data, whole_config)
        part_learned = choose_part(data_set, whole_config.part, usual="train")[1]
        other_part = OTHER_PART[part_learned]
        prepared(choose_part(data_set, other_part, usual="test")[0], bar.on_file)  # what is bad is found now
        run = learn_mask(data_set, preset=preset, on_step=bar.on_step, on_file=bar.on_file, **settings)
        run.save(out)  # before anything else can go wrong
        judge = run.network if isinstance(run.network, SegmentationNetwork) else whole_config.network
        evaluation = evaluate(
            run.mask, data_set, other_part, bar.on_file, network=judge, recon=run.reconstruction()
        )
        run = run.noting(evaluation=evaluation.summary())
    run.save(out)
    write_report(run, out)
    show_run(run, out, as_json)


@app.command()
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
        setting("NAME", "How images are reconstructed: see promask learn.", "that of the run, zero-filled"),
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

    Example: promask evaluate runs/brain brain
    """
    from promask.conventions import find_convention
    from promask.evaluation import evaluate as evaluate_mask
    from promask.export import read_mask
    from promask.learning.run import Run
    from promask.recon import with_settings

    settings: dict[str, Any] = {"recon": recon or "zero-filled"}
    of_recon = {"iterations": iterations, "regularisation": regularisation}
    given = {name: value for name, value in of_recon.items() if value is not None}
    with progress_bar() as bar, warnings_as_sentences():
        if (mask / "run.json").is_file():
            run = Run.load(mask)
            part, read_as = _unseen(run, data, part)
            settings |= read_as
            network = network or _own_network(run, mask)
            if recon is None:
                settings["recon"], given = with_settings(run.reconstruction(), given), {}
        settings |= reading | given
        result = evaluate_mask(read_mask(mask).mask, data, part, bar.on_file, convention, network, **settings)
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
            output.print(f"Dice and IoU of what {network} finds; an image counts for a class that is in it.")


@app.command()
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

    Example: promask stability runs/brain brain
    """
    from promask.experiments.stability import stability as measure_stability
    from promask.experiments.stability_figure import stability_figure
    from promask.files import check_writable, save_text
    from promask.learning.run import Run
    from promask.report.figures import save_figure

    run = Run.load(folder)
    numbers = (out or folder) / "stability.json"
    figure = (out or folder) / "figures" / "stability.png"
    for place in (numbers.parent, figure.parent):
        check_writable(place)
    part, settings = _unseen(run, data, part)
    with progress_bar() as bar, warnings_as_sentences():
        result = measure_stability(
            run, data, part, draws, seed, convention, bar.on_image, bar.on_file, **settings | reading
        )
    summary = {"run": str(folder), "data": data, **result.summary()}
    save_figure(stability_figure(result), figure)
    save_text(numbers, json.dumps(summary, indent=1, allow_nan=False))
    if as_json:
        print_json(summary)
    else:
        show_stability(result, data, (numbers, figure))


@app.command()
@with_reading
def baseline(
    name: Annotated[str, typer.Argument(metavar="NAME", help=BASELINES_HELP)],
    data: Data,
    accel: Annotated[float, typer.Option(metavar="NUMBER", help="Units over units acquired, from 1.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
    to: To = None,
    pattern: Annotated[str | None, setting("1d|2d|3d", "How many axes are free.", "2d; for lines: 1d")] = None,
    axis: Axis = None,
    centre: Annotated[
        int | None,
        setting("N", "Width of the central block that is always acquired, counted in the budget.", "its own"),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same mask.")] = 0,
    *,
    reading: dict[str, Any],
) -> None:
    """Make a mask to compare with; of exactly the budget, if it is not as published.

    Example: promask baseline gaussian brain --accel 8 --out gaussian.npy
    """
    from promask.baselines import baseline_mask, find_baseline
    from promask.data import choose_part, load
    from promask.export import ExportedMask, check_mask_file, write_mask
    from promask.patterns import Pattern
    from promask.reading import Reading

    check_mask_file(out, to)
    chosen = pattern or find_baseline(name).usual
    settings = reading | ({"volumes": True} if chosen == "3d" else {})
    with warnings_as_sentences():
        data_set = load(data, Reading(**settings))
        extent = data_set.geometry.extent
        units = Pattern.named(chosen, data_set.shape[1:], axes(axis), extent)
        mask = baseline_mask(name, choose_part(data_set, None, "train")[0], units, accel, seed, centre)
    exported = ExportedMask.of_mask(mask, accel, extent, units.free)
    written = write_mask(exported, out, to)
    output.print(f"{written}: {name} mask, {list(mask.shape)}, x{exported.achieved:.4g}")


@app.command()
@with_reading
def compare(
    data: Data,
    accel: Annotated[
        list[float], typer.Option(metavar="NUMBERS", help="Accelerations, such as 4 8 16 32.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for tables, masks and figures.")],
    methods: Annotated[
        list[str] | None,
        setting("NAMES", "Such as promask promask:1d igs:2d:ssim energy: a name, a pattern, a loss.", "the usual"),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="Masks of each random baseline.")] = 10,
    learned_seeds: Annotated[
        int | None, setting("N", "Masks of each method that learns from a random start.", "as --seeds, at most 5")
    ] = None,
    task: Annotated[
        str,
        typer.Option(metavar="reconstruction|segmentation", help="What masks are compared by."),
    ] = "reconstruction",
    network: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="For a segmentation: a network of promask segment train."),
    ] = None,
    loss: Annotated[
        str | None,
        setting("LOSS", "What methods that learn minimise: see promask learn.", "by the task: mse, segmentation"),
    ] = None,
    recon: Recon = None,
    iterations: Iterations = None,
    regularisation: Regularisation = None,
    convention: Convention = "paper",
    centre: Annotated[
        int | None,
        setting("N", "Width of the central block that every mask has, counted in the budget.", "the method's own"),
    ] = None,
    axis: Axis = None,
    jobs: Annotated[int | None, setting("N", "Processes at a time.", "one per core, at most 4")] = None,
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Compare methods at several accelerations, on images that no mask was made from: the paper's Table 1.

    With --task segmentation and a network it is Table 2: by the Dice and the IoU of what the network finds.

    Interrupted and started again with the same command, it goes on where it was; so does it with more methods,
    accelerations or seeds.

    Example: promask compare brain --accel 4 8 16 32 --out runs/brain-compared
    """
    from promask.experiments.compare import compare as compare_methods
    from promask.experiments.workers import usual_jobs

    with progress_bar() as bar, warnings_as_sentences(), cells_told() as told:
        comparison = compare_methods(
            data,
            accel,
            methods,
            out=out,
            seeds=seeds,
            learned_seeds=learned_seeds,
            task=task,
            network=network,
            recon=recon or "zero-filled",
            iterations=iterations,
            regularisation=regularisation,
            convention=convention,
            loss=loss,
            centre=centre,
            axis=axes(axis),
            jobs=usual_jobs() if jobs is None else jobs,
            on_cell=told(bar.on_cell),
            on_file=bar.on_file,
            **reading,
        )
    show_comparison(comparison, out, as_json)


@app.command()
def export(
    mask: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a mask file of any format.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
    to: To = None,
    shape: Annotated[
        list[int] | None,
        typer.Option(metavar="H W", help="Carry the mask to another matrix size.", show_default=False),
    ] = None,
) -> None:
    """Write a mask for other programs: NumPy, MATLAB, BART, a picture, the order of phase encodes, fastMRI.

    Example: promask export runs/brain --to bart --out mask.cfl
    """
    from promask.export import check_mask_file, read_mask, resized, write_mask

    check_mask_file(out, to)
    exported = resized(mask, shape) if shape else read_mask(mask)
    written = write_mask(exported, out, to)
    output.print(f"{written}: mask, {list(exported.mask.shape)}, x{exported.achieved:.4g}")


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", metavar="", help="Remove what it holds.")] = False,
) -> None:
    """Tell where samples of files are kept once they are ready, and how much room they take.

    The environment variable PROMASK_CACHE chooses another folder.
    """
    from promask.data import cache as store

    if clear:
        store.clear()
    output.print(f"{store.cache_folder()}: {store.size_on_disk() / 1e6:.1f} MB")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="RUN", help="The folder for the result.")] = Path("runs/demo"),
) -> None:
    """Learn a x8 mask on the built-in brain and compare it with other masks on held-out slices."""
    from promask.demo import run_demo

    with progress_bar() as bar:
        result = run_demo(out, bar.on_step)
    output.print(metrics_table(result.evaluations))
    output.print(
        f"{result.images} held-out slices of the built-in brain, zero-filled, every mask of the same size; "
        f"± is the spread over {result.draws} random masks."
    )
    output.print(f"Learned in {result.run.about['seconds']:.0f} s. The run is in {out}:")
    for path in (out / "mask.npy", out / "report.html", out / "figures" / "comparison.png"):
        output.print(f"  {path}")


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", metavar="", help="Print the version.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show tracebacks; anywhere in the line.")
    ] = False,
) -> None:
    """Learn where to sample k-space."""
    if version:
        from promask.version import __version__

        output.print(__version__)
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors that a user can mend are one sentence and exit status 2."""
    # Threads that wait for each other in a busy loop take the cores from one another when two runs share a
    # machine: 2 runs on 2 cores were seen to take 20 times as long as one. With a short wait a run alone takes
    # longer, half as much again at worst, but two take little more than twice as long as one.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    arguments = with_options_repeated((sys.argv[1:] if arguments is None else arguments) or ["--help"])
    debug = "--debug" in arguments
    try:
        status = app([word for word in arguments if word != "--debug"], standalone_mode=False) or 0
    except (InputError, TyperException) as error:
        status = _fail(error.format_message() if isinstance(error, TyperException) else str(error), 2, debug)
    except (OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        status = _fail(str(error).partition("\n")[0] or type(error).__name__, 1, debug)
    if status == INTERRUPTED:
        messages.print("promask: Interrupted.")
    sys.exit(status)


def _fail(sentence: str, status: int, debug: bool) -> int:
    if debug:
        raise
    messages.print(f"promask: {sentence}", style="bold red" if messages.is_terminal else None)
    return status


def _unseen(run: "Run", data: str, part: str | None) -> tuple[str | None, dict[str, Any]]:
    """What a run did not see of its data, if no part was asked for, and how they were read when it was learned."""
    from promask.data import OTHER_PART, load
    from promask.reading import Reading

    settings = run.config.reading_settings()
    if not _same_data(run.about["data"]["source"], data):
        as_then = {name: settings[name] for name in ("kspace", "volumes", "size")}
        simulated = ("coils", "noise") if load(data, Reading(**as_then)).shape[0] == 1 else ("noise",)
        return part, as_then | {name: settings[name] for name in simulated}
    return part or OTHER_PART[run.about["data"]["part"]], settings


def _own_network(run: "Run", folder: Path) -> Path | None:
    """The network that a run was learned for: beside it, or where it was then."""
    from promask.segmentation.network import is_network

    about = run.about.get("network")
    if not isinstance(about, dict):
        return None
    beside, then = folder / "network.safetensors", Path(about["file"]) if about.get("file") else None
    if beside.is_file() and is_network(beside):
        return beside
    if then is not None and then.is_file():
        return then
    where = "is not in a file" if then is None else f"is not at {then} any more"
    warnings.warn(
        f"The network that {folder} was learned for {where}: without --network FILE, only the images are "
        f"measured.",
        InputWarning,
        stacklevel=2,
    )
    return None


def _same_data(one: str, other: str) -> bool:
    """Whether two DATA strings mean the same, however their paths are written."""
    places = [
        (kind, os.path.realpath(place)) for kind, _, place in (text.rpartition(":") for text in (one, other))
    ]
    return places[0] == places[1]
