"""Which samples are learned from and which are held out, without cutting through a patient."""

import hashlib

from promask.data.sets import Subset
from promask.errors import InputError
from promask.types import SampleSet

PARTS = ("train", "test", "all")
OTHER_PART = {"train": "test", "test": "train", "all": "all"}
HELD_OUT = 0.2
BLOCKS = 10


def choose_part(data: SampleSet, part: str | None, usual: str) -> tuple[SampleSet, str]:
    """The samples of a part, and its name. Without a choice: the usual part if there are groups to split by.

    A data set that says nothing of its subjects is used whole, unless a part is asked for; so is one that was
    chosen from another already.
    """
    if part is None:
        tells = _folders(data) is not None or len(set(data.groups)) > 1
        part = usual if tells and not isinstance(data, Subset) else "all"
    if part not in PARTS:
        raise InputError(f"Unknown part {part!r}: choose one of {', '.join(PARTS)}.")
    if part == "all" or len(data) == 1:
        return data, "all"
    held_out = _held_out(data)
    return Subset(data, [index for index in range(len(data)) if held_out[index] == (part == "test")]), part


def _folders(data: SampleSet) -> list[bool] | None:
    """Whether each sample lies in a test folder, if there are samples that do and others that do not.

    Whoever is in both is held out, unless that is everyone: then the names begin anew in each folder.
    """
    if data.held_out is None or len(set(data.held_out)) < 2:
        return None
    tested = {group for group, held_out in zip(data.groups, data.held_out, strict=True) if held_out}
    result = [group in tested for group in data.groups]
    return list(data.held_out) if all(result) else result


def _held_out(data: SampleSet) -> list[bool]:
    in_folders = _folders(data)
    if in_folders is not None:
        return in_folders
    groups = data.groups
    names = sorted(set(groups))
    if len(names) > 1:
        # Chosen by a hash of their names: the same on every machine, and hardly changed by a further patient.
        by_hash = sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
        chosen = set(by_hash[: max(1, round(HELD_OUT * len(names)))])
        return [group in chosen for group in groups]
    # Slices of one subject: whole blocks of neighbours, as adjacent slices are nearly alike.
    count = len(data)
    blocks = min(BLOCKS, count)
    every = round(1 / HELD_OUT)
    block_of = [index * blocks // count for index in range(count)]
    return [block % every == min(every // 2, blocks - 1) for block in block_of]
