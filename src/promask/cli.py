"""The command line: parse, and call the library. Everything heavy is imported when it is needed."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.exceptions import TyperException

from promask.compare_cli import baseline, compare
from promask.errors import InputError
from promask.measure_cli import evaluate, stability
from promask.options import (
    Axis,
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
from promask.showing import metrics_table, show_run
from promask.terminal import (
    messages,
    output,
    progress_bar,
    warnings_as_sentences,
)

if TYPE_CHECKING:
    pass

app = typer.Typer(
    help="Learn where to sample k-space.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(segment, name="segment")
INTERRUPTED = 130


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


for command in (evaluate, stability, baseline, compare):
    app.command()(command)


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
