"""The scripts by which bash, zsh and fish ask promask how a word may end, and where they are put."""

import os
from collections.abc import Mapping
from pathlib import Path

from promask.errors import InputError

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
