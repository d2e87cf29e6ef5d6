"""The code blocks of the documentation are run, and the outputs that it shows are compared with the real ones."""

import doctest
import functools
import importlib
import math
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.exceptions import TyperException

import promask
from promask.cli.main import app
from promask.cli.main import main as command_line
from promask.cli.options import repeat_options

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {page.relative_to(ROOT).as_posix(): page for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]}
TUTORIALS = [name for name in PAGES if name == "docs/guide.md" or name.startswith("docs/howto/")]
"""Pages whose shell commands are run; on all others, the command line must understand them."""
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem != "joint_reconstruction"]
"""The other one is run, with fewer steps, where its result is looked at: in tests/nn/test_nn.py."""
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
TIME_LIMIT = 120
"""Seconds for a block of shell commands."""


def blocks(page, *languages):
    return [(language, text) for language, text in BLOCK.findall(page.read_text()) if language in languages]


def count_examples():
    """For each module whose docstrings have examples, how many lines of Python they have."""
    package = Path(promask.__file__).parent
    counts = {}
    for path in sorted(package.rglob("*.py")):
        module = ".".join(["promask", *path.relative_to(package).with_suffix("").parts]).removesuffix(".__init__")
        if count := len(re.findall(r"^ *>>> ", path.read_text(), flags=re.MULTILINE)):
            counts[module] = count
    return counts


MODULES = count_examples()


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    """All of them are found and run."""
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert (result.failed, result.attempted) == (0, MODULES[name])


PYTHON_PAGES = [name for name, page in PAGES.items() if name not in TUTORIALS and blocks(page, "python")]


@pytest.mark.parametrize("name", PYTHON_PAGES)
def test_python_blocks(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for _, block in blocks(PAGES[name], "python"):
        exec(compile(block, name, "exec"), scope)


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorials(name, tmp_path, monkeypatch, capsys, undrawn, request):
    """All blocks of a page in their order, in one folder; a text block is what the commands before it print.

    Figures of reports are not drawn: tests of reports look at them. Where no table of masks is shown, runs are
    compared with few.
    """
    if not any("equispaced" in text for _, text in blocks(PAGES[name], "text")):
        request.getfixturevalue("few_references")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    scope, printed = {}, ""
    assert blocks(PAGES[name], "python", "sh"), "a tutorial has something to run"
    for language, block in blocks(PAGES[name], "python", "sh", "text"):
        if language == "python":
            exec(compile(block, name, "exec"), scope)
        elif language == "sh":
            capsys.readouterr()
            printed = run_in_shell(block) or capsys.readouterr().out
        else:
            assert is_shown(block, printed), f"{name} shows\n{block}\nbut the command printed\n{printed}"


def run_in_shell(block):
    """Run commands; return what they print, unless they are promask alone, which is run here and prints here."""
    lines = [shlex.split(line, comments=True) for line in joined(block)]
    if "$" in block or any(line[0] != "promask" for line in lines if line):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], capture_output=True, text=True, timeout=TIME_LIMIT
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        return done.stdout
    for line in filter(None, lines):
        with pytest.raises(SystemExit) as stop:
            command_line(line[1:])
        assert stop.value.code == 0, shlex.join(line)
    return None


def joined(block):
    """The lines of a block, those that end in a backslash together with the next."""
    return block.replace("\\\n", " ").splitlines()


def is_shown(block, printed):
    """Whether the block is a part of what was printed: the same words, and the same numbers but for rounding."""
    shown, words = block.split(), printed.split()
    starts = range(len(words) - len(shown) + 1)
    return any(all(map(is_like, shown, words[start:], [*shown[1:], ""])) for start in starts)


def is_like(shown, word, following):
    """Decimal numbers may differ by 1 % or by two in the last place, and seconds by any amount."""
    same_but_numbers = NUMBER.sub("", shown) == NUMBER.sub("", word)
    if not same_but_numbers or "." not in shown:
        return shown == word
    last_place = 10.0 ** -len(re.search(r"\.(\d*)", shown)[1])
    pairs = zip(*(map(float, NUMBER.findall(text)) for text in (shown, word)), strict=True)
    is_close = all(math.isclose(*pair, rel_tol=0.01, abs_tol=2.01 * last_place) for pair in pairs)
    return is_close or following in ("s", "s,")


def test_different_outputs_are_detected():
    printed = "mask PSNR\nlearned 31.82\nof 50 images in 1.8 s, done"
    assert is_shown("learned 31.83\nof 50 images in 2.5 s,", printed)
    assert not is_shown("learned 30.82", printed)
    assert not is_shown("learned 31.82 of 51 images", printed)
    assert not is_shown("of 50 slices", printed)


def commands_of(page):
    """The lines of a page that call promask, as words; variables of the shell stand for what they were set to."""
    variables = {"SLURM_ARRAY_TASK_ID": "0"}
    for _, block in blocks(page, "sh"):
        for line in joined(block):
            if assigned := re.fullmatch(r'(\w+)="(.*)"', line):
                variables[assigned[1]] = assigned[2]
            for variable, value in variables.items():
                line = line.replace(f"${variable}", value)
            words = shlex.split(line, comments=True)
            if words[:1] == ["promask"]:
                yield words[1:]
    for line in re.findall(r"`(promask [^`]*)`", page.read_text()):
        words = shlex.split(line)
        if "--out" in words:  # a whole command, and not its name with an option to talk of
            yield words[1:]


@functools.cache
def parser():
    return typer.main.get_command(app)


def understand(words):
    """Parse a line as `promask` would, without running it."""
    command = parser()
    name, *words = repeat_options(words)
    if name in [option for parameter in command.params for option in parameter.opts]:
        return
    command = command.commands[name]
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)


COMMAND_PAGES = [name for name, page in PAGES.items() if any(commands_of(page))]


@pytest.mark.parametrize("name", COMMAND_PAGES)
def test_the_command_line_understands(name):
    for words in commands_of(PAGES[name]):
        try:
            understand(words)
        except (KeyError, TyperException) as error:
            pytest.fail(f"promask {shlex.join(words)}: {error}")


@pytest.mark.parametrize(
    "line",
    [
        "learn brain --accel 8 --out run --no-such-option",
        "learn brain --accel many --out run",
        "export run --shape 320 wide --out run",
        "learn --accel 8 --out run",
        "learn brain --accel 8",
        "no-such-command",
        "--no-such-option",
        "segment no-such-command",
        "segment train cardiac",
    ],
)
def test_the_command_line_does_not_understand(line):
    with pytest.raises((KeyError, TyperException)):
        understand(line.split())


def test_commands_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "Say `promask learn\nbrain --accel 8 --out run`, not `promask cache`.\n\n"
        '```sh\nNAMES="a b"\npromask one $NAMES \\\n  --two 3  # four\nls\n```\n'
    )
    assert list(map(shlex.join, commands_of(page))) == ["one a b --two 3", "learn brain --accel 8 --out run"]


def links_of(page):
    """The files that a page links to."""
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    return [target for target in targets if not target.startswith("http")]


LINKED_PAGES = [name for name, page in PAGES.items() if links_of(page)]


@pytest.mark.parametrize("name", LINKED_PAGES)
def test_links_lead_somewhere(name):
    for target in links_of(PAGES[name]):
        assert (PAGES[name].parent / target).exists(), target


@pytest.mark.parametrize(
    ("found", "known"),
    [
        (MODULES, {"promask", "promask.nn", "promask.sampling.pattern"}),
        (TUTORIALS, {"docs/guide.md", "docs/howto/own_data.md"}),
        (PYTHON_PAGES, {"README.md", "docs/method.md", "docs/reconstructions.md"}),
        (COMMAND_PAGES, {"README.md", "docs/guide.md", "docs/results.md"}),
        (LINKED_PAGES, {"README.md", "docs/index.md", "docs/results.md"}),
        ([script.name for script in EXAMPLES], {"own_images.py", "own_loss.py"}),
    ],
    ids=["modules", "tutorials", "python", "commands", "links", "examples"],
)
def test_what_is_to_be_checked_is_found(found, known):
    assert known <= set(found)


def test_the_method_lives_where_it_says():
    """Files are below src/promask, or in the benchmarks and the tests; "`name` in `file.py`" is in that file."""
    text = PAGES["docs/method.md"].read_text()
    places = [ROOT, ROOT / "src" / "promask"]
    files = set(re.findall(r"`([\w/]+\.py|\w+/)`", text))
    assert len(files) > 10
    for file in files:
        assert any((place / file).exists() for place in places), file
    named = re.findall(r"`([\w.]+)` in `([\w/]+)\.py`", text)
    assert len(named) > 10
    for name, file in named:
        found = importlib.import_module(f"promask.{file.replace('/', '.')}")
        for part in name.split("."):
            found = getattr(found, part)
        assert found.__module__ == f"promask.{file.replace('/', '.')}", f"{name} comes from {found.__module__}"


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.name)
def test_examples(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
