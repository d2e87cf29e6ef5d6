"""Starts the command line in processes that can be killed.

Run as a script, it imports everything once, and then starts each command by forking, so that a process begins its
work at once and not after seconds of imports. Checkpoints are written after every step: most kills fall into or
beside one.
"""

import json
import os
import signal
import subprocess
import sys
import time


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

    def run(self, *words, after=None, how=signal.SIGKILL):
        """The exit status, negative after a signal; the process gets a signal `after` so many seconds."""
        order = {"words": [str(word) for word in words], "after": after, "how": how}
        self.starter.stdin.write(json.dumps(order) + "\n")
        self.starter.stdin.flush()
        return int(self.starter.stdout.readline())

    def close(self):
        self.starter.stdin.close()
        self.starter.wait()
        self.starter.stdout.close()


def serve(errors):
    import torch

    import promask.learn_and_report  # noqa: F401, it takes long
    from promask.cli import main
    from promask.learning import checkpoint

    torch.set_num_threads(1)
    checkpoint.SHARE = 1e9
    for line in sys.stdin:
        order = json.loads(line)
        process = os.fork()
        if process == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            written = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(written, 1)
            os.dup2(written, 2)
            main(order["words"])
        if order["after"] is not None:
            time.sleep(order["after"])
            os.kill(process, order["how"])  # one that has ended still has its number until it is waited for
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
