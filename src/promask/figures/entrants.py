"""The masks that a figure compares, by the words of a user: runs, files, and baselines made for the data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from promask.baselines import BASELINES, baseline_mask, pattern_beside
from promask.data import OTHER_PART, OnFile, calibrated, choose_part, load, prepared
from promask.errors import InputError
from promask.evaluation import check_mask
from promask.export import ExportedMask, read_mask
from promask.held_out import read, search_network
from promask.learning.run import Run
from promask.patterns import FREE_AXES, Pattern
from promask.reading import Reading
from promask.recon import ZERO_FILLED, Reconstruction, make_reconstruction
from promask.types import Mask, SampleSet


@dataclass(frozen=True)
class Entrant:
    """A word: a run, a mask from a file, or the name of a baseline, perhaps with a pattern: `energy:1d`."""

    name: str
    word: str
    what: Run | ExportedMask | str

    @staticmethod
    def parse(text: str) -> "Entrant":
        """From a folder, a file or a baseline, perhaps with a name: `ours=runs/brain`.

        >>> Entrant.parse("lines=energy:1d")
        Entrant(name='lines', word='energy:1d', what='energy:1d')
        """
        given, equals, word = text.partition("=")
        if not equals or Path(text).exists():
            given, word = "", text
        place = Path(word)
        if (place / "run.json").is_file():
            return Entrant(given or place.resolve().name, word, Run.load(place))
        if place.is_file() or place.suffix:
            return Entrant(given or place.stem, word, read_mask(place))
        baseline, colon, pattern = word.partition(":")
        if baseline not in BASELINES:
            raise InputError(
                f"{word} is neither a run, nor a mask file, nor a baseline: choose from {', '.join(BASELINES)}."
            )
        if colon and pattern not in FREE_AXES:
            raise InputError(f"Unknown pattern {pattern!r} of {baseline}: choose one of {', '.join(FREE_AXES)}.")
        return Entrant(given or word, word, word)


@dataclass(frozen=True)
class Entered:
    """Masks by name, the images that they are shown on, and how these are reconstructed."""

    masks: dict[str, Mask]
    images: SampleSet
    recon: Reconstruction


def entered(
    entrants: Sequence[Entrant],
    data: str | None = None,
    accel: float | None = None,
    recon: str | None = None,
    seed: int = 0,
    part: str | None = None,
    on_file: OnFile | None = None,
    **reading: Any,
) -> Entered:
    """The masks, and images that the first run did not see.

    Baselines are made from the other part of the data, for the acceleration of the first run or file unless one is
    given. Their pattern and their centre are those of the first run, as far as they can be. The reconstruction is
    that of the first run without a choice.
    """
    first = next((each.what for each in entrants if isinstance(each.what, Run)), None)
    by = ZERO_FILLED if first is None else first.reconstruction()
    by = by if recon is None else make_reconstruction(recon)
    if first is not None:
        whole, part = read(first, data, part, reading)
    elif data is None:
        raise InputError(
            "There is no run among the masks that would say which images to show: choose with --data."
        )
    else:
        volumes = any(isinstance(each.what, ExportedMask) and each.what.mask.ndim == 3 for each in entrants)
        whole = load(data, Reading(**{"volumes": volumes, **reading}))
    images, part = choose_part(whole, part, usual="test")
    learning, _ = choose_part(whole, OTHER_PART[part], usual="train")
    images = calibrated(prepared(images, on_file), by, on_file)
    if any(isinstance(each.what, str) for each in entrants):
        learning = calibrated(prepared(learning, on_file), by, on_file)
    centre = None if first is None else first.config.centre or None
    masks = {}
    for name, each in zip(names(entrants), entrants, strict=True):
        if isinstance(each.what, str):
            baseline, units = each.what.partition(":")[0], _pattern(each.what, learning, first)
            wanted = accel or _acceleration(entrants)
            mask = baseline_mask(baseline, learning, units, wanted, seed, centre, recon=by)
        else:
            mask = each.what.mask
        masks[name] = check_mask(mask, whole)
    return Entered(masks, images, by)


def names(entrants: Sequence[Entrant]) -> list[str]:
    """Names, all different: where they are not, the words that were given, and numbers in the end."""
    short = [each.name for each in entrants]
    result: list[str] = []
    for each in entrants:
        name = each.name if short.count(each.name) == 1 else each.word
        number = result.count(name) and sum(known.startswith(name) for known in result) + 1
        result.append(f"{name} ({number})" if number else name)
    return result


def network_of(entrants: Sequence[Entrant]) -> Path:
    """The network that the first run that has one was learned for: beside the run, or where it was then."""
    missing = "no run was learned for one"
    for each in entrants:
        if isinstance(each.what, Run):
            found, gone = search_network(each.what, Path(each.word))
            if found is not None:
                return found
            missing = f"that of the run {gone}" if gone else missing
    raise InputError(f"There is no network to find anything with, {missing}: choose one with --network FILE.")


def _pattern(word: str, data: SampleSet, beside: Run | None) -> Pattern:
    """The units of a baseline: those of the run beside it, as far as it can have them and no others are named."""
    name, _, asked = word.partition(":")
    shape, extent = data.shape[1:], data.geometry.extent
    if beside is not None:
        own = replace(beside.distribution.pattern, extent=extent)
        if asked:
            count = FREE_AXES[asked]
            axes = own.free[-count:] if count <= len(own.free) else None
            return Pattern.named(asked, shape, axes, extent)
        if fitting := pattern_beside(name, own):
            return fitting
    return Pattern.named(asked or BASELINES[name].usual, shape, None, extent)


def _acceleration(entrants: Sequence[Entrant]) -> float:
    for each in entrants:
        if isinstance(each.what, Run):
            return each.what.config.acceleration
        if isinstance(each.what, ExportedMask):
            return each.what.asked or each.what.achieved
    raise InputError("No run or file says how many units a mask may have: give --accel, such as --accel 8.")
