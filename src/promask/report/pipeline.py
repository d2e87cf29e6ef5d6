"""From data to a run folder with its report: what `promask learn` and the studio do."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from promask.data.atomic import recover_folder
from promask.data.device import find_device
from promask.data.file_set import OnFile, prepare
from promask.data.sample_sets import OTHER_PART, choose_part
from promask.data.sources import load
from promask.errors import InputError, InputWarning
from promask.evaluation.methods import fit_mask
from promask.learning.api import learn
from promask.learning.checkpoint import checkpoints_in
from promask.learning.config import Config
from promask.learning.hooks import OnStep
from promask.learning.run import Run, check_destination
from promask.problem.parallel import ALONE, Group, own_device
from promask.report.measurements import OnMask, measure_run
from promask.report.page import write_report
from promask.segmentation.network import SegmentationNetwork
from promask.types import Mask, SampleSet


def learn_and_report(
    data: Any,
    out: Path,
    preset: str = "default",
    on_step: OnStep | None = None,
    on_file: OnFile | None = None,
    on_mask: OnMask | None = None,
    command: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    group: Group = ALONE,
    scheduler: str | None = None,
    beside: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Run:
    """Learn a mask, measure it on what it did not see, and write the run folder.

    `settings` are those of `Config`, as plain values; `command` is what the report says that the run was made by.
    With `resume`, it goes on from what a process left there that was killed: a checkpoint, or a run without its
    report. A finished run is replaced only with `overwrite`. Of a group of processes the first one measures and
    writes. A `scheduler` is that of a Dask cluster that learns the members. The report also has the masks
    `beside`, by their names.
    """
    with group.first_before_others():
        config = Config.preset(preset, **settings)
        device = find_device(own_device(config.device))
        if group.leads:
            _make_room(out, resume, overwrite)
        data_set = load(data, config)
        masks = {name: fit_mask(name, mask, data_set) for name, mask in (beside or {}).items()}
    if group.leads:
        _, part_learned = choose_part(data_set, config.part, default="train")
        held_out, _ = choose_part(data_set, OTHER_PART[part_learned], default="test")
        prepare(held_out, on_file)  # bad files are found before learning
    finished = group.broadcast(b"finished" if resume and group.leads and _is_finished(out) else b"unfinished")
    if finished == b"finished":
        run = _known_again(out, config, data_set)
        if (out / "report.html").is_file():
            return run
    else:
        run = learn(
            data if scheduler else data_set,  # workers open it themselves
            preset=preset,
            on_step=on_step,
            on_file=on_file,
            checkpoint=out,
            resume=resume,
            group=group,
            scheduler=scheduler,
            **settings,
        )
        run = run.with_record(command=command)
    if group.leads:
        run = _reported(run, out, data_set, config, on_mask, masks, device)
    return run


def _make_room(out: Path, resume: bool, overwrite: bool) -> None:
    """See that the result can be written; what an unfinished run has left there is gone on from, or goes."""
    if resume:
        recover_folder(out)
    check_destination(out)
    if _is_finished(out) and not (resume or overwrite):
        raise InputError(f"{out} holds a finished run: choose another folder, or replace it with `overwrite`.")
    if not resume and checkpoints_in(out):
        warnings.warn(
            f"{out} held an unfinished run, which is given up: `resume` would have gone on from there.",
            InputWarning,
            stacklevel=2,
        )
        for path in checkpoints_in(out):
            path.unlink()


def _is_finished(out: Path) -> bool:
    return (out / "run.json").is_file() and not checkpoints_in(out)


def _known_again(out: Path, config: Config, data: SampleSet) -> Run:
    """The finished run in a folder, if it is the one that was asked for."""
    run = Run.load(out)
    found, wanted = (_plain({**each, "data": name}) for each, name in _identities(run, config, data))
    for name, value in wanted.items():
        if found.get(name) != value:
            raise InputError(
                f"{out} is a finished run with {name} {found.get(name)!r} and not {value!r}: choose another "
                f"folder, or replace it with `overwrite` instead of `resume`."
            )
    return run


def _identities(run: Run, config: Config, data: SampleSet) -> list[tuple[dict[str, Any], str]]:
    return [(run.config.to_dict(), run.record.data.source), (config.to_dict(), data.name)]


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(values)))


def _reported(
    run: Run,
    out: Path,
    data: SampleSet,
    config: Config,
    on_mask: OnMask | None,
    beside: Mapping[str, Mask],
    device: torch.device,
) -> Run:
    """Write the run, then what is measured of it, then the report."""
    try:
        run.save(out)  # before anything else can go wrong
    except OSError as error:
        left = "goes on from the last checkpoint" if checkpoints_in(out) else "tries again"
        raise OSError(f"Cannot write {out}: {error.strerror or error}; make room, and `resume` {left}.") from error
    judge = run.network if isinstance(run.network, SegmentationNetwork) else config.network
    try:
        measurements = measure_run(run, data, judge, on_mask=on_mask, beside=beside, device=device)
        run = measurements.add_to(run)
        run.save(out)
        write_report(run, out, measurements)
    except Exception as error:
        kind = InputError if isinstance(error, InputError) else RuntimeError
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        sentence = f"The mask is in {out}, but not its report: {reason}. promask report {out} tries again."
        raise kind(sentence) from error
    return run
