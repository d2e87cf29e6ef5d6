"""The command that learns a mask."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from promask.cli import options as offers
from promask.cli.options import (
    Axis,
    Data,
    Iterations,
    Json,
    Part,
    Recon,
    Regularisation,
    axes,
    one_of,
    setting,
    with_reading,
)
from promask.cli.show import show_run
from promask.cli.terminal import as_typed, leave_word, progress_bar, speaks, warnings_as_sentences


@with_reading
def learn(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="RUN", help="The folder for the result.")],
    accel: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="Units over units acquired, from 1; needed unless --config has it."),
    ] = None,
    pattern: Annotated[
        str | None, setting("1d|2d|3d", "Free axes of k-space; 1d: lines.", "2d", one_of(offers.PATTERNS))
    ] = None,
    axis: Axis = None,
    task: Annotated[
        str | None,
        setting(
            "TASK",
            "What the images are for: reconstruction or segmentation.",
            "segmentation with a network",
            one_of(offers.TASKS),
        ),
    ] = None,
    loss: Annotated[
        str | None,
        setting(
            "LOSS",
            "What a good image is: mse, l1, ssim, complex-mse, complex-l1, segmentation, or a sum: "
            "'0.5*segmentation + 0.5*mse', each as a share of its value at the energy mask.",
            "mse; segmentation with a network",
            one_of(offers.LOSSES),
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
    preset: Annotated[
        str,
        typer.Option(
            metavar="default|paper", help="Settings to start from.", autocompletion=one_of(offers.PRESETS)
        ),
    ] = "default",
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
            "START",
            "Where to start: energy, in its order; uniform, at random; or at probabilities: a .npy file or a run.",
            "energy; paper: uniform",
            offers.start,
        ),
    ] = None,
    centre: Annotated[
        int | None,
        setting("N", "Width of the central block that is always acquired, counted in the budget.", "0"),
    ] = None,
    annealing: Annotated[
        str | None,
        setting(
            "NAME",
            "How the budget falls to its target: none, cubic or linear.",
            "none; paper: cubic",
            one_of(offers.ANNEALINGS),
        ),
    ] = None,
    patience: Annotated[
        int | None,
        setting("N", "Stop when the mask is the same as N steps before; 0: never.", "10; paper: 0"),
    ] = None,
    seed: Annotated[int | None, setting("N", "The same seed gives the same mask, bit for bit.", "0")] = None,
    device: Annotated[
        str | None, setting("NAME", "Where PyTorch computes: cpu, cuda, ...", "cpu", one_of(offers.DEVICES))
    ] = None,
    part: Part = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON of settings, or a run.json; options come first.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", metavar="", help="Go on with a run that was interrupted or killed, from its checkpoint."
        ),
    ] = False,
    scheduler: Annotated[
        str | None,
        setting("ADDRESS", "A Dask cluster that learns the members, such as tcp://HOST:8786.", "this machine"),
    ] = None,
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Learn a mask from data.

    A run that was killed goes on with --resume, and ends with the same bits. With torchrun, several processes or
    machines learn one mask together.

    Examples:
      promask learn brain --accel 8 --out runs/brain
      promask learn scans/ --accel 4 --pattern 1d --out runs/lines
      promask learn scans.npz --accel 8 --loss ssim --members 5 --out runs/ssim
      promask learn fastmri:ROOT --accel 4 --pattern 1d --out runs/knee
      promask learn brain --coils 8 --recon cg-sense --accel 4 --out runs/sense
      promask learn cardiac --network unet.safetensors --accel 16 --out runs/task
      promask learn brain --config runs/brain/run.json --seed 1 --out runs/again
      promask learn brain --accel 8 --out runs/brain --resume
      promask learn scans.npz --accel 8 --members 10 \\
        --scheduler tcp://HOST:8786 --out runs/ten
      torchrun --nproc-per-node 2 -m promask learn brain --accel 8 --out runs/brain
    """
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
    with progress_bar() as bar, warnings_as_sentences(), saying_what_is_kept(out):
        from promask.learning.config import read_settings
        from promask.problem.parallel import joined, restarted
        from promask.report.pipeline import learn_and_report

        settings = read_settings(config) if config else {}
        settings |= {name: value for name, value in options.items() if value is not None}
        settings |= reading
        with joined(settings.get("device", "cpu")) as group:
            run = learn_and_report(
                data,
                out,
                preset,
                bar.on_step,
                bar.on_file,
                bar.on_image,
                command=as_typed(),
                resume=resume or restarted(),
                group=group,
                scheduler=scheduler,
                **settings,
            )
    if speaks():
        show_run(run, out, as_json)


@contextmanager
def saying_what_is_kept(out: Path) -> Iterator[None]:
    """If learning is interrupted, say how to go on."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        from promask.learning.checkpoint import checkpoints_in

        if checkpoints_in(out):
            leave_word(f"what was learned is kept in {out}, and the same command with --resume goes on.")
        raise
