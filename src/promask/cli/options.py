"""The options that several commands share, and the values that a shell completes.

The names of losses, reconstructions and so on stand here once more, because importing the library's own tables
imports PyTorch, and a shell does not wait for that. A test compares the two.
"""

import functools
import inspect
import itertools
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from promask.errors import InputError

BUILT_IN = ("brain", "head", "cardiac", "cardiac+phase", "knee", "knee+phase", "cine", "cine+phase")
COLLECTIONS = ("acdc", "brats", "fastmri", "fastmri+")
ROTATIONS = ("radial", "spiral", "stack-of-stars", "kt-radial", "kt-spiral")
PATTERNS = ("1d", "2d", "3d", "kt", "kt-2d", *ROTATIONS)
TRAJECTORIES = ("radial", "spiral")
TASKS = ("reconstruction", "segmentation")
LOSSES = ("mse", "l1", "ssim", "psnr", "motion", "complex-mse", "complex-l1", "segmentation")
TEMPORAL = ("temporal-average", "view-sharing", "kt-sense", "kt-cs", "kt-tv", "l+s")
RECONSTRUCTIONS = (
    "zero-filled",
    "rss",
    "sense",
    "gridding",
    "cg-sense",
    "cs",
    "cs-tv",
    "partial-fourier",
    *TEMPORAL,
)
PRESETS = ("default", "paper")
TRAINING_PRESETS = ("default", "small")
STARTS = ("energy", "uniform")
ANNEALINGS = ("none", "cubic", "linear")
PARTS = ("train", "test", "all")
CONVENTIONS = ("paper", "fastmri")
FORMATS = ("npy", "mat", "bart", "png", "csv", "fastmri", "angles", "mri-nufft", "mrd")
PLANES = ("axial", "coronal", "sagittal")
KSPACES = ("acquired", "emulated")
CONTENTS = ("image", "kspace")
CONTRASTS = ("contrast",)
READOUTS = ("kx", "ky", "kz", "none")
DEVICES = ("cpu", "cuda")
REGULAR = ("equispaced", "regular", "caipi", "partial-fourier", "centre", "radial")
RANDOM = ("random", "gaussian", "variable-density", "poisson", "poisson-tuned", "bart-poisson")
FROM_DATA = ("energy", "igs", "greedy", "loupe")
AS_PUBLISHED = ("equispaced-paper", "gaussian-paper", "igs-paper")
OF_FRAMES = ("kt-lattice", "kt-golden", "static-variable-density", "static-energy", "equal-energy")
OF_SPOKES = ("uniform", "uniform-best", "golden", "tiny-golden", "raga")
BASELINES = (*REGULAR, *RANDOM, *FROM_DATA, *AS_PUBLISHED, *OF_FRAMES, *OF_SPOKES)

Completer = Callable[[str], list[str]]
"""From the beginning of a word to the values that it may become; with none, the shell completes files."""


def complete_from(names: Iterable[str], variants: Iterable[str] = (), files: bool = False) -> Completer:
    """Complete names, after a colon their variants, and with `files` also files that begin like a name.

    >>> complete_from(LOSSES)("c"), complete_from(BASELINES, variants=PATTERNS)("igs:1")
    (['complex-mse', 'complex-l1'], ['igs:1d'])
    """

    def complete(incomplete: str) -> list[str]:
        named, colon, last = incomplete.rpartition(":")
        if colon and named.partition(":")[0] in names:
            return [f"{named}:{variant}" for variant in variants if variant.startswith(last)]
        found = [name for name in names if name.startswith(incomplete)]
        return [*found, *list_paths(incomplete)] if found and files else found

    return complete


def list_paths(incomplete: str) -> list[str]:
    """Files and folders that begin so; folders end in a slash, and hidden ones are left out unless asked for."""
    folder, slash, start = incomplete.rpartition("/")
    try:
        found = sorted(Path(folder + slash or ".").expanduser().iterdir())
    except OSError:
        return []
    return [
        f"{folder}{slash}{path.name}{'/' if path.is_dir() else ''}"
        for path in found
        if path.name.startswith(start) and (start or not path.name.startswith("."))
    ]


def complete_data(incomplete: str) -> list[str]:
    """Built-in names, collections with the folders that they may lie in, and files.

    >>> complete_data("fast"), complete_data("kn")
    (['fastmri:', 'fastmri+:'], ['knee', 'knee+phase'])
    """
    kind, colon, place = incomplete.partition(":")
    if colon and kind in COLLECTIONS:
        return [f"{kind}:{path}" for path in list_paths(place) if path.endswith("/")]
    return complete_from((*BUILT_IN, *(f"{name}:" for name in COLLECTIONS)), files=True)(incomplete)


def complete_given(incomplete: str) -> list[str]:
    """Files and run folders after a name: `mine=`; before it, nothing."""
    name, equals, place = incomplete.partition("=")
    return [f"{name}={path}" for path in list_paths(place)] if equals else []


def complete_methods(incomplete: str) -> list[str]:
    """Methods with their variants, and masks that have a name.

    >>> complete_methods("igs:1")
    ['igs:1d']
    """
    names = complete_from(("promask", *BASELINES), (*PATTERNS, *LOSSES, *RECONSTRUCTIONS))
    return names(incomplete) or complete_given(incomplete)


complete_masks = complete_from(BASELINES, PATTERNS, files=True)


def option(
    metavar: str,
    text: str,
    default: str | bool = True,
    values: Iterable[str] | Completer | None = None,
    name: str | None = None,
    **more: Any,
) -> Any:
    """An option with a value.

    Args:
        metavar: Stands for the value in the help.
        text: What it is for.
        default: What the help shows as its default, where that is found elsewhere, such as in a preset.
        values: What a shell completes: names, or a function from the beginning of a word to values.
        name: The option, where it is not the name of the argument; several spellings have spaces between them.
        more: Whatever else `typer.Option` takes.
    """
    complete = values if callable(values) or values is None else complete_from(values)
    names = () if name is None else tuple(name.split())
    return typer.Option(*names, metavar=metavar, help=text, show_default=default, autocompletion=complete, **more)


def flag(name: str, text: str, **more: Any) -> Any:
    """An option without a value; `--a/--no-a` has an opposite."""
    return option("", text, name=name, **more)


def parse_axes(text: str | None) -> tuple[int | str, ...] | None:
    """The axes of `--axis 0,2` or `--axis ky`."""
    if text is None:
        return None
    words = [word.strip().lower() for word in text.split(",")]
    if not all(re.fullmatch(r"-?\d+|k?[xyz]", word) for word in words):
        raise InputError(f"The axes must be numbers or directions such as 1, 0,2 or ky, but are {text!r}.")
    return tuple(word if word[-1] in "xyz" else int(word) for word in words)


def parse_slices(text: str | None) -> tuple[int | None, int | None] | None:
    """The ends of `--slices 10:40`."""
    if text is None:
        return None
    try:
        first, end = (int(word) if word else None for word in text.split(":"))
    except ValueError as error:
        raise InputError(f"The slices must be first and end, such as 10:40 or 2:-2, but are {text!r}.") from error
    return first, end


DATA_HELP = (
    "brain, head, cardiac, knee, cine (the last three also as cardiac+phase, ...); a file: .npz, .npy, .mat, .h5, "
    ".nii, .nii.gz, .cfl, .mrd, .dat, .dcm; a folder of files, or a glob in quotes; several of these; or "
    "acdc:ROOT, brats:ROOT, fastmri:ROOT, fastmri+:ROOT."
)
ACCELERATION_HELP = "Acceleration factor, at least 1"
CENTRE_HELP = "Width of the fully sampled calibration region (ACS), counted in the number of samples."
ACS_SHAPES = ("block", "ellipse")
SHUTTERS = ("ellipse",)
SEED_HELP = "The same seed gives the same"
RECON_HELP = f"The reconstruction: {', '.join(RECONSTRUCTIONS)}. The last six are for frames."
FORMAT_HELP = f"File format: {', '.join(FORMATS)}."

Data = Annotated[
    list[str], typer.Argument(metavar="DATA...", help=DATA_HELP, show_default=False, autocompletion=complete_data)
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]
Axis = Annotated[
    Any,
    option(
        "AXES", "Undersampled directions, such as ky, 0 or 0,2.", "phase encoding, or last", callback=parse_axes
    ),
]
Shutter = Annotated[
    str | None, option("ellipse", "Never acquire the corners of k-space outside an ellipse.", "none", SHUTTERS)
]
AcsShape = Annotated[
    str | None, option("block|ellipse", "Shape of the calibration region (ACS).", "block", ACS_SHAPES)
]
PartialFourier = Annotated[
    list[str] | None,
    option(
        "ky=6/8",
        "Share of directions that is acquired, from the positive end.",
        "all",
    ),
]
LargestGap = Annotated[
    list[str] | None,
    option(
        "ky=4",
        "Largest distance of neighbouring samples along a direction.",
        "any",
    ),
]
EqualPer = Annotated[
    str | None,
    option(
        "kz|frame|frame=N|contrast|none",
        "The same number of samples for every kz (or ky), frame, N frames, or contrast; none: one total.",
        "frame with kt, otherwise none",
    ),
]
Period = Annotated[
    int | None, option("N", "Frames after which the pattern begins anew; they must divide all.", "all")
]
Cost = Annotated[
    list[str] | None,
    option("T1=1 FLAIR=2.5", "Seconds that a line of each contrast takes, with --per contrast.", "1 each"),
]
AllowReadout = Annotated[bool, flag("--allow-readout", "Allow a pattern that undersamples the readout.")]
Part = Annotated[
    str | None,
    option(
        "train|test|all",
        "The part of the data to use. By default, data that name their subjects are split into a training and a "
        "held-out part, and other data are used whole.",
        values=PARTS,
    ),
]
Convention = Annotated[
    str,
    option(
        "paper|fastmri",
        "How quality is measured: scaled by the range of each image (paper) or by the maximum of each volume "
        "(fastmri).",
        values=CONVENTIONS,
    ),
]
Recon = Annotated[str | None, option("NAME", RECON_HELP, "zero-filled", RECONSTRUCTIONS)]
Iterations = Annotated[int | None, option("N", "Iterations of the reconstruction.", "its own")]
Regularisation = Annotated[float | None, option("R", "Regularisation of the reconstruction.", "its own")]
DEVICE = option("NAME", "Device of PyTorch: cpu, cuda, ...", "cpu", DEVICES)
Device = Annotated[str, DEVICE]
SPOKES_HELP = "Number of spokes or interleaves (of each frame), instead of --accel."
Overwrite = Annotated[bool, flag("--overwrite", "Replace a finished run in this folder.")]
Json = Annotated[bool, flag("--json", "Print one JSON object instead of text.")]
Format = Annotated[str | None, option("FORMAT", FORMAT_HELP, "by the ending of FILE", FORMATS, "--to")]


def _reading(kind: Any, *arguments: Any, **more: Any) -> Any:
    return Annotated[kind, option(*arguments, **more, rich_help_panel="Reading files")]


AXES_HELP = (
    "Roles of the axes of an array in their order, such as 'slice coil ky kx': subject, slice, frame, contrast, "
    "coil, kx ky kz (k-space) or x y z (images), re/im (alternating parts), _ (length 1)."
)
READOUT_HELP = "Direction of the readout, which is not undersampled: kx, ky, kz or none."
EACH_FRAME_HELP = "Each frame of a series is an image of its own; all share one mask."
PER_HELP = "Each contrast (or echo) has a pattern of its own; one scan time is shared over them."
KSPACE_HELP = "K-space with its phase, or emulated from the magnitude as in the paper."
VOLUMES_HELP = "The samples are volumes with three axes; implied by --pattern 3d."
PLANE_HELP = "Slices of a NIfTI volume: axial, coronal or sagittal."
SELECT_HELP = "Read files of these parts in their names, T1w ses-01, or that fit a glob, '*_T1w.nii.gz'."
PHASE_HELP = "Simulate a smooth phase of each image, with this standard deviation."
TRAJECTORY_HELP = "Simulate a scan along spokes or spirals; implied by --pattern radial, spiral, ..."
CANDIDATES_HELP = "Spokes or interleaves to choose from, at equal steps of the angle."
NOISE_HELP = "Noise added to k-space, as a share of its largest magnitude."
READING: Mapping[str, Any] = {
    "volumes": _reading(bool, "", VOLUMES_HELP, name="--volumes"),
    "kspace": _reading(str | None, "acquired|emulated", KSPACE_HELP, "acquired", KSPACES),
    "array": _reading(str | None, "NAME", "The array of the file to read.", "image, kspace"),
    "holds": _reading(
        str | None, "image|kspace", "What the array holds, if its name does not tell.", values=CONTENTS
    ),
    "axes": _reading(str | None, "NAMES", AXES_HELP, "by the format, or asked for"),
    "readout": _reading(str | None, "DIRECTION", READOUT_HELP, "by the format", READOUTS),
    "each_frame": _reading(bool, "", EACH_FRAME_HELP, name="--each-frame"),
    "per": _reading(str | None, "contrast", PER_HELP, "contrasts share one", CONTRASTS),
    "plane": _reading(str | None, "PLANE", PLANE_HELP, "across the longest voxels", PLANES),
    "slices": _reading(str | None, "FIRST:END", "Slices, such as 10:40 or 2:-2.", "all", callback=parse_slices),
    "size": _reading(list[int] | None, "H W", "Crop or pad the images to this size.", False),
    "select": _reading(list[str] | None, "WORDS", SELECT_HELP, "all"),
    "skip_bad": _reading(bool, "", "Leave out what cannot be read, with a warning.", name="--skip-bad"),
    "coils": _reading(int | None, "N", "Simulate N receive coils around images of one channel."),
    "phase": _reading(float | None, "RADIANS", PHASE_HELP, "0"),
    "noise": _reading(float | None, "SHARE", NOISE_HELP, "0"),
    "trajectory": _reading(str | None, "radial|spiral", TRAJECTORY_HELP, "Cartesian", TRAJECTORIES),
    "candidates": _reading(int | None, "N", CANDIDATES_HELP, "the next multiple of 96 above a complete scan"),
    "maps": _reading(str | None, "FILE", "Coil sensitivities: .npy, .npz or .mat with `maps`, .cfl.", "in DATA"),
}
"""The settings of `Reading` as options."""


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that were used: one that was not is None, False or an empty list."""

    def was_used(value: Any) -> bool:
        return not (value is None or value is False or (isinstance(value, list | tuple) and not value))

    return {name: value for name, value in values.items() if was_used(value)}


def as_words(reading: Mapping[str, Any]) -> dict[str, str]:
    """Settings of reading as options of the command line, with their values quoted for a shell.

    >>> as_words({"axes": "slice ky kx", "skip_bad": True, "slices": (2, None)})
    {'--axes': "'slice ky kx'", '--skip-bad': '', '--slices': '2:'}
    """
    words = {}
    for name, value in reading.items():
        text = "" if value is True else str(value)
        if isinstance(value, tuple | list):
            joined = ":" if name == "slices" else " "
            text = joined.join("" if each is None else str(each) for each in value)
        words[f"--{name.replace('_', '-')}"] = (
            text if name in ("size", "slices") or not text else shlex.quote(text)
        )
    return words


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `READING` to a command.

    The command gets those of them that were used as `reading`, and what the parser knows of it as `context`,
    each if it takes an argument of that name.
    """
    signature = inspect.signature(command)

    @functools.wraps(command)
    def run(parser_context: Any, **values: Any) -> None:
        reading = given({name: values.pop(name) for name in READING})
        extra = {"reading": reading, "context": parser_context}
        command(**values, **{name: value for name, value in extra.items() if name in signature.parameters})

    kind = inspect.Parameter.KEYWORD_ONLY
    own = [each for each in signature.parameters.values() if each.name not in ("reading", "context")]
    added = [inspect.Parameter(name, kind, default=None, annotation=each) for name, each in READING.items()]
    context = inspect.Parameter("parser_context", kind, annotation=typer.Context)
    run.__dict__["__signature__"] = signature.replace(parameters=[*own, *added, context])
    return run


MULTIPLE: Mapping[tuple[str, str], str] = {
    ("", "--size"): r"\d+",
    ("", "--shape"): r"\d+",
    ("", "--select"): r"[^-].*",
    ("", "--partial-fourier"): r"\w+=[\d./]+",
    ("", "--largest-gap"): r"\w+=\d+",
    ("", "--cost"): r"[^-=][^=]*=[\d./]+",
    ("report", "--data"): r"[^-].*",
    ("figure", "--data"): r"[^-].*",
    ("compare", "--accel"): r"\d+\.?\d*|\.\d+",
    ("compare", "--spokes"): r"\d+",
    ("compare", "--methods"): r"[^-].*",
    ("report", "--beside"): r"(?!-).*=.*",
    ("segment", "--classes"): r"[^-].*",
}
"""Options of all commands or of one that take several values, and the pattern of a value."""
OF_FILES = ("--data", "--select")
"""Those of them whose values may have commas in them."""


def repeat_options(arguments: list[str]) -> list[str]:
    """`--size 256 256` or `256,256` as `--size 256 --size 256`, which is how the parser takes lists.

    >>> repeat_options(["export", "--shape=320", "320", "run"])
    ['export', '--shape', '320', '--shape', '320', 'run']
    >>> repeat_options(["compare", "brain", "--accel", "4,8.5", "16", "--seeds", "3"])
    ['compare', 'brain', '--accel', '4', '--accel', '8.5', '--accel', '16', '--seeds', '3']
    """
    command = next((word for word in arguments if not word.startswith("-")), "")
    multiple = {name: pattern for (owner, name), pattern in MULTIPLE.items() if owner in ("", command)}
    parts = (word.partition("=") for word in arguments)
    words = [
        [name, value] if name in multiple and equals else [name + equals + value] for name, equals, value in parts
    ]
    result: list[str] = []
    option, waiting = "", False
    for word in itertools.chain.from_iterable(words):
        values = [word] if option in OF_FILES else word.split(",")
        if option and all(re.fullmatch(multiple[option], value) for value in values):
            result += itertools.chain.from_iterable((option, value) for value in values)
            waiting = False
            continue
        result += [option] if waiting else []
        option, waiting = (word, True) if word in multiple else ("", False)
        result += [] if waiting else [word]
    return result + ([option] if waiting else [])
