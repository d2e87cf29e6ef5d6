"""The command that writes the report of a run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from promask import offers
from promask.options import Part, setting, with_reading
from promask.terminal import messages, output, progress_bar, warnings_as_sentences


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
    from promask.held_out import own_network, read
    from promask.learning.run import Run
    from promask.report import gather, write_report

    run = Run.load(folder)
    evidence = None
    with progress_bar() as bar, warnings_as_sentences():
        try:
            recon = run.reconstruction()
            whole, part = read(run, data, part, reading)
        except InputError as error:
            if data is not None:
                raise
            messages.print(f"promask: The report has no images. {error}")
        else:
            judge = network or own_network(run, folder)
            try:
                evidence = gather(run, whole, judge, recon, part, bar.on_image)
            except InputError as error:
                if judge is None or network is not None:
                    raise
                messages.print(f"promask: The report is without the network of the run. {error}")
                evidence = gather(run, whole, None, recon, part, bar.on_image)
            run = evidence.noted(run)
        path = write_report(run, folder, evidence)
    output.print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
