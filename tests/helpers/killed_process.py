"""Starts the command line in processes that can be killed.

Run as a script, it imports everything once, and then starts each command by forking, so that a process begins its
work at once and not after seconds of imports. Checkpoints are written after every step: most kills fall into or
beside one. Figures are made, but not drawn, and the disk is not waited for: what is written outlives a process.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout, suppress


class Commands:
    """Commands in processes of their own, one at a time."""

    def __init__(self, folder):
        self.errors = folder / "stderr.txt"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PROMASK_CACHE": str(folder / "cache")}
        self.starter = subprocess.Popen(
            [sys.executable, __file__, str(self.errors)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
        )

    def run(self, *words, after=None, how=signal.SIGKILL, forked=True):
        """The exit status, negative after a signal; the process gets a signal `after` so many seconds.

        What is not `forked` is run by the starter itself: whatever it imports is there for all that follow.
        """
        order = {"words": [str(word) for word in words], "after": after, "how": how, "forked": forked}
        self.starter.stdin.write(json.dumps(order) + "\n")
        self.starter.stdin.flush()
        return int(self.starter.stdout.readline())

    def close(self):
        self.starter.stdin.close()
        self.starter.wait()
        self.starter.stdout.close()


def not_drawn(figure, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def serve(errors):
    import torch

    import promask.report.page
    import promask.report.pipeline
    from promask.cli.main import main
    from promask.learning import checkpoint

    torch.set_num_threads(1)
    os.fsync = lambda file: None
    checkpoint.SHARE = 1e9
    promask.report.page.save_figure = not_drawn
    promask.report.page.figure_picture = lambda figure: "data:image/png;base64,"
    for line in sys.stdin:
        order = json.loads(line)
        if not order["forked"]:
            with suppress(SystemExit), redirect_stdout(sys.stderr):
                main(order["words"])
            print(0, flush=True)
            continue
        process = os.fork()
        if process == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            written = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(written, 1)
            os.dup2(written, 2)
            try:
                main(order["words"])
            except SystemExit as stop:
                os._exit(stop.code)  # that Python is taken down takes as long as the rest
        if order["after"] is not None:
            time.sleep(order["after"])
            os.kill(process, order["how"])  # one that has ended still has its number until it is waited for
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
