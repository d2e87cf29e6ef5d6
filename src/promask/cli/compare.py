"""The commands that make masks to compare with, and compare methods."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from promask.cli import options
from promask.cli.options import complete_from, complete_methods, option, with_reading
from promask.cli.progress import ProgressDisplay
from promask.cli.show import show_comparison
from promask.cli.terminal import messages, output
from promask.errors import InputError, count

OnCell = Callable[[int, int, str], None]
"""Called with how many masks of a comparison are finished, how many there are, and the name of the last one."""

BASELINES_HELP = (
    f"Regular: {', '.join(options.REGULAR)}; random: {', '.join(options.RANDOM)}; "
    f"from the data: {', '.join(options.FROM_DATA)}; "
    f"as published: {', '.join(options.AS_PUBLISHED)}; of frames: {', '.join(options.OF_FRAMES)}; "
    f"of spokes: {', '.join(options.OF_SPOKES)}."
)


@with_reading
def baseline(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=BASELINES_HELP, autocompletion=complete_from(options.BASELINES))
    ],
    data: options.Data,
    out: Annotated[Path, option("FILE", "The file to write.")],
    acceleration: Annotated[
        float | None, option("NUMBER", f"{options.ACCELERATION_HELP}.", False, name="--accel")
    ] = None,
    spokes: Annotated[int | None, option("N", options.SPOKES_HELP, False, name="--spokes")] = None,
    to: options.Format = None,
    pattern: Annotated[
        str | None,
        option(
            "1d|2d|3d|kt|radial|...",
            "Number of undersampled directions, the same in all frames; kt: in each frame.",
            "2d; for lines: 1d; of frames: kt",
            options.PATTERNS,
        ),
    ] = None,
    axis: options.Axis = None,
    allow_readout: options.AllowReadout = False,
    centre: Annotated[int | None, option("N", options.CENTRE_HELP, "its own", name="--centre --acs")] = None,
    shutter: options.Shutter = None,
    acs_shape: options.AcsShape = None,
    partial_fourier: options.PartialFourier = None,
    largest_gap: options.LargestGap = None,
    equal_per: options.EqualPer = None,
    period: options.Period = None,
    cost: options.Cost = None,
    recon: Annotated[
        str | None,
        option(
            "NAME",
            "Reconstruction that masks are tuned or learned for: see promask learn.",
            "zero-filled",
            options.RECONSTRUCTIONS,
        ),
    ] = None,
    iterations: options.Iterations = None,
    regularisation: options.Regularisation = None,
    seed: Annotated[int, option("N", f"{options.SEED_HELP} mask.")] = 0,
    device: options.Device = "cpu",
    *,
    reading: dict[str, Any],
) -> None:
    """Make a mask to compare with. It has exactly the number of samples asked for, unless it is as published.

    Examples:
      promask baseline gaussian brain --accel 8 --out gaussian.npy
      promask baseline equispaced scans.npz --accel 4 --centre 24 --out lines.csv
      promask baseline caipi brain --coils 8 --recon cg-sense --accel 4 --out caipi.cfl
      promask baseline kt-lattice cine --recon kt-sense --accel 8 --out kt.npy
    """
    from promask.baselines import baseline_mask, find_baseline
    from promask.baselines.problem import fitted_to
    from promask.data.device import find_device
    from promask.data.reading import Reading
    from promask.data.sample_sets import choose_part
    from promask.data.sources import load, read_part
    from promask.export import check_mask_file, write_mask
    from promask.export.mask_file import ExportedMask
    from promask.learning.setup import acceleration_of
    from promask.recon import make_reconstruction
    from promask.recon.base import is_temporal
    from promask.sampling.free_axes import STACK, TRAJECTORIES, usual_on
    from promask.sampling.limits import LimitSettings
    from promask.sampling.pattern import Pattern

    check_mask_file(out, to)
    there, baseline = find_device(device), find_baseline(name)
    pattern = baseline.usual if pattern is None and baseline.rotations else pattern
    usual = "gridding" if pattern in TRAJECTORIES or "trajectory" in reading else "zero-filled"
    by = make_reconstruction(recon or usual, iterations, regularisation)
    settings: dict[str, Any] = {"volumes": True} if pattern in ("3d", STACK) else {}
    settings |= {"trajectory": TRAJECTORIES[pattern]} if pattern in TRAJECTORIES else {}
    data_set = load(data, Reading(**reading | settings))
    space, geometry = data_set.shape[1:], data_set.geometry
    readout = geometry.readout is not None and not allow_readout
    chosen = pattern or usual_on(baseline.usual, baseline.patterns, len(space), readout, bool(geometry.indexed))
    limits = LimitSettings(
        shutter=shutter,
        acs_shape=acs_shape or "block",
        partial_fourier=partial_fourier or {},
        largest_gap=largest_gap or {},
        equal_per=equal_per,
        period=period or 0,
        cost=cost or {},
    )
    units = limits.on(Pattern.on(space, geometry, chosen, axis, allow_readout))
    if (acceleration is None) == (spokes is None):
        raise InputError("How many are acquired is not said, or twice: give `acceleration`, or `spokes`.")
    acceleration = acceleration_of(spokes or 0, units) if acceleration is None else acceleration
    units.block(centre or 0, units.budget(acceleration))  # must be possible
    learning, _ = choose_part(data_set, None, "train")
    if is_temporal(by):
        learning = read_part(data_set, recon=by).samples
        by = fitted_to(by, learning)
    mask = baseline_mask(name, learning, units, acceleration, seed, centre, recon=by, device=there)
    exported = ExportedMask.of_pattern(mask, units, acceleration)
    written = write_mask(exported, out, to)
    output.print(f"{written}: {name} mask, {list(mask.shape)}, x{exported.achieved:.4g}")


@with_reading
def compare(
    data: options.Data,
    out: Annotated[Path, option("DIR", "The folder for tables, masks and figures.")],
    accelerations: Annotated[
        list[float] | None, option("NUMBERS", "Acceleration factors: 4 8 16.", False, name="--accel")
    ] = None,
    spokes: Annotated[
        list[int] | None,
        option("NUMBERS", "Numbers of spokes, instead: 8 16 32.", False, name="--spokes"),
    ] = None,
    methods: Annotated[
        list[str] | None,
        option(
            "NAMES",
            "Such as promask promask:1d igs:2d:ssim: name:pattern:loss. NAME=FILE or NAME=RUN adds a mask of your "
            "own or of a run.",
            "the usual",
            complete_methods,
        ),
    ] = None,
    seeds: Annotated[int, option("N", "Masks of each random baseline.")] = 10,
    learned_seeds: Annotated[
        int | None, option("N", "Masks of each method that learns from a random start.", "as --seeds, at most 5")
    ] = None,
    task: Annotated[
        str, option("TASK", "What masks are compared by: reconstruction or segmentation.", values=options.TASKS)
    ] = "reconstruction",
    network: Annotated[Path | None, option("FILE", "A network of promask segment train.")] = None,
    loss: Annotated[
        str | None,
        option("LOSS", "Loss of the methods that learn.", "by the task: mse, segmentation", options.LOSSES),
    ] = None,
    recon: options.Recon = None,
    iterations: options.Iterations = None,
    regularisation: options.Regularisation = None,
    convention: options.Convention = "paper",
    centre: Annotated[
        int | None, option("N", options.CENTRE_HELP, "the method's own", name="--centre --acs")
    ] = None,
    shutter: options.Shutter = None,
    acs_shape: options.AcsShape = None,
    partial_fourier: options.PartialFourier = None,
    largest_gap: options.LargestGap = None,
    equal_per: options.EqualPer = None,
    period: options.Period = None,
    cost: options.Cost = None,
    pattern: Annotated[
        str | None,
        option(
            "1d|2d|3d|kt|radial|...",
            "Pattern of all methods that can have it, and name no other.",
            "the method's own; of frames: kt",
            options.PATTERNS,
        ),
    ] = None,
    axis: options.Axis = None,
    allow_readout: options.AllowReadout = False,
    jobs: Annotated[int | None, option("N", "Processes at a time.", "one per core, at most 4")] = None,
    scheduler: Annotated[
        str | None, option("ADDRESS", "A Dask cluster whose workers can read DATA, such as tcp://HOST:8786.")
    ] = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
    *,
    context: Any,
) -> None:
    """Compare methods at several accelerations, on images that no mask was made from: the paper's Table 1.

    With --task segmentation and a network it is Table 2: Dice and IoU of the network's segmentations.

    The same command continues a comparison that was interrupted, and adds methods, accelerations or seeds to one
    that is finished.

    Examples:
      promask compare brain --accel 4 8 16 32 --out runs/compared
      promask compare scans.npz --accel 8 --methods promask energy --out runs/few
      promask compare scans.npz --accel 8 --out runs/mine \\
        --methods promask mine=mask.mat old=runs/brain
      promask compare brain --coils 8 --recon cs --accel 4 8 --out runs/cs
      promask compare cine --coils 8 --recon kt-sense --accel 8 --out runs/kt
      promask compare cardiac --task segmentation --network unet.safetensors \\
        --accel 8 16 32 --out runs/table2
      promask compare /shared/scans.npz --accel 4 8 --seeds 100 \\
        --scheduler tcp://10.0.0.1:8786 --out runs/many
    """
    from promask.evaluation.workers import default_jobs
    from promask.report.comparison import compare as compare_methods

    # All other options are arguments of the library's function, by the same names.
    chosen = options.given({name: value for name, value in context.params.items() if name != "as_json"})
    if jobs is None and scheduler is None:
        chosen["jobs"] = default_jobs()
    with ProgressDisplay() as display, report_finished_masks(display.on_cell) as on_cell:
        comparison = compare_methods(**chosen, on_cell=on_cell, on_file=display.on_file)
    show_comparison(comparison, out, as_json)


@contextmanager
def report_finished_masks(on_cell: OnCell) -> Iterator[OnCell]:
    """Say how many masks were there before the comparison, and how many are there if it is interrupted."""
    done, total = 0, 0

    def on_cell_and_count(now_done: int, now_total: int, name: str) -> None:
        nonlocal done, total
        done, total = now_done, now_total
        if done and not name:
            messages.print(f"promask: {done} of {count(total, 'mask')} were there already.")
        on_cell(done, total, name)

    try:
        yield on_cell_and_count
    except KeyboardInterrupt:
        finished = f"{done} of {count(total, 'mask')} are finished"
        messages.print(f"promask: {finished}; the same command continues from there.")
        raise
