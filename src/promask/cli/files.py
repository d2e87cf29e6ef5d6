"""The commands that write files: a mask for other programs, the report of a run; and the cache and the studio."""

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from promask.cli import options
from promask.cli.options import flag, option, with_reading
from promask.cli.progress import ProgressDisplay
from promask.cli.terminal import messages, output
from promask.errors import InputError, InputWarning


def export(
    mask: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a mask file of any format.")],
    out: Annotated[Path, option("FILE", "The file to write.")],
    to: options.Format = None,
    shape: Annotated[list[int] | None, option("H W", "Resize the mask to another matrix size.", False)] = None,
) -> None:
    """Write a mask for other programs: NumPy, MATLAB, BART, a picture, the order of phase encodes, fastMRI.

    Of spokes and spiral interleaves, also their angles, and their coordinates for BART, mri-nufft and ISMRMRD.

    Examples:
      promask export runs/brain --out mask.mat                  # MATLAB
      promask export runs/brain --to bart --out mask            # mask.cfl and .hdr
      promask export runs/brain --out mask.png                  # a picture
      promask export runs/lines --to csv --out encodes.csv      # phase encodes
      promask export runs/brain --shape 320 320 --out mask.npy  # another size
      promask export runs/spokes --to bart --out traj           # for pics -t
      promask export runs/spokes --to angles --out angles       # in radians
    """
    from promask.export import check_mask_file, read_mask, write_mask
    from promask.export.mask_function import resized

    check_mask_file(out, to)
    exported = resized(mask, shape) if shape else read_mask(mask)
    written = write_mask(exported, out, to)
    output.print(f"{written}: mask, {list(exported.mask.shape)}, x{exported.achieved:.4g}")


def cache(clear: Annotated[bool, flag("--clear", "Remove what it holds.")] = False) -> None:
    """Print the folder of the cache, which keeps prepared samples, and its size.

    The environment variable PROMASK_CACHE chooses another folder.

    Examples:
      promask cache
      promask cache --clear
    """
    from promask.data import cache as store

    if clear:
        store.clear()
    output.print(f"{store.cache_folder()}: {store.size_on_disk() / 1e6:.1f} MB")


@with_reading
def report(
    folder: options.RunFolder,
    data: Annotated[
        list[str] | None,
        option("DATA...", "The images: see promask learn.", "those of the run", options.complete_data),
    ] = None,
    network: Annotated[Path | None, option("FILE", "The segmentation network.", "that of the run")] = None,
    part: options.Part = None,
    beside: Annotated[
        list[str] | None,
        option("NAME=FILE", "Further masks to compare with, files or runs.", False, options.complete_given),
    ] = None,
    device: options.Device = "cpu",
    *,
    reading: dict[str, Any],
) -> None:
    """Write report.html of a run: mask, images, errors, quality beside other masks, in one file.

    `promask learn` has written one; this is for runs that were saved from Python, moved, or shown on other data.

    Examples:
      promask report runs/brain
      promask report runs/brain --data knee.npz
      promask report runs/brain --beside mine=mask.mat old=runs/first
    """
    from promask.data.device import find_device
    from promask.evaluation.matching import read_for_run
    from promask.evaluation.methods import GivenMask, by_label, fit_mask
    from promask.evaluation.segmentation import find_network
    from promask.learning.run import Run
    from promask.report.measurements import measure_run
    from promask.report.page import write_report

    run, there = Run.load(folder), find_device(device)
    given = by_label(GivenMask.parse(text) for text in beside or ())
    measurements = None
    with ProgressDisplay() as display:
        try:
            recon = run.reconstruction()
            whole, part = read_for_run(run, data, part, reading)
        except InputError as error:
            if data is not None or given:
                raise
            warnings.warn(f"The report has no images. {error}", InputWarning, stacklevel=1)
        else:
            masks = {name: fit_mask(name, mask.values, whole) for name, mask in given.items()}
            judge = network or find_network(run)
            try:
                measurements = measure_run(run, whole, judge, recon, part, display.on_measurement, masks, there)
            except InputError as error:
                if judge is None or network is not None:
                    raise
                warning = f"The report is without the network of the run. {error}"
                warnings.warn(warning, InputWarning, stacklevel=1)
                measurements = measure_run(run, whole, None, recon, part, display.on_measurement, masks, there)
            run = measurements.add_to(run)
        path = write_report(run, folder, measurements)
    output.print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def studio(
    limit: Annotated[int, option("MB", "Largest upload, in megabytes.", min=1)] = 1000,
    port: Annotated[int | None, option("N", "The port, such as for an ssh tunnel.", "a free one")] = None,
    browser: Annotated[bool, flag("--browser/--no-browser", "Open the page in a browser.")] = True,
) -> None:
    """Learn masks in a web page on this machine.

    Example: promask studio
    """
    from promask.studio import processes

    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401

        processes.start_method()  # they import what they need while this one does
        from promask.studio.app import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "pydantic", "starlette", "uvicorn"):
            raise
        raise InputError(
            f"promask studio needs {error.name}, which is not installed: pip install 'promask[studio]'"
        ) from error

    def on_ready(url: str) -> None:
        output.print(f"The studio is open at {url}")
        if messages.is_terminal:
            messages.print("Whoever has this address can use it. Ctrl-C ends it, and removes what was uploaded.")
        if browser and messages.is_terminal and _has_screen():
            import webbrowser

            webbrowser.open(url)

    serve(limit, port or 0, on_ready)


def _has_screen() -> bool:
    """Whether a browser could show anything; those that run in the terminal could not show this page."""
    names = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in names)
