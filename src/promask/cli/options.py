"""What a shell may offer as the value of an option or an argument.

The names stand here once more, because where they belong PyTorch is imported, and a shell does not wait for that.
A test compares them with the tables of the library.

The options that several commands share, and those that say how files are read.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from promask.errors import InputError

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


DATA_HELP = (
    "brain, head, cardiac, knee (the last two also as cardiac+phase, knee+phase); a file: .npz, .npy, .mat, .h5, "
    ".nii, .nii.gz, .cfl, .mrd, .dcm; a folder of files; or acdc:ROOT, brats:ROOT, fastmri:ROOT, fastmri+:ROOT."
)
Data = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False, autocompletion=data)]
Axis = Annotated[
    str | None,
    typer.Option(metavar="AXES", help="The free axes of k-space, such as 0 or 0,2.", show_default="last"),
]
Part = Annotated[
    str | None,
    typer.Option(
        metavar="train|test|all",
        help="The part of the data to use; by default the learning or the held-out part where the data tell "
        "their subjects, and all of them otherwise.",
        autocompletion=one_of(PARTS),
    ),
]
Convention = Annotated[
    str,
    typer.Option(
        metavar="paper|fastmri",
        help="How quality is measured: each image by the range of its target, or each volume by the maximum of "
        "its target, as fastMRI does.",
        autocompletion=one_of(CONVENTIONS),
    ),
]
Recon = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How images are reconstructed: zero-filled, rss, sense, cg-sense, cs, cs-tv or partial-fourier.",
        show_default="zero-filled",
        autocompletion=one_of(RECONSTRUCTIONS),
    ),
]
Iterations = Annotated[
    int | None, typer.Option(metavar="N", help="Iterations of the reconstruction.", show_default="its own")
]
Regularisation = Annotated[
    float | None, typer.Option(metavar="R", help="Regularisation of the reconstruction.", show_default="its own")
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object instead of text.")]


def setting(metavar: str, text: str, default: str, offer: Offer | None = None) -> Any:
    """An option whose default is found elsewhere, such as in a preset; a shell may offer values for it."""
    return typer.Option(metavar=metavar, help=text, show_default=default, autocompletion=offer)


def shell_option(text: str) -> Any:
    """An option whose value, a shell, may be left out: see `with_shell`."""
    return typer.Option(metavar="SHELL", help=text, autocompletion=one_of(SHELLS))


To = Annotated[
    str | None,
    setting(
        "FORMAT",
        "The format to write: npy, mat, bart, png, csv or fastmri.",
        "by the ending of the file",
        one_of(FORMATS),
    ),
]


def _reading(
    kind: Any, name: str, metavar: str, text: str, default: str | bool = False, offer: Offer | None = None
) -> Any:
    return Annotated[
        kind,
        typer.Option(
            name,
            metavar=metavar,
            help=text,
            show_default=default,
            rich_help_panel="Reading files",
            autocompletion=offer,
        ),
    ]


PHASE_HELP = "With its phase, or the transform of the magnitude, as in the paper."
READING: Mapping[str, Any] = {
    "volumes": _reading(bool, "--volumes", "", "The samples are volumes with three axes; implied by 3d."),
    "kspace": _reading(str | None, "--kspace", "acquired|emulated", PHASE_HELP, "acquired", one_of(KSPACES)),
    "array": _reading(str | None, "--array", "NAME", "The array of the file.", "image, kspace"),
    "holds": _reading(
        str | None,
        "--holds",
        "image|kspace",
        "What it is, if its name does not tell.",
        offer=one_of(HELD),
    ),
    "plane": _reading(
        str | None,
        "--plane",
        "PLANE",
        "Slices of a NIfTI volume: axial, coronal or sagittal.",
        "across the longest voxels",
        one_of(PLANES),
    ),
    "slices": _reading(str | None, "--slices", "FIRST:END", "Of each file, such as 10:40 or 2:-2.", "all"),
    "size": _reading(list[int] | None, "--size", "H W", "Crop or pad the images to this size."),
    "skip_bad": _reading(bool, "--skip-bad", "", "Leave out what cannot be read, with a warning."),
    "coils": _reading(int | None, "--coils", "N", "Simulate N receive coils around images of one channel."),
    "noise": _reading(
        float | None, "--noise", "SHARE", "Noise added to k-space, as a share of the largest magnitude.", "0"
    ),
    "maps": _reading(str | None, "--maps", "FILE", "Coil maps: .npy, .npz or .mat with `maps`, .cfl.", "in DATA"),
}
"""The settings of `Reading` as options."""


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of reading; it takes those that were used as `reading`, a dictionary."""

    @functools.wraps(command)
    def with_options(**values: Any) -> None:
        given = {name: values.pop(name) for name in READING}
        given["slices"] = _ends(given["slices"])
        used = {
            name: value for name, value in given.items() if not (value is None or value is False or value == [])
        }
        command(**values, reading=used)

    signature = inspect.signature(command)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "reading"]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in READING.items()
    ]
    with_options.__dict__["__signature__"] = signature.replace(parameters=[*own, *options])
    return with_options


def axes(text: str | None) -> tuple[int, ...] | None:
    """The axes of `--axis 0,2`."""
    if text is None:
        return None
    try:
        return tuple(int(axis) for axis in text.split(","))
    except ValueError as error:
        raise InputError(f"The axes must be whole numbers such as 1 or 0,2, but are {text!r}.") from error


def _ends(text: str | None) -> tuple[int | None, int | None] | None:
    if text is None:
        return None
    try:
        first, end = (int(word) if word else None for word in text.split(":"))
    except ValueError as error:
        raise InputError(f"The slices must be first and end, such as 10:40 or 2:-2, but are {text!r}.") from error
    return first, end


def with_options_repeated(arguments: list[str]) -> list[str]:
    """`--size 256 256` or `256,256` as `--size 256 --size 256`, which is how the parser takes lists.

    >>> with_options_repeated(["export", "--shape=320", "320", "run"])
    ['export', '--shape', '320', '--shape', '320', 'run']
    >>> with_options_repeated(["compare", "brain", "--accel", "4,8.5", "16", "--seeds", "3"])
    ['compare', 'brain', '--accel', '4', '--accel', '8.5', '--accel', '16', '--seeds', '3']
    """
    several = options_of_several(next((word for word in arguments if not word.startswith("-")), ""))
    parts = (word.partition("=") for word in arguments)
    words = [
        [name, value] if name in several and equals else [name + equals + value] for name, equals, value in parts
    ]
    result: list[str] = []
    option, waiting = "", False
    for word in itertools.chain.from_iterable(words):
        values = word.split(",")
        if option and all(several[option](value) for value in values):
            result += itertools.chain.from_iterable((option, value) for value in values)
            waiting = False
            continue
        result += [option] if waiting else []
        option, waiting = (word, True) if word in several else ("", False)
        result += [] if waiting else [word]
    return result + ([option] if waiting else [])


def options_of_several(command: str) -> Mapping[str, Callable[[str], bool]]:
    """The options of a command that take several values, and what is one of them."""
    return {**SEVERAL, **SEVERAL_OF.get(command, {})}


def with_shell(arguments: list[str], in_use: Callable[[], str]) -> list[str]:
    """`--show-completion` as `--show-completion bash`, if that is the shell in use and no other is named.

    >>> with_shell(["--show-completion"], lambda: "fish"), with_shell(["--show-completion", "zsh"], lambda: "fish")
    (['--show-completion', 'fish'], ['--show-completion', 'zsh'])
    """
    option = arguments[0] if arguments else ""
    if option in ("--show-completion", "--install-completion") and len(arguments) == 1:
        return [option, in_use()]
    return arguments


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).isdigit()


def _is_word(word: str) -> bool:
    return bool(word) and not word.startswith("-")


SEVERAL: Mapping[str, Callable[[str], bool]] = {"--size": str.isdigit, "--shape": str.isdigit}
"""Options that take several values, and what belongs to them."""
SEVERAL_OF: Mapping[str, Mapping[str, Callable[[str], bool]]] = {
    "compare": {"--accel": _is_number, "--methods": _is_word},
    "segment": {"--classes": _is_word},
}
"""The same for a command."""
