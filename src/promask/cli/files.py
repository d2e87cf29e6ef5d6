"""The commands that write files for other programs, and keep those that are read.

The command that writes the report of a run.

The command that opens the studio.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from promask.cli import options as offers
from promask.cli.options import Part, To, setting, with_reading
from promask.cli.terminal import messages, output, progress_bar, warnings_as_sentences
from promask.errors import InputError


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

    Examples:
      promask export runs/brain --out mask.mat                  # MATLAB
      promask export runs/brain --to bart --out mask            # mask.cfl and .hdr
      promask export runs/brain --out mask.png                  # a picture
      promask export runs/lines --to csv --out encodes.csv      # phase encodes
      promask export runs/brain --shape 320 320 --out mask.npy  # another size
    """
    from promask.export import check_mask_file, read_mask, write_mask
    from promask.export.mask_function import resized

    check_mask_file(out, to)
    exported = resized(mask, shape) if shape else read_mask(mask)
    written = write_mask(exported, out, to)
    output.print(f"{written}: mask, {list(exported.mask.shape)}, x{exported.achieved:.4g}")


def cache(
    clear: Annotated[bool, typer.Option("--clear", metavar="", help="Remove what it holds.")] = False,
) -> None:
    """Tell where samples of files are kept once they are ready, and how much room they take.

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
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    data: Annotated[
        str | None,
        setting("DATA", "The images to show and to measure: see promask learn.", "those of the run", offers.data),
    ] = None,
    network: Annotated[
        Path | None, setting("FILE", "The network that segments the images.", "that of the run")
    ] = None,
    part: Part = None,
    *,
    reading: dict[str, Any],
) -> None:
    """Write report.html of a run: mask, images, errors, quality beside other masks, in one file.

    `promask learn` has written one; this is for runs that were saved from Python, moved, or shown on other data.

    Examples:
      promask report runs/brain
      promask report runs/brain --data knee.npz
    """
    from promask.errors import InputError
    from promask.evaluation.evaluate import find_network, read_for_run
    from promask.learning.run import Run
    from promask.report.measurements import measure_run
    from promask.report.page import write_report

    run = Run.load(folder)
    measurements = None
    with progress_bar() as bar, warnings_as_sentences():
        try:
            recon = run.reconstruction()
            whole, part = read_for_run(run, data, part, reading)
        except InputError as error:
            if data is not None:
                raise
            messages.print(f"promask: The report has no images. {error}")
        else:
            judge = network or find_network(run)
            try:
                measurements = measure_run(run, whole, judge, recon, part, bar.on_image)
            except InputError as error:
                if judge is None or network is not None:
                    raise
                messages.print(f"promask: The report is without the network of the run. {error}")
                measurements = measure_run(run, whole, None, recon, part, bar.on_image)
            run = measurements.add_to(run)
        path = write_report(run, folder, measurements)
    output.print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def studio(
    limit: Annotated[
        int, typer.Option(metavar="MB", min=1, help="The most that may be uploaded at a time, in megabytes.")
    ] = 1000,
    port: Annotated[
        int | None, setting("N", "The port to listen at, such as for a tunnel to another machine.", "a free one")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", metavar="", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Learn masks in a web page on this machine.

    Example: promask studio
    """
    from promask.studio import processes

    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401

        processes.prepare()  # they import what they need while this one does
        from promask.studio.server import serve
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
