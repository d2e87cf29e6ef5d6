"""`compare`: the paper's Tables 1 and 2 on anyone's data, in a folder for one comparison at a time."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from filelock import FileLock, Timeout
from torch import nn

from promask import __version__
from promask.baselines import BASELINES
from promask.baselines.problem import fitted_to
from promask.data.atomic import check_writable, save_text
from promask.data.device import CPU, find_device
from promask.data.file_set import OnFile
from promask.data.preprocess import reconstructed_channels
from promask.data.reading import Reading
from promask.data.sources import absolute_source, load, read_part
from promask.errors import InputError, check_keywords
from promask.evaluation.cells import Cell, CellStore, Comparison, Conditions, all_cells, collect
from promask.evaluation.conventions import find_convention
from promask.evaluation.methods import (
    RECONSTRUCTION,
    ComparedMethod,
    GivenMask,
    Method,
    find_task,
    parse_methods,
    usual_methods,
)
from promask.evaluation.segmentation import NetworkLike, measurable
from promask.evaluation.tables import differences_csv, latex, markdown, masks_csv, summary_csv
from promask.evaluation.workers import check_jobs, complete_in_processes, complete_on_cluster
from promask.figures.comparison import contour_grid, picture_grid, quality_over_acceleration
from promask.figures.contours import middle_image
from promask.figures.layout import save_figure
from promask.learning.setup import acceleration_of
from promask.losses.segmentation import SEGMENTATION, Segmentation
from promask.problem.cluster import check_address
from promask.recon import make_reconstruction
from promask.recon.base import Reconstruction
from promask.recon.gridding import Gridding
from promask.recon.network import Network
from promask.recon.zero_filled import ZERO_FILLED, ZeroFilled
from promask.sampling.free_axes import PATTERNS, STACK, TRAJECTORIES
from promask.sampling.limits import BLOCK, NONE_ASKED, LimitSettings
from promask.sampling.pattern import Pattern
from promask.types import Mask, SampleSet

if TYPE_CHECKING:
    from typing import Unpack

    from promask.data.reading import ReadingSettings

FORMAT = 1
"""The version of the folder's layout."""
MOST_LEARNED_SEEDS = 5
"""Masks of a method that learns, unless more are asked for."""
OnCell = Callable[[int, int, str], None]
"""Called with the number of complete cells, how many there are, and the name of the last one."""


@dataclass(frozen=True)
class OpenConditions:
    """Reads the data of a comparison, here and in other processes."""

    data: Any
    reading: Reading
    axis: tuple[int | str, ...] | None
    centre: int | None
    convention: str
    network: NetworkLike | None = None
    recon: Reconstruction = ZERO_FILLED
    device: str | torch.device = CPU
    allow_readout: bool = False
    limits: LimitSettings = NONE_ASKED

    def with_absolute_paths(self) -> "OpenConditions":
        """The same for a process in another folder, or on another machine that has the same disk."""
        network, maps = self.network, self.reading.maps
        return replace(
            self,
            data=absolute_source(self.data),
            reading=replace(self.reading, maps=None if maps is None else str(Path(maps).absolute())),
            network=Path(network).absolute() if isinstance(network, str | Path) else network,
        )

    def __call__(self, on_file: OnFile | None = None) -> Conditions:
        """Both parts of the data, prepared, and the network."""
        device = find_device(self.device)
        segmentation = None if self.network is None else measurable(self.network, device)
        learning = read_part(self.data, self.reading, "train", recon=self.recon, on_file=on_file)
        held_out = read_part(learning.whole, part="test", recon=self.recon, on_file=on_file)
        if segmentation is not None:
            segmentation.check(learning.samples, reconstructed_channels(learning.samples, self.recon))
        return Conditions(
            learning.samples,
            held_out.samples,
            self.convention,
            fitted_to(self.recon, learning.samples),
            segmentation,
            self.axis,
            self.centre,
            same_images=learning.part == "all",
            device=device,
            allow_readout=self.allow_readout,
            limits=self.limits,
        )


def compare(
    data: Any,
    accelerations: float | Sequence[float] | None = None,
    methods: str | Sequence[str] | None = None,
    *,
    out: str | Path,
    spokes: int | Sequence[int] | None = None,
    seeds: int = 10,
    learned_seeds: int | None = None,
    task: str = RECONSTRUCTION,
    network: NetworkLike | None = None,
    recon: str | Reconstruction | None = None,
    iterations: int | None = None,
    regularisation: float | None = None,
    convention: str = "paper",
    loss: str | None = None,
    centre: int | None = None,
    shutter: str | None = None,
    acs_shape: str = BLOCK,
    partial_fourier: Mapping[int | str, float | str] | Sequence[str] | None = None,
    largest_gap: Mapping[int | str, int] | Sequence[str] | None = None,
    equal_per: int | str | None = None,
    period: int = 0,
    cost: Mapping[int | str, float] | Sequence[str] = (),
    pattern: str | None = None,
    axis: Sequence[int | str] | None = None,
    allow_readout: bool = False,
    jobs: int | None = None,
    scheduler: str | None = None,
    device: str | torch.device = "cpu",
    on_cell: OnCell | None = None,
    on_file: OnFile | None = None,
    **reading: "Unpack[ReadingSettings]",
) -> Comparison:
    """Make the masks of all methods at all accelerations, measure them on held-out images, and write the tables.

    What was finished before in the folder `out` is not computed again.

    Args:
        data: As for `learn`: a name, files, folders, globs, an array (N, *space), a torch `Dataset`, ...
        accelerations: One or several acceleration factors.
        methods: Names with variants, such as `promask`, `promask:1d` or `igs:2d:ssim`, and masks of your own or of
            earlier runs, `mine=mask.npy` or `old=runs/brain`, each listed with the acceleration that is nearest to
            its own. None: the usual ones.
        out: The folder for tables, masks and figures.
        spokes: One or several numbers of spokes or interleaves, instead of accelerations.
        seeds: Masks of each random baseline.
        learned_seeds: Masks of each method that learns from a random start. None: as `seeds`, at most 5.
        task: What masks are compared by: `reconstruction`, or `segmentation`, which needs a network.
        network: A segmentation network, or its file. Methods that learn do so for it, unless they name another
            loss, as `promask:mse` does.
        recon: How images are reconstructed: a name, as for `learn`, or an object of `promask.recon`. Methods learn
            for it, unless they name another one, as `promask:zero-filled` does. None: `zero-filled`, or `gridding`
            along a trajectory.
        iterations: Of an iterative reconstruction; None: its own.
        regularisation: Of an iterative reconstruction; None: its own.
        convention: How image quality is measured: `paper` or `fastmri`.
        loss: What methods that learn minimise. None: `mse`, or the loss of the segmentation.
        centre: Width of the calibration region that every mask acquires. None: that of the method.
        shutter: `ellipse`: no mask acquires the corners of k-space. This and the following limits hold for the
            masks that undersample the directions they are for.
        acs_shape: The shape of the calibration region: `block` or `ellipse`.
        partial_fourier: The share of directions that is acquired, such as {"ky": 0.75}.
        largest_gap: The largest distance of neighbouring samples along a direction, such as {"ky": 4}.
        equal_per: The direction for every place of which the same number of samples is acquired, such as `kz`; of
            series `frame`, `frame=5` for every five frames together, or `none`. None: every frame.
        period: After so many frames of a series, patterns that vary begin anew; 0: they do not repeat.
        cost: What a line of a contrast costs, where contrasts have patterns of their own: such as {"FLAIR": 2.5}.
        pattern: The pattern of all methods that can have it, and name no other: `1d`, `2d`, `3d`, `kt`, `kt-2d`,
            or one of spokes and spirals, `radial`, which all methods must have then. None: that of the method.
        axis: The undersampled directions of methods that have as many, as numbers or names such as `ky`.
        allow_readout: Whether masks may undersample the readout, where it is known.
        jobs: Parallel processes; None: 1. If several, a script must call this below
            `if __name__ == "__main__":`.
        scheduler: The address of a Dask cluster, such as `tcp://HOST:8786`, whose workers make the masks instead,
            from the same files on a disk that they share.
        device: Where PyTorch computes, in every process, such as `cpu` or `cuda`.
        on_cell: Called with the number of masks done, how many there are, and the name of the last one.
        on_file: Called with the number of files that were read, and how many there are.
        **reading: How files are read, as for `evaluate`.

    Returns:
        The scores of every method at every acceleration.

    Raises:
        InputError: If an argument is unknown or wrong, or the folder holds something else.
    """
    check_keywords(reading, (*Reading.CHECKS, *compare.__annotations__))
    accelerations = [accelerations] if isinstance(accelerations, int | float) else accelerations
    spokes = [spokes] if isinstance(spokes, int) else spokes
    methods = [methods] if isinstance(methods, str) else methods
    folder = Path(out)
    _check_workers(jobs, scheduler)
    find_convention(convention)
    _check_task(task, network)
    usual = Gridding.name if _asks_for_rotations(pattern, methods, reading) else ZeroFilled.name
    by = make_reconstruction(usual if recon is None else recon, iterations, regularisation)
    chosen = parse_methods(methods or (), loss, task, by, reading.get("per"))
    _check_pattern(pattern, chosen)
    settings: dict[str, Any] = {"volumes": _of_volumes(chosen, pattern, data, reading), **reading}
    own = (each.pattern for each in chosen if isinstance(each, Method) and each.pattern in TRAJECTORIES)
    pattern = pattern or next(own, None)
    if pattern in TRAJECTORIES:
        settings["trajectory"] = TRAJECTORIES[pattern]
    free = None if axis is None else tuple(axis)
    limits = LimitSettings(
        shutter=shutter,
        acs_shape=acs_shape,
        partial_fourier=partial_fourier or {},
        largest_gap=largest_gap or {},
        equal_per=equal_per,
        period=period,
        cost=cost,
    )
    by_settings = (free, centre, convention, network, by, device, allow_readout, limits)
    open_conditions = OpenConditions(data, Reading(**settings), *by_settings)
    conditions = open_conditions(on_file)
    whole = conditions.learning
    open_conditions = replace(open_conditions, recon=conditions.recon)  # others need not fit it again
    dimensions, indexed = len(whole.shape) - 1, whole.geometry.indexed
    about = (whole.geometry.readout is not None and not allow_readout, indexed, pattern)
    chosen = [
        method.on(whole) if isinstance(method, GivenMask) else method.on(dimensions, *about) for method in chosen
    ] or usual_methods(loss, dimensions, task, by, *about)
    if learned_seeds is None:
        learned_seeds = min(seeds, MOST_LEARNED_SEEDS)
    cells = all_cells(chosen, _accelerations(accelerations, spokes, conditions), seeds, learned_seeds, conditions)
    if free is not None and all(method.free != len(free) for method in chosen):
        raise InputError(
            f"None of the methods undersamples {len(free)} directions: the `axis` {list(free)} cannot be chosen."
        )
    full = conditions.quality(None)
    with locked(folder, conditions):
        store = CellStore(folder)
        todo = [cell for cell in cells if not store.is_complete(cell, conditions.measure.name)]
        done = len(cells) - len(todo)
        if on_cell is not None:
            on_cell(done, len(cells), "")
        if scheduler is None:
            work = complete_in_processes(todo, store, conditions, open_conditions, jobs or 1)
        else:
            work = complete_on_cluster(todo, store, conditions, open_conditions.with_absolute_paths(), scheduler)
        with closing(work) as finished:
            for number, cell in enumerate(finished, start=done + 1):
                if on_cell is not None:
                    on_cell(number, len(cells), cell.name)
        comparison = collect(cells, store, conditions, full)
        _write(comparison, cells, store, conditions)
        return comparison


def _check_pattern(pattern: str | None, methods: Sequence[ComparedMethod]) -> None:
    if pattern is None:
        return
    if pattern not in PATTERNS:
        raise InputError(f"Unknown pattern {pattern!r}: choose one of {', '.join(PATTERNS)}.")
    own = [method for method in methods if isinstance(method, Method)]
    if own and not any(pattern in method.patterns for method in own):
        raise InputError(f"None of the methods can have the pattern {pattern}: choose others, or leave it out.")


def _asks_for_rotations(pattern: str | None, methods: Sequence[str] | None, reading: Mapping[str, Any]) -> bool:
    """Whether spokes or interleaves are compared: by the pattern, by a method, or by how the data are read."""
    parsed = [text.partition(":") for text in methods or () if "=" not in text]
    of_methods = any(name in BASELINES and BASELINES[name].rotations for name, _, _ in parsed)
    of_methods |= any(variant in TRAJECTORIES for _, _, rest in parsed for variant in rest.split(":"))
    return pattern in TRAJECTORIES or of_methods or reading.get("trajectory") is not None


def _accelerations(
    accelerations: Sequence[float] | None, spokes: Sequence[int] | None, conditions: Conditions
) -> Sequence[float]:
    """Those that were asked for, as numbers or by numbers of spokes."""
    if spokes is None:
        return accelerations or ()
    if accelerations is not None:
        raise InputError("Numbers of `spokes` are accelerations: give one of them, and not both.")
    data = conditions.learning
    pattern = Pattern.on(data.shape[1:], data.geometry)
    return [acceleration_of(each, pattern) for each in spokes]


def _of_volumes(
    methods: Sequence[ComparedMethod], pattern: str | None, data: Any, reading: Mapping[str, Any]
) -> bool:
    """Whether samples are volumes, if nothing else is said: a mask of three axes may also be one of frames."""
    if pattern in ("3d", STACK) or any(method.for_volumes for method in methods if isinstance(method, Method)):
        return True
    if not any(method.for_volumes for method in methods):
        return False
    with suppress(InputError):  # of which the next attempt to read the data will tell
        return not load(data, Reading(**reading)).geometry.indexed
    return True


def _check_workers(jobs: int | None, scheduler: str | None) -> None:
    if scheduler is None:
        check_jobs(1 if jobs is None else jobs)
    elif jobs is not None:
        raise InputError("A cluster has its own workers: give `jobs` or `scheduler`, and not both.")
    else:
        check_address(scheduler)


def _check_task(task: str, network: object) -> None:
    find_task(task)
    if task == SEGMENTATION and network is None:
        raise InputError("A segmentation needs a network: give one with `network`.")
    if task != SEGMENTATION and network is not None:
        raise InputError(f"A {task} uses no network: leave it out, or choose the `task` segmentation.")


def _write(comparison: Comparison, cells: Sequence[Cell], store: CellStore, conditions: Conditions) -> None:
    folder, task, data = store.folder, conditions.segmentation, conditions.held_out
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
    index = len(data) // 2 if task is None else middle_image(task, data)
    figure = picture_grid(masks, data, index, conditions.convention, conditions.recon, conditions.device)
    save_figure(figure, folder / "figures" / "reconstructions.png")
    if task is not None:
        figure = contour_grid(masks, task, data, index, conditions.recon, conditions.device)
        save_figure(figure, folder / "figures" / "contours.png")


@contextmanager
def locked(folder: Path, conditions: Conditions) -> Iterator[None]:
    """The folder is for this comparison alone, until it ends."""
    _claim(folder, conditions)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout as error:
        raise InputError(f"Another comparison is at work in {folder}: wait until it has ended.") from error


def _claim(folder: Path, conditions: Conditions) -> None:
    """Refuse a folder that holds something else, or a comparison under other conditions."""
    task = conditions.segmentation
    wanted = {
        "format": FORMAT,
        "version": __version__,
        "data": {
            "learned from": _fingerprint(conditions.learning, task),
            "measured on": _fingerprint(conditions.held_out, task),
        },
        "centre": conditions.centre,
        "axis": conditions.axis,
        "limits": None if conditions.limits == NONE_ASKED else asdict(conditions.limits),
        "network": None if task is None else _network_fingerprint(task),
        "reconstruction": None
        if conditions.recon.name == ZeroFilled.name
        else _recon_fingerprint(conditions.recon),
    }
    wanted = json.loads(json.dumps(wanted))
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
        for name, value in wanted.items():
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
    save_text(path, json.dumps(wanted, indent=1))


def _fingerprint(data: SampleSet, task: Segmentation | None) -> dict[str, Any]:
    """By what data are recognised: size, subjects, geometry, all images, and labels if they are used."""
    digest = hashlib.sha256(json.dumps([list(data.groups), asdict(data.geometry)]).encode())
    for index in range(len(data)):
        sample = data[index]
        digest.update(sample.image.contiguous().numpy().tobytes())
        if task is not None:
            digest.update(task.label(sample).contiguous().numpy().tobytes())
    return {"samples": len(data), "shape": list(data.shape), "sha256": digest.hexdigest()}


def _recon_fingerprint(recon: Reconstruction) -> dict[str, Any]:
    """By what a reconstruction is recognised: its kind, its settings, and the weights of a network."""
    kind = f"{type(recon).__module__}.{type(recon).__qualname__}"
    if isinstance(recon, Network):
        return {"kind": kind, "consistent": recon.data_consistency, "sha256": _weights_fingerprint(recon.module)}
    arrays = {name: getattr(recon, name) for name in getattr(recon, "arrays", ())}
    found = {"kind": kind, "settings": repr(sorted(each for each in vars(recon).items() if each[0] not in arrays))}
    known = {name: array for name, array in arrays.items() if array is not None}
    return found | ({"sha256": _tensors_fingerprint(known)} if known else {})


def _weights_fingerprint(network: nn.Module) -> str:
    return _tensors_fingerprint(network.state_dict())


def _tensors_fingerprint(tensors: Mapping[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _network_fingerprint(task: Segmentation) -> dict[str, Any]:
    """By what a network is recognised: its kind, its classes and its weights, wherever its file lies."""
    loss = task.loss
    return {
        "kind": type(task.network).__name__,
        "loss": None if loss is None else getattr(loss, "__name__", type(loss).__name__),
        "classes": None if task.classes is None else asdict(task.classes),
        "sha256": _weights_fingerprint(task.network),
    }
