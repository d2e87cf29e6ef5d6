"""From data to a run folder with its report: what `promask learn` and the studio do."""

from pathlib import Path
from typing import Any

from promask.config import Config
from promask.data import OTHER_PART, OnFile, choose_part, load, prepared
from promask.errors import InputError
from promask.learning.learn import learn
from promask.learning.loop import OnStep
from promask.learning.run import Run, check_destination
from promask.report import OnMask, gather, write_report
from promask.segmentation.network import SegmentationNetwork


def learn_and_report(
    data: str,
    out: Path,
    preset: str = "default",
    on_step: OnStep | None = None,
    on_file: OnFile | None = None,
    on_mask: OnMask | None = None,
    command: str | None = None,
    **settings: Any,
) -> Run:
    """Learn a mask, measure it on what it did not see, and write the run folder.

    `settings` are those of `Config`, as plain values; `command` is what the report says that the run was made by.
    """
    config = Config.preset(preset, **settings)
    check_destination(out)
    data_set = load(data, config)
    part_learned = choose_part(data_set, config.part, usual="train")[1]
    other_part = OTHER_PART[part_learned]
    prepared(choose_part(data_set, other_part, usual="test")[0], on_file)  # what is bad is found now
    run = learn(data_set, preset=preset, on_step=on_step, on_file=on_file, **settings)
    run = run.noting(command=command)
    run.save(out)  # before anything else can go wrong
    judge = run.network if isinstance(run.network, SegmentationNetwork) else config.network
    try:
        evidence = gather(run, data_set, judge, on_mask=on_mask)
        run = evidence.noted(run)
        run.save(out)
        write_report(run, out, evidence)
    except Exception as error:
        kind = InputError if isinstance(error, InputError) else RuntimeError
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        sentence = f"The mask is in {out}, but not its report: {reason}. promask report {out} tries again."
        raise kind(sentence) from error
    return run
