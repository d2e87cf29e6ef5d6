"""What shells complete: asked as they ask, and in the shells themselves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from promask.cli import options as offers
from promask.cli.completion import SCRIPTS, VARIABLE, Asked, answer
from promask.cli.main import app, laid_out

BIN = str(Path(sys.executable).parent)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("scans", "my scans", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "kneecap.npy").touch()


def asking(line, shell="bash"):
    words = line.split(" ")
    return {VARIABLE: f"complete_{shell}", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}


def ends(line, shell="bash"):
    return answer(laid_out(typer.main.get_command(app)), asking(line, shell)).splitlines()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("promask st", ["stability", "studio"]),
        ("promask segment ", ["train"]),
        ("promask learn kn", ["knee", "knee+phase", "kneecap.npy"]),
        ("promask learn fast", ["fastmri:", "fastmri+:"]),
        ("promask learn sca", []),  # the shell knows files
        ("promask learn brain --out ", []),
        ("promask learn acdc : s", ["scans/"]),
        ("promask learn acdc :", ["my\\ scans/", "scans/"]),
        ("promask learn acdc:s", ["acdc:scans/"]),  # where : does not end a word
        ("promask learn --pattern ", ["1d", "2d", "3d"]),
        ("promask learn --pattern = 2", ["2d"]),
        ("promask learn --pattern=2", ["--pattern=2d"]),
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
        ("promask export a --to ", list(offers.FORMATS)),
        ("promask baseline eq", ["equispaced", "equispaced-paper"]),
        ("promask compare brain --methods promask lo", ["loupe"]),
        ("promask compare brain --methods promask : 1", ["1d"]),
        ("promask compare --accel 4 8 --methods igs energy --seeds 3 hea", ["head"]),
        ("promask compare --accel 4 8 hea", ["head"]),
        ("promask learn brain --accel 8 --me", ["--members"]),
        ("promask learn brain --members 2 --me", []),
        ("promask --show-completion ", ["bash", "zsh", "fish"]),
        ("promask nothing ", []),
    ],
)
def test_words(folder, line, expected):
    found = ends(line)
    assert found == expected or (expected == [] and found == ["--help"])


def test_where_everything_is_said_options_are_offered():
    found = ends("promask learn brain --accel 8 ")
    assert {"--out", "--pattern", "--coils", "--help"} <= set(found)
    assert "--accel" not in found
    assert "-h" not in found


def test_zsh_and_fish_are_told_what_words_do():
    assert "learn\tLearn a mask from data." in ends("promask ", "zsh")
    assert "--json\tPrint one JSON object instead of text." in ends("promask evaluate a brain --j", "fish")
    assert ends("promask learn kn", "fish") == ["knee", "knee+phase"]


def test_quotes_and_spaces():
    asked = Asked.by({"COMP_WORDS": "promask\nlearn\n'my sc", "COMP_CWORD": "2"})
    assert (asked.words, asked.incomplete) == (["learn"], "my sc")
    assert Asked.by({"COMP_WORDS": "promask\nlearn\nmy\\ sc\nx", "COMP_CWORD": "2"}).incomplete == "my sc"
    assert Asked.by({"COMP_WORDS": "promask", "COMP_CWORD": "1"}).incomplete == ""


def test_the_names_are_those_of_the_library():
    from promask import baselines, export, recon
    from promask import losses as tasks
    from promask.data import sources as data
    from promask.data.sample_sets import OTHER_PART
    from promask.evaluation import conventions
    from promask.learning import config
    from promask.sampling import pattern as patterns
    from promask.sampling import schedules
    from promask.segmentation import fit as recipe

    assert {name.removesuffix("+phase") for name in offers.BUILT_IN} == set(data.BUILT_IN)
    assert set(offers.COLLECTIONS) == set(data.COLLECTIONS)
    assert set(offers.PATTERNS) == set(patterns.FREE_AXES)
    assert set(offers.LOSSES) == {*tasks.LOSSES, *tasks.COMPLEX_LOSSES, tasks.SEGMENTATION}
    assert set(offers.RECONSTRUCTIONS) == set(recon.RECONSTRUCTIONS)
    assert set(offers.PRESETS) == set(config.PRESETS)
    assert set(offers.TRAINING_PRESETS) == set(recipe.PRESETS)
    assert set(offers.ANNEALINGS) == {"none", *schedules.ANNEALING_POWER}
    assert set(offers.PARTS) == set(OTHER_PART)
    assert set(offers.CONVENTIONS) == set(conventions.CONVENTIONS)
    assert set(offers.FORMATS) == set(export.FORMATS)
    assert set(offers.BASELINES) == set(baselines.BASELINES)
    assert set(offers.SHELLS) == set(SCRIPTS)


def in_shell(shell, text):
    if shutil.which(shell) is None:
        pytest.skip(f"There is no {shell} on this machine.")
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run([shell, *options, "-c", text], capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    return done.stdout.splitlines()


BASH = """
eval "$(promask --show-completion bash)"
complete -p promask
compopt() { echo "compopt $*"; }
for line in "learn kn" "learn acdc : sc" "export sca"; do
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
        "compopt -o nospace",
        "learn acdc : sc: scans/",
        "export sca: ",
    ]


ZSH = """
compdef() { registered=$2; }
compadd() { echo compadd $argv; local name=$argv[-1]; print -l -- ${(P)name}; }
_files() { echo files; }
eval "$(promask --show-completion zsh)"
echo $registered
for line in "learn kn" "learn acdc:sc" "export sca"; do
    words=(promask ${=line}); CURRENT=$#words
    _promask_completion
done
"""


def test_in_zsh(folder):
    assert in_shell("zsh", ZSH) == [
        "promask",
        *("compadd -d shown -a closed", "knee", "knee+phase", "kneecap.npy"),
        *("compadd -S -a open", "acdc:scans/"),
        "files",
    ]


def test_in_fish(folder):
    text = "promask --show-completion fish | source\n"
    text += "\n".join(f"complete -C 'promask {line}'" for line in ("learn kn", "learn acdc:sc", "export sca"))
    assert in_shell("fish", text) == ["knee", "knee+phase", "kneecap.npy", "acdc:scans/", "scans/"]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_scripts_are_shown_and_installed(commands, tmp_path, monkeypatch, shell):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert commands("--show-completion", shell) == SCRIPTS[shell]
    for start in (".bashrc", ".zshrc"):
        (tmp_path / start).write_text("mine\n")
    said = commands("--install-completion", shell)
    (place,) = (path for path in tmp_path.rglob("*promask*") if path.is_file())
    assert str(place) in said
    assert place.read_text() == SCRIPTS[shell]
    starts = [(tmp_path / name).read_text() for name in (".bashrc", ".zshrc")]
    assert all(text.startswith("mine\n") for text in starts)
    assert sum("completions" in text or "compinit" in text for text in starts) == (shell != "fish")
    commands("--install-completion", shell)
    assert [(tmp_path / name).read_text() for name in (".bashrc", ".zshrc")] == starts, "once is enough"


def test_the_shell_in_use_is_found(commands, monkeypatch):
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("zsh", "/bin/zsh"))
    assert commands("--show-completion") == SCRIPTS["zsh"]
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("make", "/usr/bin/make"))
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert commands("--show-completion") == SCRIPTS["fish"]
    monkeypatch.setenv("SHELL", "/bin/ash")
    assert "must be one of bash, zsh, fish, but is 'ash'" in commands("--show-completion", status=2)
