"""The command that learns a mask."""

import dataclasses
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from promask.cli import options
from promask.cli.options import ANNEALINGS, LOSSES, PATTERNS, STARTS, TASKS, flag, option, with_reading
from promask.cli.progress import ProgressDisplay
from promask.cli.show import show_run
from promask.cli.terminal import InterruptedCommand, is_main_process

LOSS_HELP = (
    "The loss to minimise: mse, l1, ssim, psnr, motion (mse in which moving pixels count eleven times), "
    "complex-mse, complex-l1, segmentation, or a weighted sum, '0.5*segmentation + 0.5*mse', of losses relative "
    "to those of the energy mask."
)
INIT_HELP = "Initial probabilities: energy, by the energy of the data; uniform; or those of a .npy file or a run."


@with_reading
def learn(
    data: options.Data,
    out: Annotated[Path, option("RUN", "The folder for the result.")],
    acceleration: Annotated[
        float | None,
        option("NUMBER", f"{options.ACCELERATION_HELP}; needed unless --config has it.", name="--accel"),
    ] = None,
    pattern: Annotated[
        str | None,
        option(
            "PATTERN",
            "Number of undersampled directions: 1d (lines), 2d, 3d; kt or kt-2d: 1d or 2d, another in each frame. "
            "Or radial, spiral, stack-of-stars; kt-radial, kt-spiral: others in each frame.",
            "phase encodings, or 2d; kt for frames",
            PATTERNS,
        ),
    ] = None,
    spokes: Annotated[int | None, option("N", options.SPOKES_HELP, name="--spokes")] = None,
    axis: options.Axis = None,
    allow_readout: options.AllowReadout = False,
    task: Annotated[
        str | None,
        option("TASK", "Purpose: reconstruction or segmentation.", "segmentation with a network", TASKS),
    ] = None,
    loss: Annotated[
        str | None,
        option("LOSS", LOSS_HELP, "mse; segmentation with a network; motion with kt-...; psnr with --per", LOSSES),
    ] = None,
    network: Annotated[Path | None, option("FILE", "The segmentation network: see promask segment train.")] = None,
    finetune: Annotated[bool, flag("--finetune", "Train the network further while the mask is learned.")] = False,
    network_rate: Annotated[float | None, option("RATE", "Learning rate of --finetune.", "1e-4")] = None,
    recon: options.Recon = None,
    iterations: options.Iterations = None,
    regularisation: options.Regularisation = None,
    preset: Annotated[str, option("default|paper", "Settings to start from.", values=options.PRESETS)] = "default",
    steps: Annotated[
        int | None,
        option("N", "Steps at most; with a network 5, with an iterative reconstruction 120.", "100; paper: 2500"),
    ] = None,
    batch_size: Annotated[
        int | None,
        option("N", "Images per step; with a network 48, with an iterative reconstruction 4.", "16; paper: 32"),
    ] = None,
    samples: Annotated[int | None, option("N", "Masks drawn per image and step.", "1; paper: 4")] = None,
    members: Annotated[int | None, option("N", "Independent runs to average over.", "1; paper: 10")] = None,
    init: Annotated[
        str | None, option("START", INIT_HELP, "energy; paper: uniform", options.complete_from(STARTS, files=True))
    ] = None,
    centre: Annotated[int | None, option("N", options.CENTRE_HELP, "0", name="--centre --acs")] = None,
    shutter: options.Shutter = None,
    acs_shape: options.AcsShape = None,
    partial_fourier: options.PartialFourier = None,
    largest_gap: options.LargestGap = None,
    equal_per: options.EqualPer = None,
    period: options.Period = None,
    cost: options.Cost = None,
    annealing: Annotated[
        str | None,
        option(
            "NAME", "Annealing of the number of samples: none, cubic or linear.", "none; paper: cubic", ANNEALINGS
        ),
    ] = None,
    patience: Annotated[
        int | None,
        option("N", "Early stopping: stop when the mask has not changed for N steps; 0: never.", "10; paper: 0"),
    ] = None,
    seed: Annotated[int | None, option("N", f"{options.SEED_HELP} mask, bit for bit.", "0")] = None,
    device: Annotated[str | None, options.DEVICE] = None,
    part: options.Part = None,
    config: Annotated[Path | None, option("FILE", "JSON of settings, or a run.json; options override it.")] = None,
    resume: Annotated[bool, flag("--resume", "Continue a run that was stopped, from its checkpoint.")] = False,
    overwrite: options.Overwrite = False,
    scheduler: Annotated[
        str | None,
        option("ADDRESS", "A Dask cluster that learns the members, such as tcp://HOST:8786.", "this machine"),
    ] = None,
    as_json: options.Json = False,
    *,
    context: Any,
) -> None:
    """Learn a mask from data.

    A run that was killed continues with --resume, and gives the same bits. With torchrun, several processes or
    machines learn one mask together.

    Examples:
      promask learn brain --accel 8 --out runs/brain
      promask learn scans/ --accel 4 --pattern 1d --out runs/lines
      promask learn a.h5 b.h5 "scans/*.mat" --accel 4 --out runs/files
      promask learn volume.h5 --volumes --accel 8 --shutter ellipse --acs 24 \\
        --partial-fourier ky=6/8 --out runs/volume
      promask learn bids/ --select T1w ses-01 --accel 4 --out runs/t1
      promask learn scans.npz --accel 8 --loss ssim --members 5 --out runs/ssim
      promask learn fastmri:ROOT --accel 4 --pattern 1d --out runs/knee
      promask learn brain --coils 8 --recon cg-sense --accel 4 --out runs/sense
      promask learn knee --coils 8 --pattern radial --spokes 32 \\
        --recon cg-sense --out runs/spokes
      promask learn cine.npz --axes "slice frame y x" --coils 8 \\
        --recon kt-sense --accel 8 --out runs/cine
      promask learn brains.npz --per contrast --cost FLAIR=2.5 \\
        --accel 4 --out runs/split
      promask learn cardiac --network unet.safetensors --accel 16 --out runs/task
      promask learn brain --config runs/brain/run.json --seed 1 --out runs/again
      promask learn brain --accel 8 --out runs/brain --resume
      promask learn scans.npz --accel 8 --members 10 \\
        --scheduler tcp://HOST:8786 --out runs/ten
      torchrun --nproc-per-node 2 -m promask learn brain --accel 8 --out runs/brain
    """
    with ProgressDisplay() as display, explain_interruption(out):
        from promask.learning.config import Config, read_settings
        from promask.problem.parallel import joined, restarted
        from promask.report.pipeline import learn_and_report

        names = {field.name for field in dataclasses.fields(Config)}
        chosen = {name: value for name, value in options.given(context.params).items() if name in names}
        settings = (read_settings(config) if config else {}) | chosen
        if network is not None:
            settings["network"] = str(network)
        with joined(settings.get("device", "cpu")) as group:
            run = learn_and_report(
                *(data, out, preset, display.on_step, display.on_file, display.on_measurement),
                command=shlex.join(["promask", *context.obj]),
                resume=resume or restarted(),
                overwrite=overwrite,
                group=group,
                scheduler=scheduler,
                **settings,
            )
    if is_main_process():
        show_run(run, out, as_json)


@contextmanager
def explain_interruption(out: Path) -> Iterator[None]:
    """If learning is interrupted and there is a checkpoint, say how to continue."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stop:
        from promask.learning.checkpoint import checkpoints_in

        if not checkpoints_in(out):
            raise
        kept = f"what was learned is kept in {out}, and the same command with --resume goes on"
        raise InterruptedCommand(stop, kept) from stop
