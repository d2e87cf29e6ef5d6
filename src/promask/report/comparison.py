"""The folder of a comparison: known by its data and conditions, and for one comparison at a time.

The paper's Tables 1 and 2 on anyone's data: methods x accelerations, on images that no mask was made from.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from torch import nn

from promask import __version__
from promask.cluster.dask import check_address
from promask.data.atomic import check_writable, save_text
from promask.data.file_set import OnFile
from promask.data.preprocess import reconstructed_channels
from promask.data.reading import Reading
from promask.data.sources import absolute_source, load, read_part
from promask.errors import InputError
from promask.evaluation.cells import (
    Bench,
    Cell,
    Comparison,
    ImageQuality,
    PerValue,
    Scores,
    SegmentationQuality,
    Store,
    Values,
    with_shares,
)
from promask.evaluation.conventions import find_convention
from promask.evaluation.evaluate import measurable
from promask.evaluation.measures import Measure
from promask.evaluation.methods import RECONSTRUCTION, Method, find_purpose, parse_methods
from promask.evaluation.tables import differences_csv, latex, markdown, masks_csv, summary_csv
from promask.evaluation.workers import check_jobs, completed, completed_on_cluster
from promask.figures.comparison import contour_grid, picture_grid, quality_over_acceleration
from promask.figures.contours import middle_image
from promask.figures.layout import save_figure
from promask.losses.segmentation import SEGMENTATION, Segmentation
from promask.recon import make_reconstruction
from promask.recon.base import Reconstruction
from promask.recon.network import Network
from promask.recon.zero_filled import ZERO_FILLED, ZeroFilled
from promask.segmentation.network import SegmentationNetwork
from promask.types import Mask, SampleSet

FORMAT = 1
"""The version of the folder's layout."""


def check_place(folder: Path, data: Any) -> None:
    """Masks among the data would be taken for data."""
    place = Path(data.rpartition(":")[2]) if isinstance(data, str) else None
    if place is not None and place.is_dir() and folder.resolve().is_relative_to(place.resolve()):
        raise InputError(f"{folder} lies among the data: choose a folder elsewhere for the result.")


@contextmanager
def alone_in(folder: Path, bench: Bench) -> Iterator[None]:
    """The folder is ours alone, until the process ends."""
    _claim(folder, bench)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout as error:
        raise InputError(f"Another comparison is at work in {folder}: wait until it has ended.") from error


def _claim(folder: Path, bench: Bench) -> None:
    """Refuse a folder that holds something else, or a comparison under other conditions."""
    task = bench.segmentation
    conditions = {
        "format": FORMAT,
        "version": __version__,
        "data": {"learned from": _known_by(bench.learning, task), "measured on": _known_by(bench.held_out, task)},
        "centre": bench.centre,
        "axis": bench.axis,
        "network": None if task is None else _network_known_by(task),
        "reconstruction": None if bench.recon.name == ZeroFilled.name else _recon_known_by(bench.recon),
    }
    conditions = json.loads(json.dumps(conditions))
    path = folder / "compare.json"
    if path.is_file():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path} is damaged: choose another folder for the result.") from error
        before = before if isinstance(before, dict) else {}
        if (before.get("network") is None) != (task is None):
            other = "reconstructions" if task else "segmentations"
            raise InputError(f"{folder} holds a comparison of {other}: choose another folder.")
        for name, value in conditions.items():
            found = before.get(name)
            if found != value:
                short = {
                    "data": "of other data",
                    "network": "with another network",
                    "reconstruction": "with another reconstruction",
                }
                detail = short.get(name, f"with another {name}, {found!r} and not {value!r}")
                raise InputError(f"{folder} holds a comparison {detail}: choose another folder.")
        check_writable(folder)
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a comparison: choose another folder for the result.")
    check_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_text(path, json.dumps(conditions, indent=1))


def _known_by(data: SampleSet, task: Segmentation | None) -> dict[str, Any]:
    """By what data are known again: size, subjects, what of them counts, all images, and labels if of use."""
    digest = hashlib.sha256(json.dumps([list(data.groups), asdict(data.geometry)]).encode())
    for index in range(len(data)):
        sample = data[index]
        digest.update(sample.image.contiguous().numpy().tobytes())
        if task is not None:
            digest.update(task.label(sample).contiguous().numpy().tobytes())
    return {"samples": len(data), "shape": list(data.shape), "sha256": digest.hexdigest()}


def _recon_known_by(recon: Reconstruction) -> dict[str, Any]:
    """By what a reconstruction is known again: its kind, its settings, and the weights of a network."""
    kind = f"{type(recon).__module__}.{type(recon).__qualname__}"
    if isinstance(recon, Network):
        return {"kind": kind, "consistent": recon.data_consistency, "sha256": _weights_known_by(recon.module)}
    return {"kind": kind, "settings": repr(sorted(vars(recon).items()))}


def _weights_known_by(network: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _network_known_by(task: Segmentation) -> dict[str, Any]:
    """By what a network is known again: its kind, its classes and its weights, wherever its file lies."""
    loss = task.loss
    return {
        "kind": type(task.network).__name__,
        "loss": None if loss is None else getattr(loss, "__name__", type(loss).__name__),
        "classes": None if task.classes is None else asdict(task.classes),
        "sha256": _weights_known_by(task.network),
    }


FEWER = 5
"""Masks of a method that learns, at most, without a choice."""
OnCell = Callable[[int, int, str], None]
"""Told how many cells are done, how many there are, and which was the last."""
FULL = "fully sampled"
"""The name of the row above the methods."""


@dataclass(frozen=True)
class Opening:
    """How the data are opened, here and in other processes."""

    data: Any
    reading: Reading
    axis: tuple[int, ...] | None
    centre: int | None
    convention: str
    network: str | Path | SegmentationNetwork | Segmentation | None = None
    recon: Reconstruction = ZERO_FILLED

    def from_anywhere(self) -> "Opening":
        """The same for a process in another folder, or on another machine that has the same disk."""
        network, maps = self.network, self.reading.maps
        return replace(
            self,
            data=absolute_source(self.data),
            reading=replace(self.reading, maps=None if maps is None else str(Path(maps).absolute())),
            network=Path(network).absolute() if isinstance(network, str | Path) else network,
        )

    def __call__(self, on_file: OnFile | None = None) -> Bench:
        """Both parts, made ready, and the network."""
        segmentation = None if self.network is None else measurable(self.network)
        whole = load(self.data, self.reading)
        (_, learning, part), (_, held_out, _) = (
            read_part(whole, part=part, recon=self.recon, on_file=on_file) for part in ("train", "test")
        )
        if segmentation is not None:
            segmentation.check(learning, reconstructed_channels(learning, self.recon))
        return Bench(
            learning,
            held_out,
            seen=part == "all",
            axis=self.axis,
            centre=self.centre,
            measurement=SegmentationQuality(segmentation, self.recon)
            if segmentation
            else ImageQuality(self.convention, self.recon),
            segmentation=segmentation,
            recon=self.recon,
        )


def compare(
    data: Any,
    accelerations: float | Sequence[float],
    methods: str | Sequence[str] | None = None,
    *,
    out: str | Path,
    seeds: int = 10,
    learned_seeds: int | None = None,
    task: str = RECONSTRUCTION,
    network: str | Path | SegmentationNetwork | Segmentation | None = None,
    recon: str | Reconstruction = ZeroFilled.name,
    iterations: int | None = None,
    regularisation: float | None = None,
    convention: str = "paper",
    loss: str | None = None,
    centre: int | None = None,
    axis: Sequence[int] | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    on_cell: OnCell | None = None,
    on_file: OnFile | None = None,
    **reading: Any,
) -> Comparison:
    """Make the masks of all methods at all accelerations, measure them on held-out images, and write the tables.

    What was finished before in the folder `out` is not computed again. `methods` are names with variants, such as
    `promask`, `promask:1d` or `igs:2d:ssim`; `seeds` is how many masks of a random baseline are made, and
    `learned_seeds` of methods that learn (at most 5 without a choice). With the task `segmentation` and a network,
    a file or an object, masks are measured by what the network finds in the images, and methods that learn do so
    for it unless they name another loss, as `promask:mse` does. `recon` is how images are reconstructed, and what
    methods learn for unless they name another, as `promask:zero-filled` does. `jobs` are parallel processes, 1
    without a choice; if several, a script must call this below `if __name__ == "__main__":`. With the address of a
    `scheduler`, such as `tcp://HOST:8786`, the workers of a Dask cluster make the masks instead, from the same
    files on a disk that they share, and this process writes them. Further settings are those of `Reading`, for
    files.
    """
    accelerations = [accelerations] if isinstance(accelerations, int | float) else accelerations
    methods = [methods] if isinstance(methods, str) else methods
    folder = Path(out)
    _check_place_of_work(jobs, scheduler)
    find_convention(convention)
    _check_task(task, network)
    volumes = any("3d" in text.split(":") for text in methods or ())
    settings = Reading(**{"volumes": volumes, **reading})
    by = make_reconstruction(recon, iterations, regularisation)
    free = None if axis is None else tuple(axis)
    open_bench = Opening(data, settings, free, centre, convention, network, by)
    bench = open_bench(on_file)
    chosen = parse_methods(methods, loss, len(bench.learning.shape) - 1, task, by)
    cells = all_cells(chosen, accelerations, seeds, min(seeds, FEWER) if learned_seeds is None else learned_seeds)
    _check(cells, bench)
    check_place(folder, data)
    full = bench.measurement.of_full(bench.held_out)
    with alone_in(folder, bench):
        store = Store(folder)

        def work(todo: Sequence[Cell]) -> Generator[Cell, None, None]:
            if scheduler is None:
                return completed(todo, store, bench, open_bench, jobs or 1)
            return completed_on_cluster(todo, store, bench, open_bench.from_anywhere(), scheduler)

        _complete(cells, store, bench, work, on_cell)
        comparison = _gathered(cells, store, bench, full)
        _write(comparison, cells, store, bench, convention)
        return comparison


def _check_place_of_work(jobs: int | None, scheduler: str | None) -> None:
    if scheduler is None:
        check_jobs(1 if jobs is None else jobs)
    elif jobs is not None:
        raise InputError("The workers of a cluster are its own: give --jobs or --scheduler, and not both.")
    else:
        check_address(scheduler)


def _check_task(task: str, network: object) -> None:
    find_purpose(task)
    if task == SEGMENTATION and network is None:
        raise InputError("A segmentation needs a network: give one with --network FILE.")
    if task != SEGMENTATION and network is not None:
        raise InputError(f"A network is not of use for a {task}: leave it out, or ask for --task segmentation.")


def _complete(
    cells: Sequence[Cell],
    store: Store,
    bench: Bench,
    work: Callable[[Sequence[Cell]], Generator[Cell, None, None]],
    on_cell: OnCell | None,
) -> None:
    measure = bench.measurement.measure.name
    todo = [cell for cell in cells if not store.finished(cell, measure)]
    before = len(cells) - len(todo)
    if on_cell is not None:
        on_cell(before, len(cells), "")
    with closing(work(todo)) as finished:
        for done, cell in enumerate(finished, start=before + 1):
            if on_cell is not None:
                on_cell(done, len(cells), cell.name)


def all_cells(
    methods: Sequence[Method], accelerations: Sequence[float], seeds: int, learned_seeds: int
) -> list[Cell]:
    """A cell for every method, acceleration and seed; one seed where seeds make no difference."""
    if not accelerations:
        raise InputError("No acceleration was given: choose some, such as --accel 4 8 16 32.")
    if min(seeds, learned_seeds) < 1:
        raise InputError(f"There must be at least 1 seed, but {min(seeds, learned_seeds)} were asked for.")
    return [
        Cell(method, float(acceleration), seed)
        for acceleration in sorted(set(accelerations))
        for method in methods
        for seed in range((learned_seeds if method.learns else seeds) if method.draws else 1)
    ]


def _check(cells: Sequence[Cell], bench: Bench) -> None:
    """Every cell must be possible, and the axis of use."""
    for cell in cells:
        try:
            bench.problem(cell).block()  # the budget must hold the centre
        except InputError as error:
            raise InputError(f"{cell.method.label} at x{cell.acceleration:g}: {error}") from error
    if bench.axis is not None and all(cell.method.free != len(bench.axis) for cell in cells):
        raise InputError(
            f"None of the methods has {len(bench.axis)} free axes: {list(bench.axis)} cannot be chosen."
        )


def _gathered(cells: Sequence[Cell], store: Store, bench: Bench, full: PerValue | None) -> Comparison:
    measure = bench.measurement.measure
    by_image = {metric: np.array([values]) for metric, values in (full or {}).items()}
    together: dict[tuple[Method, float], list[Mapping[str, Any]]] = {}
    for cell in cells:
        together.setdefault((cell.method, cell.acceleration), []).append(store.record(cell))
    scores = [
        Scores(
            method=method.label,
            free=method.free,
            acceleration=acceleration,
            achieved=[record["achieved"] for record in records],
            seconds=[record["seconds"] for record in records],
            plain=[record.get("plain") for record in records],
            quality=with_shares(_quality(records, measure), by_image, measure),
            for_this=method.is_for_its_purpose,
        )
        for (method, acceleration), records in together.items()
    ]
    values = next(iter(scores[0].quality.values())).shape[1]
    groups = list(bench.held_out.groups)
    subjects = groups if len(groups) == values else list(dict.fromkeys(groups))  # a volume each
    return Comparison(
        bench.held_out.name,
        measure,
        _measured_on(values, bench),
        subjects,
        scores,
        full=Scores(FULL, 0, 1.0, [1.0], [], with_shares(by_image, by_image, measure)) if full else None,
    )


def _quality(records: Sequence[Mapping[str, Any]], measure: Measure) -> dict[str, Values]:
    return {
        metric: np.array([record["quality"][measure.name][metric] for record in records], dtype=np.float64)
        for metric in measure.own
    }


def _measured_on(values: int, bench: Bench) -> str:
    noun = bench.measurement.measure.of
    number = f"{noun}{'s' * (values > 1)}"
    size = " x ".join(map(str, bench.held_out.shape[1:] if bench.held_out.shape[0] == 1 else bench.held_out.shape))
    if bench.recon.name != ZeroFilled.name:
        size += f", reconstructed by {bench.recon.name}"
    if bench.seen:
        return f"{values} {number}, {size}, the same that masks were learned from"
    subjects = len(set(bench.held_out.groups))
    known = f" of {subjects} subject{'s' * (subjects > 1)}" if noun != "volume" else ""
    return f"{values} held-out {number}{known}, {size}"


def _write(comparison: Comparison, cells: Sequence[Cell], store: Store, bench: Bench, convention: str) -> None:
    folder = store.folder
    save_text(folder / "table.md", markdown(comparison))
    save_text(folder / "table.tex", latex(comparison))
    save_text(folder / "table.csv", summary_csv(comparison))
    save_text(folder / "masks.csv", masks_csv(comparison))
    save_text(folder / "differences.csv", differences_csv(comparison))
    save_figure(quality_over_acceleration(comparison), folder / "figures" / "quality.png")
    masks: dict[str, dict[float, Mask]] = {}
    for cell in cells:
        if cell.seed == 0:
            masks.setdefault(cell.method.label, {})[cell.acceleration] = store.mask(cell)
    task = bench.segmentation
    shown = len(bench.held_out) // 2 if task is None else middle_image(task, bench.held_out)
    save_figure(
        picture_grid(masks, bench.held_out, shown, convention, bench.recon),
        folder / "figures" / "reconstructions.png",
    )
    if task is not None:
        save_figure(
            contour_grid(masks, task, bench.held_out, shown, bench.recon), folder / "figures" / "contours.png"
        )
