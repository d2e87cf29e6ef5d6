"""What shells complete: Typer's completion with our values, asked as shells ask, and in the shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from promask.cli import options
from promask.cli.main import SHELLS

BIN = str(Path(sys.executable).parent)
VARIABLE = "_PROMASK_COMPLETE"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("promask st", ["stability", "studio"]),
        ("promask segment ", ["train"]),
        ("promask learn kn", ["knee", "knee+phase", "kneecap.npy"]),
        ("promask learn fast", ["fastmri:", "fastmri+:"]),
        ("promask learn acdc:s", ["acdc:scans/"]),
        ("promask learn --pattern k", ["kt", "kt-2d", "kt-radial", "kt-spiral"]),
        ("promask learn --pattern=2", ["2d"]),
        ("promask learn --loss s", ["ssim", "segmentation"]),
        ("promask learn brain --recon cs", ["cs", "cs-tv"]),
        ("promask learn brain --preset ", ["default", "paper"]),
        ("promask segment train cardiac --preset ", ["default", "small"]),
        ("promask learn brain --task ", ["reconstruction", "segmentation"]),
        ("promask learn brain --part t", ["train", "test"]),
        ("promask learn brain --annealing ", ["none", "cubic", "linear"]),
        ("promask learn brain --init e", ["energy"]),
        ("promask evaluate runs/a brain --convention ", ["paper", "fastmri"]),
        ("promask evaluate runs/a hea", ["head"]),
        ("promask export a --to ", list(options.FORMATS)),
        ("promask baseline eq", ["equispaced", "equispaced-paper", "equal-energy"]),
        ("promask compare brain --methods lo", ["loupe"]),
        ("promask compare brain --methods promask --methods igs:2d:ss", ["igs:2d:ssim"]),
        ("promask compare brain --methods promask --methods mine=kn", ["mine=kneecap.npy"]),
        ("promask report runs/a --beside mine=s", ["mine=scans/"]),
        ("promask figure reconstructions a poi", ["poisson", "poisson-tuned"]),
        ("promask learn brain --accel 8 --me", ["--members"]),
        ("promask --show-completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_words(folder, complete, line, expected):
    assert complete(line) == expected


@pytest.mark.parametrize("line", ["promask learn sca", "promask learn brain --out ", "promask export sca"])
def test_files_are_left_to_the_shell(folder, complete, line):
    assert complete(line) == [""]


def test_options_are_completed_with_what_they_do(complete):
    assert {"--out", "--accel", "--coils", "--help"} <= set(complete("promask learn brain --"))
    assert any(line.startswith("learn\tLearn a mask from data.") for line in complete("promask ", "fish"))
    assert complete("promask evaluate a brain --j", "fish") == ["--json\tPrint one JSON object instead of text."]
    assert complete("promask learn --loss s", "zsh") == ['_arguments \'*: :(("ssim"', '"segmentation"))\'']


def test_the_names_are_those_of_the_library():
    from promask import baselines, export, recon
    from promask import losses as tasks
    from promask.data import reading
    from promask.data import sources as data
    from promask.data.sample_sets import OTHER_PART
    from promask.evaluation import conventions
    from promask.learning import config
    from promask.operators import trajectory
    from promask.sampling import free_axes, schedules
    from promask.segmentation import fit as recipe

    assert {name.removesuffix("+phase") for name in options.BUILT_IN} == set(data.BUILT_IN)
    assert set(options.COLLECTIONS) == set(data.COLLECTIONS)
    assert set(options.PATTERNS) == set(free_axes.PATTERNS)
    assert set(options.TRAJECTORIES) == set(trajectory.KINDS)
    assert set(options.TASKS) == set(config.TASKS)
    assert set(options.LOSSES) == {*tasks.LOSSES, *tasks.SERIES_LOSSES, *tasks.COMPLEX_LOSSES, tasks.SEGMENTATION}
    assert set(options.RECONSTRUCTIONS) == set(recon.RECONSTRUCTIONS)
    assert set(options.PRESETS) == set(config.PRESETS)
    assert set(options.TRAINING_PRESETS) == set(recipe.PRESETS)
    assert set(options.ANNEALINGS) == {"none", *schedules.ANNEALING_POWER}
    assert set(options.PARTS) == set(OTHER_PART)
    assert set(options.CONVENTIONS) == set(conventions.CONVENTIONS)
    assert set(options.FORMATS) == set(export.FORMATS)
    assert set(options.BASELINES) == set(baselines.BASELINES)
    assert set(options.PLANES) == set(reading.PLANES)
    assert set(options.KSPACES) == set(reading.KSPACE)
    assert set(options.CONTENTS) == set(reading.CONTENTS)


def in_shell(shell, text):
    if shutil.which(shell) is None:
        pytest.skip(f"There is no {shell} on this machine.")
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run([shell, *flags, "-c", text], capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    return done.stdout.splitlines()


BASH = """
eval "$(promask --show-completion bash)"
complete -p promask
for line in "learn kn" "learn brain --recon cs" "export sca"; do
    COMP_WORDS=(promask $line)
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    _promask_completion promask
    echo "$line: ${COMPREPLY[*]}"
done
"""


def test_in_bash(folder):
    assert in_shell("bash", BASH) == [
        "complete -o default -F _promask_completion promask",
        "learn kn: knee knee+phase kneecap.npy",
        "learn brain --recon cs: cs cs-tv",
        "export sca: ",
    ]


ZSH = """
compdef() { registered=$2; }
_arguments() { print -r -- $argv; }
_files() { echo files; }
eval "$(promask --show-completion zsh)"
echo $registered
for line in "learn brain --recon cs" "export sca"; do
    words=(promask ${=line}); CURRENT=$#words
    _promask_completion
done
"""


def test_in_zsh(folder):
    assert in_shell("zsh", ZSH) == ["promask", '*: :(("cs" "cs-tv"))', "files"]


def test_in_fish(folder):
    text = "promask --show-completion fish | source\n"
    text += "\n".join(f"complete -C 'promask {line}'" for line in ("learn kn", "export sca"))
    assert in_shell("fish", text) == ["knee", "knee+phase", "kneecap.npy", "scans/"]


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_are_shown_and_installed(commands, tmp_path, monkeypatch, shell):
    monkeypatch.setenv("HOME", str(tmp_path))
    script = commands("--show-completion", shell)
    assert f"{VARIABLE}=complete_{shell}" in script
    for start in (".bashrc", ".zshrc"):
        (tmp_path / start).write_text("mine\n")
    said = commands("--install-completion", shell)
    (place,) = (path for path in tmp_path.rglob("*promask*") if path.is_file())
    assert str(place) in said
    assert place.read_text().strip() == script.strip()
    starts = [(tmp_path / name).read_text() for name in (".bashrc", ".zshrc")]
    assert all(text.startswith("mine\n") for text in starts)
    assert sum("completions" in text or "compinit" in text for text in starts) == (shell != "fish")
    commands("--install-completion", shell)
    again = [(tmp_path / name).read_text() for name in (".bashrc", ".zshrc")]
    assert [text.split() for text in again] == [text.split() for text in starts], "once is enough"


def test_the_shell_in_use_is_found(commands, monkeypatch):
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("zsh", "/bin/zsh"))
    assert commands("--show-completion") == commands("--show-completion", "zsh")
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("make", "/usr/bin/make"))
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert commands("--show-completion") == commands("--show-completion", "fish")
    monkeypatch.setenv("SHELL", "/bin/ash")
    assert "'ash' is not one of 'bash', 'zsh', 'fish'" in commands("--show-completion", status=2)
