"""The command line: parse, and call the library. Everything heavy is imported when it is needed."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from promask.errors import InputError
from promask.terminal import (
    count,
    messages,
    metrics_table,
    output,
    print_json,
    progress_bar,
    show_run,
    warnings_as_sentences,
)

app = typer.Typer(
    help="Learn where to sample k-space.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
INTERRUPTED = 130

DATA_HELP = "brain, head, cardiac, knee (the last two also as cardiac+phase, knee+phase), or a .npz or .npy file."
Data = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]
Axis = Annotated[
    str | None,
    typer.Option(metavar="AXES", help="The free axes of k-space, such as 0 or 0,2.", show_default="last"),
]
Part = Annotated[
    str | None,
    typer.Option(
        metavar="train|test|all",
        help="The part of the data to use; by default the learning or the held-out part where the data tell "
        "their subjects, and all of them otherwise.",
    ),
]
Volumes = Annotated[
    bool,
    typer.Option("--volumes", metavar="", help="The samples are volumes with three axes; implied by 3d."),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object instead of text.")]


def _setting(metavar: str, text: str, default: str) -> Any:
    """An option whose default comes from the preset or the configuration file."""
    return typer.Option(metavar=metavar, help=text, show_default=default)


@app.command()
def learn(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="RUN", help="The folder for the result.")],
    accel: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Units over units acquired, from 1; needed unless --config has it."),
    ] = None,
    pattern: Annotated[
        str | None, _setting("1d|2d|3d", "How many axes of k-space are free; 1d: lines.", "2d")
    ] = None,
    axis: Axis = None,
    volumes: Volumes = False,
    loss: Annotated[str | None, _setting("mse|l1|ssim", "What a good image is.", "mse")] = None,
    preset: Annotated[str, typer.Option(metavar="default|paper", help="Settings to start from.")] = "default",
    steps: Annotated[int | None, _setting("N", "Steps of the optimisation.", "100; paper: 2500")] = None,
    batch_size: Annotated[int | None, _setting("N", "Images per step.", "16; paper: 32")] = None,
    samples: Annotated[int | None, _setting("N", "Masks drawn per image and step.", "1; paper: 4")] = None,
    members: Annotated[int | None, _setting("N", "Independent runs to average over.", "1; paper: 10")] = None,
    init: Annotated[
        str | None,
        _setting(
            "energy|uniform|FILE",
            "Where to start: in the order of the energy, at random, or at probabilities: a .npy file or a run.",
            "energy; paper: uniform",
        ),
    ] = None,
    centre: Annotated[
        int | None,
        _setting("N", "Width of the central block that is always acquired, counted in the budget.", "0"),
    ] = None,
    annealing: Annotated[
        str | None,
        _setting("none|cubic|linear", "How the budget falls to its target.", "none; paper: cubic"),
    ] = None,
    patience: Annotated[
        int | None,
        _setting("N", "Stop when the mask is the same as N steps before; 0: never.", "10; paper: 0"),
    ] = None,
    seed: Annotated[int | None, _setting("N", "The same seed gives the same mask, bit for bit.", "0")] = None,
    device: Annotated[str | None, _setting("NAME", "Where PyTorch computes: cpu, cuda, ...", "cpu")] = None,
    part: Part = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON of settings, or a run.json; options come first.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn a mask from data.

    Example: promask learn brain --accel 8 --out runs/brain
    """
    from promask.config import Config, read_settings
    from promask.data import load
    from promask.evaluation import evaluate
    from promask.learning.learn import learn as learn_mask
    from promask.learning.run import check_destination
    from promask.report import write_report

    options = {
        "acceleration": accel,
        "pattern": pattern,
        "axis": _axes(axis),
        "volumes": volumes or None,
        "loss": loss,
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
    volumes = Config.preset(preset, **settings).volumes
    check_destination(out)
    data_set = load(data, volumes)
    with progress_bar() as on_step, warnings_as_sentences():
        run = learn_mask(data_set, preset=preset, on_step=on_step, **settings)
    run.save(out)  # before anything else can go wrong
    other_part = {"train": "test", "test": "train"}.get(run.about["data"]["part"], "all")
    run = run.noting(evaluation=evaluate(run.mask, data_set, other_part).summary())
    run.save(out)
    write_report(run, out)
    show_run(run, out, as_json)


@app.command()
def evaluate(
    mask: Annotated[Path, typer.Argument(metavar="MASK_OR_RUN", help="A run folder, or a .npy file of a mask.")],
    data: Data,
    part: Part = None,
    as_json: Json = False,
) -> None:
    """Measure the image quality that a mask gives.

    Example: promask evaluate runs/brain brain
    """
    from promask.evaluation import evaluate as evaluate_mask
    from promask.evaluation import read_mask

    summary = evaluate_mask(read_mask(mask), data, part).summary()
    if as_json:
        print_json(summary)
    else:
        output.print(metrics_table({str(mask): summary}))
        output.print(
            f"{count(summary['images'], 'sample')} of {data} ({summary['part']}), zero-filled; each scaled by "
            f"the range of its target and clipped to it, SSIM with a 7 x 7 Gaussian window."
        )


@app.command()
def baseline(
    name: Annotated[str, typer.Argument(metavar="NAME", help="equispaced, gaussian or energy.")],
    data: Data,
    accel: Annotated[float, typer.Option(metavar="NUMBER", help="Units over units acquired, from 1.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The .npy file to write.")],
    pattern: Annotated[str | None, _setting("1d|2d|3d", "How many axes are free.", "2d; equispaced: 1d")] = None,
    axis: Axis = None,
    volumes: Volumes = False,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same mask.")] = 0,
) -> None:
    """Make a mask to compare with, of exactly the budget.

    Example: promask baseline gaussian brain --accel 8 --out gaussian.npy
    """
    from promask.baselines import USUAL_PATTERN, baseline_mask
    from promask.data import choose_part, load
    from promask.files import check_writable, save_array
    from promask.patterns import Pattern

    if out.suffix != ".npy" or out.is_dir():
        raise InputError(f"Masks are written as .npy files, but the name is {out}.")
    check_writable(out.parent)
    chosen = pattern or USUAL_PATTERN.get(name, "2d")
    data_set = load(data, volumes or chosen == "3d")
    units = Pattern.named(chosen, data_set.shape[1:], _axes(axis))
    mask = baseline_mask(name, choose_part(data_set, None, "train")[0], units, accel, seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    save_array(out, mask)
    output.print(f"{out}: {name} mask, {list(mask.shape)}, x{mask.numel() / int(mask.sum()):.4g}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="RUN", help="The folder for the result.")] = Path("runs/demo"),
) -> None:
    """Learn a x8 mask on the built-in brain and compare it with other masks on held-out slices."""
    from promask.demo import run_demo

    with progress_bar() as on_step:
        result = run_demo(out, on_step)
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
    # machine: 2 runs on 2 cores take 20 times as long as one. With a short wait a run alone takes a little longer,
    # a third more at worst (--preset paper).
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
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
    messages.print(f"promask: {sentence}", style="bold red" if messages.is_terminal else None, markup=False)
    return status


def _axes(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(axis) for axis in text.split(","))
    except ValueError as error:
        raise InputError(f"The axes must be whole numbers such as 1 or 0,2, but are {text!r}.") from error
