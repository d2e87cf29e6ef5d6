"""The XML header of ISMRMRD, which the files of fastMRI hold as well."""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers.expat import ParserCreate

from promask.errors import InputError

MOST_DIGITS = 10
"""Of the numbers of a header; longer ones are taken for none."""

TRAJECTORIES = ("cartesian", "epi", "radial", "goldenangle", "spiral")
OTHER = "non-standard"
"""Any other text, which may say anything, and is not repeated."""


@dataclass(frozen=True)
class MrdHeader:
    """What a header says of the grid of k-space: (readout, phase encoding 1, phase encoding 2)."""

    matrix: tuple[int, int, int]
    """The encoded matrix; 0 where the header does not tell."""
    image: tuple[int, int, int]
    """The matrix of the image; 0 where the header does not tell."""
    centre: tuple[int, int]
    """The number of the phase encoding at the centre of k-space, for both of them."""
    maximum: tuple[int | None, int | None]
    """The largest number of both phase encodings."""
    trajectory: str | None
    """One of `TRAJECTORIES`, or `OTHER`; None if the header does not tell."""

    @staticmethod
    def parse(text: str | bytes, path: Path) -> "MrdHeader":
        """From the text of a header; `path` is the file that holds it, for messages."""
        try:
            _refuse_entities(text)
            root = ElementTree.fromstring(text)
        except Exception as error:  # of which the words may quote the header
            place = f" at line {error.position[0]}" if isinstance(error, ElementTree.ParseError) else ""
            raise InputError(f"The header of {path} is damaged{place}: it is no XML.") from None

        def words(*names: str) -> str | None:
            found = root.findtext("/".join(f"{{*}}{name}" for name in ("encoding", *names)))
            return None if found is None else found.strip()

        def number(*names: str) -> int | None:
            text = words(*names)
            return int(text) if text and text.isdecimal() and len(text) < MOST_DIGITS else None

        def size(space: str) -> tuple[int, int, int]:
            x, y, z = (number(space, "matrixSize", axis) or 0 for axis in "xyz")
            return x, y, z

        matrix, trajectory = size("encodedSpace"), words("trajectory")
        limits = [("encodingLimits", f"kspace_encoding_step_{step}") for step in (1, 2)]

        def centre(step: int) -> int:
            told = number(*limits[step], "center")
            return matrix[step + 1] // 2 if told is None else told

        return MrdHeader(
            matrix=matrix,
            image=size("reconSpace"),
            centre=(centre(0), centre(1)),
            maximum=(number(*limits[0], "maximum"), number(*limits[1], "maximum")),
            trajectory=trajectory if trajectory in (None, *TRAJECTORIES) else OTHER,
        )


def _refuse_entities(text: str | bytes) -> None:
    """No header declares anything: what does is made to grow when it is read, or to take in other files."""
    parser = ParserCreate()

    def declared(*_: Any) -> None:
        raise ValueError("it declares a document type")

    parser.StartDoctypeDeclHandler = declared
    parser.Parse(text, True)
