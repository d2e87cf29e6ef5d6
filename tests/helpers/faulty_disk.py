"""Runs commands on a disk of its own that is full or must not be written to, and prints what came of each.

Figures are made, but not drawn.

To be started in a mount namespace (`unshare --mount`), in which it may mount. The arguments are the folder to
mount on and the data.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from killed_process import not_drawn


def mounted(folder, *options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", folder], check=True)


def remounted(folder, *options):
    subprocess.run(["mount", "-o", ",".join(("remount", *options)), folder], check=True)


def command(*words):
    """The exit status, standard error, and the files that there are then."""
    errors = Path("errors.txt").absolute()
    process = os.fork()
    if process == 0:
        written = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, 1)
        os.dup2(written, 2)
        from promask.cli.main import main

        main([str(word) for word in words])
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return status, errors.read_text()


def main(folder, data):
    import promask.report.page
    import promask.report.pipeline  # before any process is started
    from promask.learning import checkpoint

    checkpoint.SHARE = 1e9  # a checkpoint after every step
    promask.report.page.save_figure = not_drawn
    promask.report.page.figure_picture = lambda figure: "data:image/png;base64,"
    found = {}

    def told(name, *words):
        status, said = command("learn", data, "--accel", 4, "--steps", 12, "--patience", 0, *words)
        kept = sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())
        found[name] = {"status": status, "said": said, "kept": kept}

    mounted(folder, "size=16k")
    run = Path(folder, "run")
    told("full", "--out", run)
    remounted(folder, "size=120k")
    told("room for a checkpoint", "--out", run)
    remounted(folder, "size=64m")
    told("room", "--out", run, "--resume")
    told("elsewhere", "--out", Path("elsewhere").absolute())
    same = [
        (run / name).read_bytes() == Path("elsewhere", name).read_bytes()
        for name in ("probabilities.npy", "mask.npy")
    ]
    remounted(folder, "ro")
    told("read-only", "--out", Path(folder, "other"))
    print(json.dumps({**found, "same": all(same)}))


main(*sys.argv[1:])
