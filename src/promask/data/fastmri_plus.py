"""The annotations of fastMRI+ (Zhao et al. 2022): boxes around findings, and label masks made of them."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from promask.errors import InputError
from promask.files import Array

COLUMNS = ("file", "slice", "study_level", "x", "y", "width", "height", "label")


@dataclass(frozen=True)
class Box:
    """A finding on a slice.

    The images were turned upside down before they were annotated: x counts columns from the left, y counts rows
    from the bottom of the image as it lies in the file.
    """

    file: str
    number: int
    x: int
    y: int
    width: int
    height: int
    label: str

    def place(self, rows: int) -> tuple[slice, slice]:
        """Rows and columns of the box in an image with this many rows, as it lies in the file.

        >>> Box("file1", 0, x=10, y=0, width=5, height=20, label="Meniscus Tear").place(rows=320)
        (slice(300, 320, None), slice(10, 15, None))
        """
        bottom = rows - self.y
        right = self.x + self.width
        return slice(max(0, bottom - self.height), max(0, bottom)), slice(max(0, self.x), max(0, right))


def read_boxes(path: Path) -> list[Box] | None:
    """The boxes of a table; None if it is another table. Findings about the whole study have no box."""
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            table = csv.DictReader(file)
            if not set(COLUMNS) <= set(table.fieldnames or ()):
                return None
            return [_box(row, path, table.line_num) for row in table if row["x"] != ""]
    except (OSError, csv.Error) as error:
        raise InputError(f"Cannot read {path}: {error}.") from error


def label_mask(boxes: Sequence[Box], size: tuple[int, ...], numbers: Mapping[str, int]) -> Array:
    """The number of the label at each pixel, 0 where there is no finding; smaller boxes lie on top."""
    mask = np.zeros(size, np.uint8 if len(numbers) < 256 else np.int32)
    for box in sorted(boxes, key=lambda box: -box.width * box.height):
        mask[box.place(size[0])] = numbers[box.label]
    return mask


def _box(row: dict[str, str], path: Path, line: int) -> Box:
    try:
        number, x, y, width, height = (int(float(row[name])) for name in ("slice", "x", "y", "width", "height"))
        return Box(row["file"].removesuffix(".h5"), number, x, y, width, height, row["label"].strip())
    except (TypeError, ValueError, OverflowError, AttributeError) as error:  # None where the line is too short
        raise InputError(f"Line {line} of {path} is not an annotation of fastMRI+.") from error
