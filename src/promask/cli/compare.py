"""The commands that make other masks, and compare them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from promask.cli import options as offers
from promask.cli.options import (
    Axis,
    Convention,
    Data,
    Iterations,
    Json,
    Recon,
    Regularisation,
    To,
    axes,
    one_of,
    setting,
    with_reading,
)
from promask.cli.show import show_comparison
from promask.cli.terminal import cells_told, output, progress_bar, warnings_as_sentences

BASELINES_HELP = (
    "Drawn: random, centre, equispaced, gaussian, poisson, radial; by the data: energy, igs, greedy, loupe; "
    "as published: equispaced-paper, gaussian-paper, igs-paper."
)


@with_reading
def baseline(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=BASELINES_HELP, autocompletion=one_of(offers.BASELINES))
    ],
    data: Data,
    accel: Annotated[float, typer.Option(metavar="NUMBER", help="Units over units acquired, from 1.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
    to: To = None,
    pattern: Annotated[
        str | None, setting("1d|2d|3d", "How many axes are free.", "2d; for lines: 1d", one_of(offers.PATTERNS))
    ] = None,
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

    Examples:
      promask baseline gaussian brain --accel 8 --out gaussian.npy
      promask baseline equispaced scans.npz --accel 4 --centre 24 --out lines.csv
    """
    from promask.baselines import baseline_mask, find_baseline
    from promask.data.reading import Reading
    from promask.data.sample_sets import choose_part
    from promask.data.sources import load
    from promask.export import check_mask_file, write_mask
    from promask.export.mask_file import ExportedMask
    from promask.sampling.pattern import Pattern

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


@with_reading
def compare(
    data: Data,
    accel: Annotated[
        list[float], typer.Option(metavar="NUMBERS", help="Accelerations, such as 4 8 16 32.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for tables, masks and figures.")],
    methods: Annotated[
        list[str] | None,
        setting(
            "NAMES",
            "Such as promask promask:1d igs:2d:ssim energy: a name, a pattern, a loss.",
            "the usual",
            offers.methods,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", help="Masks of each random baseline.")] = 10,
    learned_seeds: Annotated[
        int | None, setting("N", "Masks of each method that learns from a random start.", "as --seeds, at most 5")
    ] = None,
    task: Annotated[
        str,
        typer.Option(
            metavar="TASK",
            help="What masks are compared by: reconstruction or segmentation.",
            autocompletion=one_of(offers.TASKS),
        ),
    ] = "reconstruction",
    network: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="For a segmentation: a network of promask segment train."),
    ] = None,
    loss: Annotated[
        str | None,
        setting(
            "LOSS",
            "What methods that learn minimise: see promask learn.",
            "by the task: mse, segmentation",
            one_of(offers.LOSSES),
        ),
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
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Make the masks on a Dask cluster whose workers can read DATA: tcp://HOST:PORT of its scheduler.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Compare methods at several accelerations, on images that no mask was made from: the paper's Table 1.

    With --task segmentation and a network it is Table 2: by the Dice and the IoU of what the network finds.

    Interrupted and started again with the same command, it goes on where it was; so does it with more methods,
    accelerations or seeds.

    Examples:
      promask compare brain --accel 4 8 16 32 --out runs/compared
      promask compare scans.npz --accel 8 --methods promask energy --out runs/few
      promask compare brain --coils 8 --recon cs --accel 4 8 --out runs/cs
      promask compare cardiac --task segmentation --network unet.safetensors \\
        --accel 8 16 32 --out runs/table2
      promask compare /shared/scans.npz --accel 4 8 --seeds 100 \\
        --scheduler tcp://10.0.0.1:8786 --out runs/many
    """
    from promask.evaluation.workers import default_jobs
    from promask.report.comparison import compare as compare_methods

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
            jobs=default_jobs() if jobs is None and scheduler is None else jobs,
            scheduler=scheduler,
            on_cell=told(bar.on_cell),
            on_file=bar.on_file,
            **reading,
        )
    show_comparison(comparison, out, as_json)
