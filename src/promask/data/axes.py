"""The roles of the axes of an array: as a user names them, or by a rule that asks where it cannot know.

Names: `subject` and `slice` (independent samples), `frame`, `contrast`, `coil`, the directions `kx`, `ky`, `kz` of
k-space or `x`, `y`, `z` of images, `re/im` for real and imaginary parts, `_` for an axis of length 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from promask.errors import Choice, InputError, UncertainDataError, count, one_line

SUBJECT, SLICE, FRAME, CONTRAST, COIL, PARTS, EMPTY = "subject", "slice", "frame", "contrast", "coil", "re/im", "_"
DIRECTIONS = ("kx", "ky", "kz")
IMAGE_DIRECTIONS = ("x", "y", "z")
ROLES = (SUBJECT, SLICE, FRAME, CONTRAST, COIL, *DIRECTIONS, *IMAGE_DIRECTIONS, PARTS, EMPTY)
OTHER_NAMES = {
    "subjects": SUBJECT,
    "slices": SLICE,
    "frames": FRAME,
    "time": FRAME,
    "t": FRAME,
    "echo": CONTRAST,
    "contrasts": CONTRAST,
    "coils": COIL,
    "ri": PARTS,
}
"""What some call these roles."""
MOST_COILS = 128
"""Arrays along an axis that is longer are not taken for coils."""
FEWEST_PARTITIONS = 12
"""An axis that is shorter is not taken for a direction of space."""


class Arrangement(NamedTuple):
    """Roles of the axes of an array, in words."""

    names: tuple[str, ...]
    words: str


@dataclass(frozen=True)
class Axes:
    """The roles of the axes of an array, in its order.

    >>> axes = Axes.parse("slice coil ky kx")
    >>> axes.holds_kspace, axes.directions, axes.samples
    (True, ('ky', 'kx'), ('slice',))
    >>> Axes.parse("x ky kz coil").samples  # hybrid space: every position x is a slice
    ('x',)
    """

    names: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> "Axes":
        """From names with spaces between them.

        Args:
            text: Such as `slice coil ky kx`.

        Returns:
            The roles.

        Raises:
            InputError: If a name is unknown or there twice, or there are no two or three directions.
        """
        words = [OTHER_NAMES.get(word.lower(), word.lower()) for word in text.replace(",", " ").split()]
        for word in words:
            if word not in ROLES:
                raise InputError(f"`axes` has the unknown name {one_line(word, 40)!r}: use {', '.join(ROLES)}.")
            if word != EMPTY and words.count(word) > 1:
                raise InputError(f"`axes` names {word} twice: each role can be that of one axis.")
        axes = Axes(tuple(words))
        for direction in IMAGE_DIRECTIONS:
            if {direction, f"k{direction}"} <= set(words):
                raise InputError(f"`axes` names both {direction} and k{direction}: an axis is one or the other.")
        if len(axes.directions) not in (2, 3):
            wanted = "two or three directions of space, such as ky kx in k-space or y x in images"
            raise InputError(f"`axes` must name {wanted}, but is {one_line(text, 80)!r}.")
        return axes

    def __str__(self) -> str:
        return " ".join(self.names)

    @property
    def holds_kspace(self) -> bool:
        """Whether at least two directions are those of k-space."""
        return sum(name in DIRECTIONS for name in self.names) >= 2

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions of samples, in the order of the array; in k-space without those transformed already."""
        known = DIRECTIONS if self.holds_kspace else IMAGE_DIRECTIONS
        return tuple(name for name in self.names if name in known)

    @property
    def samples(self) -> tuple[str, ...]:
        """The axes of independent samples: also contrasts beside coils, and positions in hybrid space."""
        inner = (*self.directions, *self.channel, PARTS, EMPTY)
        return tuple(name for name in self.names if name not in inner)

    @property
    def channel(self) -> tuple[str, ...]:
        """The axis of channels: the coils, or else the contrasts; empty if there is none."""
        if PARTS in self.names and COIL not in self.names:
            return ()  # coils, if any, alternate with their parts
        return tuple(name for name in (COIL, CONTRAST) if name in self.names)[:1]

    def reversed(self) -> "Axes":
        """The roles in the opposite order, in which HDF5 has the axes of MATLAB."""
        return Axes(self.names[::-1])

    def check(self, shape: Sequence[int], source: str) -> None:
        """Refuse roles that an array cannot have.

        Args:
            shape: The shape of the array.
            source: The file, for messages.
        """
        if len(shape) != len(self.names):
            raise InputError(
                f"`axes` is {str(self)!r}, {len(self.names)} names, but {source} has {len(shape)} axes: its shape "
                f"is {list(shape)}."
            )
        for name, n in zip(self.names, shape, strict=True):
            if name == EMPTY and n != 1:
                raise InputError(f"`axes` has _ for an axis of length {n} of {source}: _ is for length 1.")
            if name == PARTS and n % 2:
                raise InputError(f"`axes` has re/im for an axis of length {n} of {source}: parts come in pairs.")
            if name == PARTS and n > 2 and COIL in self.names:
                raise InputError(
                    f"`axes` has re/im for an axis of length {n} of {source} beside coil: real and imaginary "
                    f"parts alternate along one of them; leave out coil, or name the axis of length 2."
                )


def find_axes(
    shape: Sequence[int],
    source: str,
    is_complex: bool,
    holds_kspace: bool | None,
    volumes: bool,
    told: Mapping[str, int],
    last_first: bool = False,
) -> Axes:
    """The roles of the axes of a bare array, if there is one way to read it.

    Args:
        shape: The shape of the array, as its users see it.
        source: The file, for messages.
        is_complex: Whether its numbers are complex.
        holds_kspace: Whether it holds k-space; None if nothing tells.
        volumes: Whether samples have three directions.
        told: What else is known: the number of slices, coils, contrasts or frames, by role.
        last_first: Whether samples come last, as in MATLAB.

    Returns:
        The roles.

    Raises:
        UncertainDataError: If there are several ways to read it: they are listed.
    """
    unknown = holds_kspace is None and is_complex
    about = (shape, is_complex, unknown or bool(holds_kspace), volumes, last_first)
    found = _possible(*about, told) or _possible(*about, {})
    alternating = bool(holds_kspace) and not is_complex and shape[-1] != 2
    if len(found) == 1 and not unknown and not alternating:
        return Axes(found[0].names)
    numbers = "complex numbers" if is_complex else "real numbers"
    what = f"{source} has shape {list(shape)} of {numbers}"
    if not found:
        example = "frame slice coil ky kx" if is_complex or holds_kspace else "slice frame y x"
        roles = ", ".join(ROLES)
        raise InputError(f"{what}: name its axes with `axes`, such as {example!r}, out of {roles}.")
    choices = [Choice("axes", " ".join(each.names), each.words) for each in found]
    listed = [f'`axes` "{text}" ({words})' for _, text, words in choices]
    chosen = listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} or {listed[-1]}"
    if not unknown:
        why = "which can be read in several ways"
        if alternating:
            why = "so its k-space is not complex, unless real and imaginary parts alternate along the last axis"
        raise UncertainDataError(f"{what}, {why}: choose {chosen}.", choices)
    images = [Choice("axes", _of_images(each.names), f"{each.words}, as images") for each in found]
    raise UncertainDataError(
        f"{what}, and nothing says whether it holds k-space or images: choose {chosen}, or the same without k if "
        f'it holds images, such as `axes` "{images[0].value}".',
        [*(each._replace(words=f"{each.words}, in k-space") for each in choices), *images],
    )


def _possible(
    shape: Sequence[int],
    is_complex: bool,
    in_kspace: bool,
    volumes: bool,
    last_first: bool,
    told: Mapping[str, int],
) -> list[Arrangement]:
    """The ways to read an array: where its directions lie, and the roles of the other axes."""
    parts = in_kspace and not is_complex  # real and imaginary parts come last
    if parts and shape[-1] % 2:
        return []
    inner, interleaved = shape[:-1] if parts else shape, parts and shape[-1] > 2
    result: dict[tuple[str, ...], str] = {}
    dimensions = [3] if volumes else [2, 3] if is_complex or parts else [2]
    for space in dimensions:
        others = len(inner) - space
        if others < 0:
            continue
        for spatial_last in _sides(inner, space, last_first, both=not (is_complex or parts)):
            lengths = inner[:others] if spatial_last else inner[space:]
            spatial = inner[others:] if spatial_last else inner[:space]
            if space == 3 and not volumes and (min(spatial) < FEWEST_PARTITIONS or told):
                continue
            names = ("z", "y", "x")[3 - space :] if spatial_last else ("y", "x", "z")[:space]
            names = tuple(f"k{name}" for name in names) if in_kspace else names
            for roles in _roles(others, is_complex or parts, spatial_last):
                if _fits(roles, lengths, told, interleaved):
                    whole = (*roles, *names) if spatial_last else (*names, *roles)
                    whole = (*whole, PARTS) if parts else whole
                    result.setdefault(whole, _in_words(roles, lengths, space, interleaved, shape[-1] // 2))
    return [Arrangement(names, words) for names, words in result.items()]


def _sides(shape: Sequence[int], space: int, last_first: bool, both: bool) -> list[bool]:
    """Whether the directions may be the last axes, or the first: where the longest axes lie, or the usual side."""
    if len(shape) == space:
        return [not last_first]
    usual, other = not last_first, last_first

    def ratio(last: bool) -> float:
        inside, outside = (shape[-space:], shape[:-space]) if last else (shape[:space], shape[space:])
        return min(inside) / max(outside)

    if ratio(usual) > 1 or ratio(other) <= (2 if both else 1):
        return [usual]
    return [usual, other] if both else [other]


def _roles(others: int, coils: bool, leading: bool) -> list[tuple[str, ...]]:
    """What so many axes beside the directions may be, the most usual first."""
    possible: Mapping[int, list[tuple[str, ...]]] = {
        0: [()],
        1: [(SLICE,), (COIL,)] if coils else [(SLICE,)],
        2: [(SLICE, COIL), (COIL, SLICE)] if coils else [(SLICE, CONTRAST), (SLICE, FRAME)],
    }
    found = possible.get(others, [])
    return found if leading else [roles[::-1] for roles in found]


def _fits(roles: Sequence[str], lengths: Sequence[int], told: Mapping[str, int], interleaved: bool) -> bool:
    known = dict(zip(roles, lengths, strict=True))
    if (interleaved and COIL in known) or known.get(FRAME) == 1:
        return False
    if max(lengths, default=1) == 1 and roles[:1] == (COIL,):  # the same as the other order
        return False
    expected = {role: n for role, n in told.items() if not (role == SLICE and n == 1 and role not in known)}
    return known.get(COIL, 2) <= MOST_COILS and all(known.get(role) == n for role, n in expected.items())


def _in_words(roles: Sequence[str], lengths: Sequence[int], space: int, interleaved: bool, coils: int) -> str:
    counts = [
        count(n, role) for role, n in sorted(zip(roles, lengths, strict=True), key=lambda each: each[0] == COIL)
    ]
    counts += [count(coils, COIL)] if interleaved else []
    if SLICE not in roles:
        counts = [f"one {'volume' if space == 3 else 'slice'}", *counts]
    elif space == 3:
        counts = [text.replace("slice", "volume") for text in counts]
    return ", ".join(counts)


def _of_images(names: Sequence[str]) -> str:
    return " ".join(name.removeprefix("k") if name in DIRECTIONS else name for name in names)
