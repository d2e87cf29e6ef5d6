"""The command line: parse, call the library, show progress. Everything heavy is imported when it is needed."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.exceptions import TyperException

from promask.errors import InputError

if TYPE_CHECKING:
    from promask.learning.loop import Progress
    from promask.learning.run import Run

app = typer.Typer(
    help="Learn where to sample k-space.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
output, messages = (
    Console(soft_wrap=True, highlight=False),
    Console(stderr=True, soft_wrap=True, highlight=False),
)

DATA_HELP = "brain, head, cardiac, knee (the last two also as cardiac+phase, knee+phase), or a .npz or .npy file."
Data = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]
Accel = Annotated[
    float | None,
    typer.Option("--accel", help="Units over units acquired, any number from 1; required unless --config has it."),
]
Axis = Annotated[
    str | None, typer.Option(metavar="A[,B]", help="The free axes of k-space; by default the last ones.")
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
    bool, typer.Option("--volumes", help="The samples are volumes with three axes; implied by 3d.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]


@app.command()
def learn(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="RUN", help="The folder for the result.")],
    accel: Accel = None,
    pattern: Annotated[
        str | None, typer.Option(metavar="1d|2d|3d", help="How many axes of k-space are free: 1d is lines.")
    ] = None,
    axis: Axis = None,
    volumes: Volumes = False,
    loss: Annotated[str | None, typer.Option(metavar="mse|l1|ssim", help="What a good image is.")] = None,
    preset: Annotated[str, typer.Option(metavar="default|paper", help="Settings to start from.")] = "default",
    steps: Annotated[int | None, typer.Option(help="Steps of the optimisation.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per step.")] = None,
    samples: Annotated[int | None, typer.Option(help="Masks drawn per image and step.")] = None,
    members: Annotated[int | None, typer.Option(help="Independent runs to average over.")] = None,
    init: Annotated[
        str | None,
        typer.Option(metavar="uniform|FILE", help="Random start, or a .npy file of probabilities."),
    ] = None,
    annealing: Annotated[
        str | None, typer.Option(metavar="cubic|linear", help="How the budget falls to its target.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same bits. [default: 0]")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, ... [default: cpu]")] = None,
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
        "annealing": annealing,
        "seed": seed,
        "device": device,
    }
    settings = read_settings(config) if config else {}
    settings |= {name: value for name, value in options.items() if value is not None}
    if "acceleration" not in settings:
        raise InputError("The acceleration is missing: add --accel 8, or another number of at least 1.")
    check_destination(out)
    data_set = load(data, Config.preset(preset, **settings).volumes)
    with _progress_bar() as on_step:
        run = learn_mask(data_set, preset=preset, part=part, on_step=on_step, **settings)
    evaluation = evaluate(run.mask, data_set, {"train": "test"}.get(part or "", part)).summary()
    run = run.noting(evaluation=evaluation)
    run.save(out)
    write_report(run, out)
    _show_run(run, out, evaluation, as_json)


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
        _print_json(summary)
    else:
        output.print(_metrics_table({str(mask): summary}))
        output.print(f"{summary['images']} images of {data} ({summary['part']}), zero-filled; paper's convention.")


@app.command()
def baseline(
    name: Annotated[str, typer.Argument(metavar="NAME", help="equispaced, gaussian or energy.")],
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The .npy file to write.")],
    accel: Accel = None,
    pattern: Annotated[str | None, typer.Option(metavar="1d|2d|3d", help="How many axes are free.")] = None,
    axis: Axis = None,
    volumes: Volumes = False,
    seed: Seed = 0,
) -> None:
    """Make a mask to compare with.

    Example: promask baseline gaussian brain --accel 8 --out gaussian.npy
    """
    from promask.baselines import USUAL_PATTERN, baseline_mask
    from promask.data import choose_part, load
    from promask.files import save_array
    from promask.patterns import Pattern

    if accel is None:
        raise InputError("The acceleration is missing: add --accel 8, or another number of at least 1.")
    chosen = pattern or USUAL_PATTERN.get(name, "2d")
    data_set = load(data, volumes or chosen == "3d")
    units = Pattern.named(chosen, data_set.shape[1:], _axes(axis))
    mask = baseline_mask(name, choose_part(data_set, None, "train")[0], units, accel, seed)
    save_array(out, mask)
    output.print(f"{out}: {name} mask, {list(mask.shape)}, x{mask.numel() / int(mask.sum()):.4g}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="RUN", help="The folder for the result.")] = Path("runs/demo"),
) -> None:
    """Learn a x8 mask on the built-in brain and compare it with other masks on held-out slices."""
    from promask.demo import run_demo

    with _progress_bar() as on_step:
        result = run_demo(out, on_step)
    output.print(_metrics_table(result.evaluations))
    images = next(iter(result.evaluations.values()))["images"]
    output.print(f"{images} held-out slices of the built-in brain, zero-filled reconstruction, equal budgets.")
    output.print(f"Learned in {result.run.about['seconds']:.0f} s. The run is in {out}:")
    for path in (out / "mask.npy", out / "report.html", out / "figures" / "comparison.png"):
        output.print(f"  {path}")


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Learn where to sample k-space."""
    if version:
        from promask.version import __version__

        output.print(__version__)
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors that a user can mend are one sentence and exit status 2."""
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if "--debug" in arguments:
        app(arguments)
    try:
        status = app(arguments, standalone_mode=False)
    except InputError as error:
        status = _fail(str(error), 2)
    except TyperException as error:
        status = _fail(error.format_message(), 2)
    except (OSError, FloatingPointError) as error:
        status = _fail(f"{error}", 1)
    sys.exit(status or 0)


def _fail(sentence: str, status: int) -> int:
    messages.print(f"promask: {sentence}", style="bold red" if messages.is_terminal else None, markup=False)
    return status


def _axes(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(axis) for axis in text.split(","))
    except ValueError as error:
        raise InputError(f"The axes must be whole numbers such as 1 or 0,2, but are {text!r}.") from error


@contextmanager
def _progress_bar() -> "Iterator[Callable[[Progress], None]]":
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3g}  budget {task.fields[budget]:.0f}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
        task = bar.add_task("Learning", total=None, loss=0.0, budget=0.0)

        def on_step(progress: "Progress") -> None:
            total = progress.steps * progress.members
            done = progress.member * progress.steps + progress.step
            bar.update(task, completed=done, total=total, loss=progress.loss, budget=progress.budget)

        yield on_step


def _show_run(run: "Run", out: Path, evaluation: dict[str, Any], as_json: bool) -> None:
    about, distribution = run.about, run.distribution
    if as_json:
        summary = {
            "run": str(out),
            "acceleration": run.acceleration,
            "units": distribution.pattern.units,
            "budget": distribution.budget,
            "seconds": about["seconds"],
            "evaluation": evaluation,
        }
        _print_json(summary)
        return
    data = about["data"]
    output.print(_metrics_table({"learned": evaluation}))
    held_out = "held out" if evaluation["part"] == "test" else "the same that it was learned from"
    output.print(
        f"Learned from {data['images']} images in {about['seconds']:.1f} s, {distribution.budget} of "
        f"{distribution.pattern.units} units; measured on {evaluation['images']} images, {held_out}."
    )
    output.print(f"The run is in {out}: open {out / 'report.html'}")


def _metrics_table(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table("mask", box=None, pad_edge=False)
    for heading in ("acceleration", "PSNR (dB)", "SSIM", "NMSE"):
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        values = [("acceleration", ".4g"), ("psnr", ".2f"), ("ssim", ".4f"), ("nmse", ".5f")]
        table.add_row(name, *("-" if row[key] is None else format(row[key], style) for key, style in values))
    return table


def _print_json(content: dict[str, Any]) -> None:
    output.print(json.dumps(content), markup=False)
