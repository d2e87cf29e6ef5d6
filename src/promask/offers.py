"""What a shell may offer as the value of an option or an argument.

The names stand here once more, because where they belong PyTorch is imported, and a shell does not wait for that.
A test compares them with the tables of the library.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

BUILT_IN = ("brain", "head", "cardiac", "cardiac+phase", "knee", "knee+phase")
COLLECTIONS = ("acdc", "brats", "fastmri", "fastmri+")
PATTERNS = ("1d", "2d", "3d")
TASKS = ("reconstruction", "segmentation")
LOSSES = ("mse", "l1", "ssim", "complex-mse", "complex-l1", "segmentation")
RECONSTRUCTIONS = ("zero-filled", "rss", "sense", "cg-sense", "cs", "cs-tv", "partial-fourier")
PRESETS = ("default", "paper")
TRAINING_PRESETS = ("default", "small")
STARTS = ("energy", "uniform")
ANNEALINGS = ("none", "cubic", "linear")
PARTS = ("train", "test", "all")
CONVENTIONS = ("paper", "fastmri")
FORMATS = ("npy", "mat", "bart", "png", "csv", "fastmri")
PLANES = ("axial", "coronal", "sagittal")
KSPACES = ("acquired", "emulated")
HELD = ("image", "kspace")
DEVICES = ("cpu", "cuda")
SHELLS = ("bash", "zsh", "fish")
BASELINES = (
    "random",
    "centre",
    "equispaced",
    "gaussian",
    "poisson",
    "radial",
    "energy",
    "igs",
    "greedy",
    "loupe",
    "equispaced-paper",
    "gaussian-paper",
    "igs-paper",
)
METHODS = ("promask", *BASELINES)

Offer = Callable[[str], list[str]]
"""From the beginning of a word to the words that may be meant; none leaves it to the shell, which knows files."""


def one_of(names: Iterable[str]) -> Offer:
    """The names of a table.

    >>> one_of(PATTERNS)("")
    ['1d', '2d', '3d']
    """

    def offer(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return offer


def data(incomplete: str) -> list[str]:
    """Built-in names, collections with the folders they may lie in, and files.

    >>> data("fast"), data("kn")
    (['fastmri:', 'fastmri+:'], ['knee', 'knee+phase'])
    """
    kind, colon, place = incomplete.partition(":")
    if colon and kind in COLLECTIONS:
        return [f"{kind}:{path}" for path in paths(place) if path.endswith("/")]
    return _or_files((*BUILT_IN, *(f"{name}:" for name in COLLECTIONS)), incomplete)


def start(incomplete: str) -> list[str]:
    """The names of starts, and files."""
    return _or_files(STARTS, incomplete)


def methods(incomplete: str) -> list[str]:
    """Names of methods; after a colon what they may be asked for.

    >>> methods("gree"), methods("igs:2d:ss")
    (['greedy'], ['igs:2d:ssim'])
    """
    named, colon, last = incomplete.rpartition(":")
    if not colon:
        return one_of(METHODS)(incomplete)
    return [f"{named}:{variant}" for variant in (*PATTERNS, *LOSSES, *RECONSTRUCTIONS) if variant.startswith(last)]


def paths(incomplete: str) -> list[str]:
    """Files and folders that begin so; a folder ends in a slash, and what is hidden must be asked for."""
    folder, slash, begun = incomplete.rpartition("/")
    try:
        found = sorted(Path(folder + slash or ".").expanduser().iterdir())
    except OSError:
        return []
    return [
        f"{folder}{slash}{path.name}{'/' if path.is_dir() else ''}"
        for path in found
        if path.name.startswith(begun) and (begun or not path.name.startswith("."))
    ]


def _or_files(names: Iterable[str], incomplete: str) -> list[str]:
    """Names and, since a file may begin alike, files; but where no name is meant, the shell may do better."""
    named = one_of(names)(incomplete)
    return [*named, *paths(incomplete)] if named else []
