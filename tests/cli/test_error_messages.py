"""Mistakes in a command line get one sentence on standard error and exit status 2, in every command."""

import re
import warnings

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from promask.cli.main import app, lay_out_help, main
from promask.cli.terminal import ALIASES, find_command, translate_arguments
from promask.errors import InputError, InputWarning

PARSER = lay_out_help(typer.main.get_command(app))


def leaves(command, *path):
    within = getattr(command, "commands", {})
    for name, each in within.items():
        yield from leaves(each, *path, name)
    if not within:
        yield path, command


COMMANDS = dict(leaves(PARSER))
GROUPS = [(), *((name,) for name, each in PARSER.commands.items() if hasattr(each, "commands"))]


def options(command, *kinds):
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.is_flag:
            kind = parameter.type_descriptor.annotation
            if not kinds or kind in kinds or any(kind == list[each] for each in kinds):
                yield parameter.opts[0]


NUMBERS = [(path, name) for path, command in COMMANDS.items() for name in options(command, int, float)]
NEEDED = [
    (path, [each for each in command.params if each.required])
    for path, command in COMMANDS.items()
    if any(each.required for each in command.params)
]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_unknown_options(commands, path):
    error = commands(*path, "--hepl", status=2)
    assert error == f"promask: No such option: --hepl. Did you mean --help? See promask {' '.join(path)} --help.\n"
    assert "Did you mean" not in commands(*path, "--xyzzy", status=2)


@pytest.mark.parametrize(("path", "needed"), NEEDED, ids=[" ".join(path) for path, _ in NEEDED])
def test_missing_words(commands, path, needed):
    error = commands(*path, status=2)
    assert error.startswith("promask: Missing ")
    assert any(each.display_name_raw in error or each.opts[0] in error for each in needed)
    assert error.endswith(f" See promask {' '.join(path)} --help.\n")


@pytest.mark.parametrize("path", [path for path in COMMANDS if [*options(COMMANDS[path])]], ids=" ".join)
def test_options_without_their_value(commands, path):
    *_, name = options(COMMANDS[path])
    assert f"'{name}' requires an argument" in commands(*path, name, status=2)


@pytest.mark.parametrize(
    ("path", "name"), NUMBERS, ids=lambda value: " ".join(value) if value[0] != "-" else value
)
def test_values_that_are_not_numbers(commands, path, name):
    needed = [each for each in COMMANDS[path].params if each.required]
    words = ["x" for each in needed if each.param_type_name == "argument"]
    for each in needed:
        if each.param_type_name == "option" and each.opts[0] != name:
            words += [each.opts[0], "8"]
    error = commands(*path, *words, name, "many", status=2)
    assert re.search(rf"Invalid value for '{name}'( / '--\w+')?: 'many' is not a", error)
    assert "number." in error


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_unknown_commands(commands, path):
    group = PARSER.commands[path[0]] if path else PARSER
    name = next(iter(group.commands))
    error = commands(*path, f"{name}x", status=2)
    assert f"No such command '{name}x'. Did you mean '{name}'" in error
    assert error.endswith(f"? See {' '.join(('promask', *path))} --help.\n")
    assert "Did you mean" not in commands(*path, "xyzzy", status=2)


def test_a_group_alone(commands):
    assert "Missing command. See promask segment --help." in commands("segment", status=2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("export a b c --out d", "Got unexpected extra argument(s) (b c). See promask export --help."),
        ("learn brain --json=3 --out a", "Option '--json' does not take a value."),
        ("export a --shape 320 x --out b", "Got unexpected extra argument(s) (x)."),
        ("learn brain --steps=few --out a", "Invalid value for '--steps': 'few' is not a whole number."),
        ("--show-completion ksh", "'ksh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_other_mistakes(commands, words, message):
    assert message in commands(*words.split(), status=2)


EXPECTED = {
    "learn": {"acceleration": "--accel", "skip_bad": "--skip-bad", "size": "--size", "data": "DATA"},
    "compare": {"acceleration": "--accel", "accelerations": "--accel", "jobs": "--jobs", "network": "--network"},
    "baseline": {"acceleration": "--accel", "centre": "--centre", "format": "--to"},
    "report": {"data": "--data", "network": "--network", "run": "RUN", "sensitivities": "--maps"},
    "export": {"shape": "--shape", "format": "--to", "mask": "RUN"},
    "segment train": {"classes": "--classes", "data": "DATA"},
    "figure reconstructions": {"acceleration": "--accel", "masks": "MASKS"},
}


@pytest.mark.parametrize("line", EXPECTED)
def test_arguments_are_translated_into_options(line):
    command = find_command(PARSER, [*line.split(), "brain", "--accel", "8"])
    for argument, word in EXPECTED[line].items():
        assert translate_arguments(f"Give `{argument}` 8, or not.", command) == f"Give {word} 8, or not."


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_is_translated_from_its_argument(path):
    command = COMMANDS[path]
    for parameter in command.params:
        word = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar.rstrip(".")
        assert translate_arguments(f"`{parameter.name}`", command) == word
        option = f"--{parameter.name}".replace("_", "-")
        assert word in (option, "--accel", "--json") or word.isupper(), "named as in Python, or shorter"


@given(text=st.text("`abz_ .-") | st.text(), path=st.sampled_from(sorted(COMMANDS)))
def test_nothing_else_changes(text, path):
    names = {parameter.name for parameter in COMMANDS[path].params} | set(ALIASES)
    expected_to_stay = not names.intersection(re.findall(r"`(\w+)`", text))
    changed = translate_arguments(text, COMMANDS[path]) != text
    assert not (changed and expected_to_stay)
    assert translate_arguments(text.replace("`", ""), COMMANDS[path]) == text.replace("`", "")


def test_words_that_are_no_arguments_of_the_command_stay():
    text = "`size` 256 256, `members`, `numpy.fft.fftshift`, `x`, size and `not closed"
    assert translate_arguments(text, COMMANDS[("evaluate",)]) == f"--size 256 256{text[14:]}"


def test_errors_and_warnings_of_the_library_are_translated(images, capsys, monkeypatch):
    def warn_and_fail(*_, **__):
        warnings.warn("Read as an image; see `holds`.", InputWarning, stacklevel=1)
        raise InputError("Images of two sizes: crop them with `size` 8 8, or leave some out with `skip_bad`.")

    monkeypatch.setattr("promask.data.sources.load", warn_and_fail)
    with pytest.raises(SystemExit) as stop:
        main(["baseline", "energy", "brain", "--accel", "4", "--out", "a.npy"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.splitlines() == [
        "promask: Read as an image; see --holds.",
        "promask: Images of two sizes: crop them with --size 8 8, or leave some out with --skip-bad.",
    ]


def test_arrays_of_files_are_not_taken_for_options(commands):
    np.savez("texts.npz", a=np.array("x"), b=np.array("y"))
    said = commands("baseline", "energy", "texts.npz", "--accel", 2, "--out", "a.npy", status=2)
    assert "holds neither 'image' nor 'kspace', but a, b" in said
