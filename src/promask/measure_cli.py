"""The commands that measure a mask or a run on data."""

import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from promask.errors import InputWarning
from promask.options import Convention, Data, Iterations, Json, Part, Regularisation, setting, with_reading
from promask.showing import quality_tables, show_stability
from promask.terminal import count, output, print_json, progress_bar, warnings_as_sentences

if TYPE_CHECKING:
    from promask.learning.run import Run


@with_reading
def evaluate(
    mask: Annotated[
        Path,
        typer.Argument(metavar="MASK_OR_RUN", help="A run folder, or a mask: .npy, .mat, .cfl, .png, .csv, .h5."),
    ],
    data: Data,
    network: Annotated[
        Path | None, setting("FILE", "Also measure what this network finds: Dice and IoU.", "that of the run")
    ] = None,
    recon: Annotated[
        str | None,
        setting("NAME", "How images are reconstructed: see promask learn.", "that of the run, zero-filled"),
    ] = None,
    iterations: Iterations = None,
    regularisation: Regularisation = None,
    part: Part = None,
    convention: Convention = "paper",
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Measure the image quality that a mask gives, and what a network finds in the images.

    A run is measured on what it did not see of its data, which are read as they were when it was learned, unless
    options say otherwise.

    Example: promask evaluate runs/brain brain
    """
    from promask.conventions import find_convention
    from promask.evaluation import evaluate as evaluate_mask
    from promask.export import read_mask
    from promask.learning.run import Run
    from promask.recon import with_settings

    settings: dict[str, Any] = {"recon": recon or "zero-filled"}
    of_recon = {"iterations": iterations, "regularisation": regularisation}
    given = {name: value for name, value in of_recon.items() if value is not None}
    with progress_bar() as bar, warnings_as_sentences():
        if (mask / "run.json").is_file():
            run = Run.load(mask)
            part, read_as = _unseen(run, data, part)
            settings |= read_as
            network = network or _own_network(run, mask)
            if recon is None:
                settings["recon"], given = with_settings(run.reconstruction(), given), {}
        settings |= reading | given
        result = evaluate_mask(read_mask(mask).mask, data, part, bar.on_file, convention, network, **settings)
    summary = result.summary()
    if as_json:
        print_json(summary)
    else:
        output.print(*quality_tables({str(mask): summary}), sep="\n")
        volumes = f" in {count(len(result.psnr), 'volume')}" if result.of == "volume" else ""
        output.print(
            f"{count(result.images, 'sample')}{volumes} of {data} ({result.part}), {result.recon}. "
            f"{find_convention(convention).sentence}"
        )
        if result.segmented:
            output.print(f"Dice and IoU of what {network} finds; an image counts for a class that is in it.")


@with_reading
def stability(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    data: Data,
    draws: Annotated[int, typer.Option(metavar="N", help="Random masks of either kind, at least 2.")] = 20,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same masks.")] = 0,
    out: Annotated[
        Path | None, setting("DIR", "The folder for stability.json and figures/stability.png.", "the run")
    ] = None,
    part: Part = None,
    convention: Convention = "paper",
    as_json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Tell how stable a run is: members against each other, and random masks against the mode.

    This is section 4.2 of the paper. The data are chosen and read as by promask evaluate.

    Example: promask stability runs/brain brain
    """
    from promask.experiments.stability import stability as measure_stability
    from promask.experiments.stability_figure import stability_figure
    from promask.files import check_writable, save_text
    from promask.learning.run import Run
    from promask.report.figures import save_figure

    run = Run.load(folder)
    numbers = (out or folder) / "stability.json"
    figure = (out or folder) / "figures" / "stability.png"
    for place in (numbers.parent, figure.parent):
        check_writable(place)
    part, settings = _unseen(run, data, part)
    with progress_bar() as bar, warnings_as_sentences():
        result = measure_stability(
            run, data, part, draws, seed, convention, bar.on_image, bar.on_file, **settings | reading
        )
    summary = {"run": str(folder), "data": data, **result.summary()}
    save_figure(stability_figure(result), figure)
    save_text(numbers, json.dumps(summary, indent=1, allow_nan=False))
    if as_json:
        print_json(summary)
    else:
        show_stability(result, data, (numbers, figure))


def _unseen(run: "Run", data: str, part: str | None) -> tuple[str | None, dict[str, Any]]:
    """What a run did not see of its data, if no part was asked for, and how they were read when it was learned."""
    from promask.data import OTHER_PART, load
    from promask.reading import Reading

    settings = run.config.reading_settings()
    if not _same_data(run.about["data"]["source"], data):
        as_then = {name: settings[name] for name in ("kspace", "volumes", "size")}
        simulated = ("coils", "noise") if load(data, Reading(**as_then)).shape[0] == 1 else ("noise",)
        return part, as_then | {name: settings[name] for name in simulated}
    return part or OTHER_PART[run.about["data"]["part"]], settings


def _own_network(run: "Run", folder: Path) -> Path | None:
    """The network that a run was learned for: beside it, or where it was then."""
    from promask.segmentation.network import is_network

    about = run.about.get("network")
    if not isinstance(about, dict):
        return None
    beside, then = folder / "network.safetensors", Path(about["file"]) if about.get("file") else None
    if beside.is_file() and is_network(beside):
        return beside
    if then is not None and then.is_file():
        return then
    where = "is not in a file" if then is None else f"is not at {then} any more"
    warnings.warn(
        f"The network that {folder} was learned for {where}: without --network FILE, only the images are "
        f"measured.",
        InputWarning,
        stacklevel=2,
    )
    return None


def _same_data(one: str, other: str) -> bool:
    """Whether two DATA strings mean the same, however their paths are written."""
    places = [
        (kind, os.path.realpath(place)) for kind, _, place in (text.rpartition(":") for text in (one, other))
    ]
    return places[0] == places[1]
