"""The commands of `promask reconstruct`, which make images of what scanners measured."""

from pathlib import Path
from typing import Annotated

import typer

from promask.cli import options
from promask.cli.options import option
from promask.cli.progress import ProgressDisplay
from promask.cli.terminal import output
from promask.errors import InputError

ALONG = ("gridding", "cg-sense", "cs", "cs-tv")
"""Reconstructions of single images along a trajectory."""
UNITS = ("pixel", "fov", "radian")

app = typer.Typer(
    help="""Reconstruct images of raw data.

    Examples:
      promask reconstruct raw spokes.mat --out heart.png
    """
)


@app.callback()
def group() -> None:
    """Keep `raw` as a command of its own, though it is the only one."""


@app.command()
def raw(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Raw data with their trajectory: .mat, .npz or .h5 with arrays such as rawdata and k; or .cfl.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, option("FILE", "The image: .npy, .npz, .mat, .cfl, or .png for its magnitude.")],
    trajectory: Annotated[
        Path | None, option("FILE", "The trajectory, if it is in another file.", "in FILE, or traj.cfl beside it")
    ] = None,
    recon: Annotated[str, option("NAME", f"The reconstruction: {', '.join(ALONG)}.", values=ALONG)] = "cg-sense",
    iterations: options.Iterations = None,
    regularisation: options.Regularisation = None,
    maps: Annotated[Path | None, option("FILE", "Coil sensitivities.", "estimated from the data")] = None,
    size: Annotated[list[int] | None, option("H W", "Size of the image.", "that of the trajectory")] = None,
    units: Annotated[
        str | None,
        option(
            "pixel|fov|radian",
            "Units of the trajectory: cycles per pixel, cycles per field of view, or radians per pixel.",
            "fov for .cfl, otherwise pixel",
            UNITS,
        ),
    ] = None,
) -> None:
    """Reconstruct an image of raw data along spokes, at any angles, or another trajectory.

    Examples:
      promask reconstruct raw spokes.mat --out heart.png
      promask reconstruct raw ksp.cfl --trajectory traj.cfl --out heart.cfl
      promask reconstruct raw spokes.mat --recon cs --size 256 --out heart.npy
    """
    from promask.data.raw_trajectory import read_raw_trajectory, reconstruct_raw
    from promask.export.image import check_image_file, write_image

    check_image_file(out)
    if size is not None and len(size) > 2:
        raise InputError(f"`size` must be one or two numbers, but is {' '.join(map(str, size))}.")
    with ProgressDisplay():
        found = read_raw_trajectory(file, trajectory, (size[0], size[-1]) if size else None, units)
        image = reconstruct_raw(found, recon, iterations, regularisation, maps)
    output.print(found.sentence())
    output.print(f"{write_image(image, out)}: image, {' x '.join(map(str, image.shape))}, {recon}")
