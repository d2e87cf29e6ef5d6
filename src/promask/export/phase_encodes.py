"""A table of the units to acquire, for sequence programmers."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from promask.errors import InputError, one_line
from promask.export.mask_file import ExportedMask, facts_as_text, facts_from_text
from promask.files import Array, save_text
from promask.limits import check_claim


def write_csv(mask: ExportedMask, path: Path) -> None:
    """The facts as comments, a header, and one row for each acquired unit.

    `order` counts the rows, the last free axis fastest; `index_A` is the index along axis A, and `k_A` the same
    from the centre of k-space; `centric` is the place of the unit when acquiring from the centre outwards.
    """
    index = mask.pattern.restrict(mask.mask).nonzero().numpy()
    k = index - np.array(mask.pattern.unit_shape) // 2
    centric = np.argsort(np.argsort((k**2).sum(1), kind="stable"))
    table = np.column_stack([np.arange(len(index)), index, k, centric])
    text = io.StringIO()
    text.writelines(f"# {name}: {value}\n" for name, value in facts_as_text(mask.facts()).items())
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(
        ["order", *[f"index_{axis}" for axis in mask.free], *[f"k_{axis}" for axis in mask.free], "centric"]
    )
    rows.writerows(table.tolist())
    save_text(path, text.getvalue())


def read_csv(path: Path) -> tuple[Array, dict[str, Any]]:
    """The mask from the indices of the rows and the shape in the comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line.removeprefix("#").partition(":") for line in lines if line.startswith("#")]
    facts = facts_from_text({name.strip(): text.strip() for name, _, text in comments})
    if not facts:
        raise InputError(f"{path} does not state its shape and axes: keep the comments that promask wrote.")
    shape, free = facts["shape"], facts["free_axes"]
    check_claim(math.prod(shape), path)
    units = np.zeros([shape[axis] for axis in free], bool)
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    for row in rows:
        if None in row.values():
            raise InputError(f"{path} is damaged: the row {one_line(row['order'])} is not complete.")
        index = tuple(int(row[f"index_{axis}"]) for axis in free)
        if any(not 0 <= i < n for i, n in zip(index, units.shape, strict=True)):
            raise InputError(f"{path} has the index {list(index)} outside of units of {list(units.shape)}.")
        units[index] = True
    if units.sum() != len(rows):
        raise InputError(f"{path} has a unit twice: take out one of the rows.")
    mask = np.broadcast_to(units.reshape([n if axis in free else 1 for axis, n in enumerate(shape)]), shape)
    _check_complete(path, mask, facts)
    return mask, facts


def _check_complete(path: Path, mask: Array, facts: dict[str, Any]) -> None:
    """A file that lost its last rows would be a mask of a higher acceleration."""
    stated = facts.get("acceleration_achieved")
    covered = mask[tuple(slice(*ends) for ends in facts.get("extent", ()))]
    if stated is not None and not math.isclose(stated * covered.sum(), covered.size, rel_tol=1e-9):
        raise InputError(
            f"{path} is damaged: its rows do not give the acceleration_achieved of {stated:g} that it states; "
            f"take out this comment if you changed the rows."
        )
