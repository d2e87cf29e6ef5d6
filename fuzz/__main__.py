"""Run a target: `python -m fuzz NAME --seconds 600`; `--input FILE` for one input, `--list` for the names."""

import argparse
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
INSTRUMENTED = ("promask", "nibabel", "pydicom", "zipfile")
"""What is watched for new paths: promask, and the readers in Python that it relies on."""
MOST_MEMORY = 1 << 30
"""Bytes that a single input may take; inputs are far smaller than a megabyte."""
MOST_ADDRESSES = 4 << 30
"""Bytes that may be asked for at once: an allocation that is never used is a mistake as well."""
LONGEST_INPUT = 1 << 16
EVERY = 30
"""Seconds between two lines that tell what was done."""
SLOWEST = 60
"""Seconds for one input, on a machine that does other things as well."""


class Watch:
    """Calls a target, and counts: what is no InputError is a finding, kept once for each place in the code."""

    def __init__(self, name: str, call: Callable[[bytes], None], seconds: float, findings: Path) -> None:
        self.name, self.call, self.seconds, self.findings = name, call, seconds, findings
        self.executions, self.slowest, self.found = 0, 0.0, set[str]()
        self.reported = time.monotonic()
        self.start, self.start_cpu = time.monotonic(), time.process_time()
        self.peak, self.most = peak_memory(), 0

    def __call__(self, content: bytes) -> None:
        """One input; the process ends when the time is over."""
        before, held = time.process_time(), memory()
        try:
            self.call(content)
        except Exception as error:
            self._note(error, content)
        now = time.process_time()
        self.executions += 1
        self.slowest = max(self.slowest, now - before)
        if peak_memory() > self.peak:  # the peak of a process never falls: it was this input that reached it
            self.peak = peak_memory()
            self.most = max(self.most, self.peak - held)
        if self.most > MOST_MEMORY:
            self._keep("memory", content)
            self.finish("it took too much memory")
        clock = time.monotonic()
        if clock - self.start >= self.seconds:
            self.finish("the time is over")
        if clock - self.reported > EVERY:
            self.reported = clock
            print(self.state(), flush=True)

    def finish(self, reason: str) -> None:
        """Say what was done and end."""
        print(f"{self.state()}: {reason}", flush=True)
        os._exit(1 if self.found else 0)

    def state(self) -> str:
        """What was done so far."""
        return (
            f"{self.name}: {self.executions} executions in {time.process_time() - self.start_cpu:.0f} s of "
            f"processor time and {time.monotonic() - self.start:.0f} s, the slowest {self.slowest:.2f} s, at most "
            f"{self.most / 1e6:.0f} MB, {memory() / 1e6:.0f} MB held, {len(self.found)} findings"
        )

    def _note(self, error: Exception, content: bytes) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames]
        own = [place for place in places if not place.startswith(("__main__", "targets"))]
        signature = f"{type(error).__name__} {' '.join(own[-3:])}"
        if signature not in self.found:
            print(f"FINDING {self.name}: {signature}", flush=True)
            traceback.print_exception(error)
            self._keep(signature, content)

    def _keep(self, signature: str, content: bytes) -> None:
        self.found.add(signature)
        self.findings.mkdir(parents=True, exist_ok=True)
        safe = "".join(letter if letter.isalnum() else "-" for letter in signature)[:120]
        (self.findings / safe).write_bytes(content)


def memory() -> int:
    """Bytes that the process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak_memory() -> int:
    """Bytes, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_addresses() -> None:
    """Refuse the process more than it has now and some gigabytes."""
    have = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (have + MOST_ADDRESSES,) * 2)


def main() -> None:
    """Read the command line and fuzz."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--seconds", type=float, default=600, help="how long")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "fuzz", help="where inputs are kept")
    parser.add_argument("--input", type=Path, help="only this input, as it was kept")
    parser.add_argument("--list", action="store_true", help="the names of the targets")
    options, rest = parser.parse_known_args()
    sys.path[:0] = [str(ROOT / "tests")]  # they write the files to begin with
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    memory = Path("/dev/shm")  # of Linux: files there never reach a disk
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        os.environ["PROMASK_CACHE"] = str(Path(place, "cache"))
        run(options, rest, Path(place))


def run(options: argparse.Namespace, rest: list[str], place: Path) -> None:
    """List the targets, or call one with an input, or fuzz it."""
    fuzzing = options.input is None and not options.list
    atheris: Any = None
    if fuzzing:
        import atheris  # type: ignore[no-redef]

        with atheris.instrument_imports(include=list(INSTRUMENTED)):
            from fuzz.targets import TARGETS
    else:
        from fuzz.targets import TARGETS
    if options.list:
        print("\n".join(TARGETS))
        return
    if options.name not in TARGETS:
        sys.exit(f"There is no target {options.name!r}: choose one of {', '.join(TARGETS)}.")
    warnings.simplefilter("ignore")
    target = TARGETS[options.name](place)
    if not fuzzing:
        target.call(options.input.read_bytes())
        return
    work = options.work / options.name
    corpus, start = work / "corpus", place / "start"
    for folder in (corpus, start):
        folder.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(target.seeds):
        (start / str(number)).write_bytes(content)
        target.call(content)  # imports what it needs before memory is counted
    limit_addresses()
    watch = Watch(options.name, target.call, options.seconds, work / "findings")
    arguments = [
        f"-artifact_prefix={work}/",
        f"-timeout={SLOWEST}",
        "-rss_limit_mb=0",
        f"-max_len={LONGEST_INPUT}",
    ]
    atheris.Setup([sys.argv[0], *arguments, *rest, str(corpus), str(start)], watch)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
