"""What a shell is told when it asks for the ends of a word, and the words that it asks with.

A shell sets `_PROMASK_COMPLETE` to `complete_bash`, `complete_zsh` or `complete_fish`, `COMP_WORDS` to the words
that are typed, one on each line, and `COMP_CWORD` to the number of the word under the cursor.

The scripts by which bash, zsh and fish ask promask how a word may end, and where they are put.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from promask.cli.options import options_of_several
from promask.errors import InputError

VARIABLE = "_PROMASK_COMPLETE"
BREAKS = (":", "=")
"""Where bash ends a word, and hands the sign over as one of its own."""


@dataclass(frozen=True)
class Asked:
    """The complete words after the name of the program, the word that is not, and what of it the shell keeps."""

    words: Sequence[str]
    incomplete: str
    kept: str = ""

    @classmethod
    def by(cls, environment: Mapping[str, str]) -> "Asked":
        """What a shell asks."""
        typed = environment.get("COMP_WORDS", "").split("\n")
        number = int(environment.get("COMP_CWORD") or len(typed) - 1)
        typed = [*typed[:number], typed[number] if number < len(typed) else ""]
        words: list[str] = []
        kept = ""
        glued = False
        for word in typed[1:]:
            is_break = word in BREAKS and bool(words)
            if glued or is_break:
                kept = words[-1] + word if is_break else words[-1]
                words[-1] += word
            else:
                kept = ""
                words.append(word)
            glued = is_break
        *before, last = map(_unquoted, words or [""])
        return cls(before, last, _unquoted(kept))


def answer(command: Any, environment: Mapping[str, str]) -> str:
    """The lines for the shell: the words that may be meant, and for zsh and fish what they do after a tab."""
    shell = environment[VARIABLE].removeprefix("complete_")
    asked = Asked.by(environment)
    lines = []
    for value, about in offered(command, asked):
        if shell == "bash":
            lines.append(re.sub(r"([^\w@%+=:,./~-])", r"\\\1", value.removeprefix(asked.kept)))
        else:
            lines.append(f"{value}\t{about}" if about else value)
    return "".join(f"{line}\n" for line in lines)


def offered(command: Any, asked: Asked) -> Iterator[tuple[str, str]]:
    """The words that may be meant, each with what it does."""
    place = _Place(command)
    for word in asked.words:
        place.pass_by(word)
    word = asked.incomplete
    option, equals, begun = word.partition("=")
    if word.startswith("-") and equals:
        wanted = place.options().get(option)
        yield from ((f"{option}={value}", "") for value in _values(wanted, begun))
    elif place.wanting is not None:
        yield from ((value, "") for value in _values(place.wanting, word))
    elif word.startswith("-"):
        yield from place.unused(word)
    elif place.commands():
        for name, each in place.commands().items():
            if name.startswith(word) and not each.hidden:
                yield name, _first_sentence(each.help)
    else:
        values = [*_values(place.open, word)] or [*_values(place.argument(), word)]
        yield from ((value, "") for value in values)
        if not values and not word and place.argument() is None:
            yield from place.unused("")


class _Place:
    """Where in a line the cursor is: of which command, and what it wants next."""

    def __init__(self, command: Any) -> None:
        self.command = command
        self.path: list[str] = []
        self.used: set[str] = set()
        self.wanting: Any = None  # the option that must have a value
        self.open: Any = None  # the option that may have another one
        self.arguments = 0

    def commands(self) -> dict[str, Any]:
        return getattr(self.command, "commands", {})

    def options(self) -> dict[str, Any]:
        options = (each for each in self.command.params if each.param_type_name == "option" and not each.hidden)
        return {name: option for option in options for name in option.opts}

    def argument(self) -> Any:
        arguments = [each for each in self.command.params if each.param_type_name == "argument"]
        open_end = arguments[-1] if arguments and arguments[-1].nargs == -1 else None
        return arguments[self.arguments] if self.arguments < len(arguments) else open_end

    def unused(self, begun: str) -> Iterator[tuple[str, str]]:
        for name, option in self.options().items():
            if name.startswith(begun if begun != "-" else "--") and name not in self.used:
                yield name, _first_sentence(option.help)
        if "--help".startswith(begun):
            yield "--help", "Show how a command is used."

    def pass_by(self, word: str) -> None:
        several = options_of_several(self.path[0] if self.path else "")
        if self.wanting is not None:
            self.open = self.wanting if any(name in several for name in self.wanting.opts) else None
            self.wanting = None
        elif word.startswith("-"):
            name, equals, _ = word.partition("=")
            option = self.options().get(name)
            takes_value = option is not None and not option.is_flag
            self.wanting = option if takes_value and not equals else None
            self.open = option if takes_value and equals and name in several else None
            self.used |= {name} - several.keys()
        elif self.commands():
            self.command = self.commands().get(word, typer.core.TyperCommand(word))
            self.path.append(word)
        elif self.open is None or not any(several[name](word) for name in self.open.opts if name in several):
            self.open = None
            self.arguments += 1


def _values(parameter: Any, begun: str) -> list[str]:
    if parameter is None:
        return []
    found = parameter.shell_complete(typer.Context(typer.core.TyperCommand("promask")), begun)
    return [item.value for item in found if item.type == "plain"]


def _first_sentence(text: str | None) -> str:
    return re.split(r"(?<=[.:;])\s", " ".join((text or "").split()), maxsplit=1)[0].rstrip(":;")


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word, comments=False))
    except ValueError:  # a quote that is still open
        return word.replace("\\", "").replace('"', "").replace("'", "")


BASH = """\
_promask_completion() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(IFS=$'\\n'; env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" \\
        _PROMASK_COMPLETE=complete_bash "$1")
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}

complete -o default -F _promask_completion promask
"""
ZSH = """\
#compdef promask

_promask_completion() {
    local -a closed shown open
    local value about
    while IFS=$'\\t' read -r value about; do
        if [[ $value == *[/:] ]]; then
            open+=("$value")
        else
            closed+=("$value")
            shown+=("$value${about:+  -- $about}")
        fi
    done < <(env COMP_WORDS="${(F)words[1,CURRENT]}" COMP_CWORD=$((CURRENT - 1)) \\
        _PROMASK_COMPLETE=complete_zsh ${~words[1]})
    if (( ! $#closed && ! $#open )); then
        _files
        return
    fi
    (( $#closed )) && compadd -d shown -a closed
    (( $#open )) && compadd -S '' -a open
    return 0
}

if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
    _promask_completion "$@"
else
    compdef _promask_completion promask
fi
"""
FISH = """\
function _promask_completion
    set -l before (commandline -opc)
    set -l found (env _PROMASK_COMPLETE=complete_fish COMP_CWORD=(count $before) \\
        COMP_WORDS=(printf '%s\\n' $before (commandline -ct) | string collect) $before[1])
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end

complete --command promask --no-files --arguments '(_promask_completion)'
"""
SCRIPTS: Mapping[str, str] = {"bash": BASH, "zsh": ZSH, "fish": FISH}
PLACES: Mapping[str, str] = {
    "bash": ".bash_completions/promask.sh",
    "zsh": ".zfunc/_promask",
    "fish": ".config/fish/completions/promask.fish",
}
"""Where a script goes, from the home folder."""
STARTS: Mapping[str, tuple[str, str]] = {
    "bash": (".bashrc", "source ~/.bash_completions/promask.sh"),
    "zsh": (".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
}
"""The file that a shell reads when it starts, and the line that it needs; fish needs none."""


def script(shell: str) -> str:
    """The script of a shell."""
    if shell not in SCRIPTS:
        raise InputError(f"The shell must be one of {', '.join(SCRIPTS)}, but is {shell!r}: name one of them.")
    return SCRIPTS[shell]


def install(shell: str) -> Path:
    """Put the script of a shell where it finds it when it starts, and tell where that is."""
    text = script(shell)
    place = Path.home() / PLACES[shell]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    if shell in STARTS:
        name, line = STARTS[shell]
        start = Path.home() / name
        lines = start.read_text().splitlines() if start.is_file() else []
        if line not in lines:
            with start.open("a") as file:
                file.write(f"\n{line}\n")
    return place


def shell_in_use() -> str:
    """The shell that promask was started from, or else that of the user."""
    import shellingham  # type: ignore[import-untyped]

    try:
        found = str(shellingham.detect_shell()[0])
    except (shellingham.ShellDetectionFailure, OSError):
        found = ""
    return found if found in SCRIPTS else Path(os.environ.get("SHELL", "")).name
