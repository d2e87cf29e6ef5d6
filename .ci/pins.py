"""Write requirements-ci.txt: every package that `promask[dev]` needs, with the hashes of all files of its release.

Run as `make pins` after a change of pyproject.toml or constraints.txt. The versions are those of constraints.txt;
a package that is not there yet is added as it is installed. What is needed is read from the packages in .venv.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[1]
CONSTRAINTS, RESULT = ROOT / "constraints.txt", ROOT / "requirements-ci.txt"
PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")
TORCH = "torch"
HERE = 'sys_platform == "linux" and platform_machine == "x86_64" and python_version == "3.11"'
ELSEWHERE = 'sys_platform != "linux" or platform_machine != "x86_64" or python_version != "3.11"'
"""Where PyTorch's build for CPUs is installed, which has hashes of its own, and where that of the registry is."""
HEADING = """\
# What CI installs, verified by hash; written by `make pins` from pyproject.toml and constraints.txt.
# On the system of CI, Linux with Python 3.11, torch is PyTorch's build for CPUs.
"""


def main() -> None:
    """Bring constraints.txt up to date, and write the file."""
    lines = CONSTRAINTS.read_text().splitlines()
    versions = {canonicalize_name(found[1]): found[2] for line in lines if (found := PIN.fullmatch(line))}
    needed = packages_needed()
    for name in sorted(needed):
        installed = distribution(name)
        version = installed.version.partition("+")[0]
        if name not in versions:
            lines.append(f"{installed.name}=={version}")
            print(f"constraints.txt: {lines[-1]} is new")
        elif versions[name] != version:
            sys.exit(
                f"constraints.txt has {name} {versions[name]}, but {version} is installed: `make clean` first"
            )
    lines = [*lines[:1], *sorted(lines[1:], key=lambda line: line.partition("==")[0].casefold())]
    pins = [line for line in lines if (found := PIN.fullmatch(line)) and canonicalize_name(found[1]) in needed]
    entries = hashed(pins)
    entries[TORCH] = "\n".join(torch_entries(entries[TORCH]))
    CONSTRAINTS.write_text("\n".join(lines) + "\n")
    RESULT.write_text(HEADING + "".join(f"{entry}\n" for _, entry in sorted(entries.items())))
    print(f"requirements-ci.txt: {len(entries)} packages, {RESULT.read_text().count('--hash')} hashes")


def packages_needed() -> set[str]:
    """The names of everything that the tests and the build of the package need, as far as it applies here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    waiting = [*project["build-system"]["requires"], *project["project"]["dependencies"], *extras["dev"]]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras}:
            if (name, extra) in seen or not _applies(requirement, ""):
                continue
            seen.add((name, extra))
            if name == project["project"]["name"]:
                waiting += extras.get(extra, [])
                continue
            for text in distribution(name).requires or []:
                below = Requirement(text)
                if _applies(below, extra):
                    below.marker = None
                    waiting.append(str(below))
    return {name for name, _ in seen} - {project["project"]["name"]}


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def hashed(pins: list[str]) -> dict[str, str]:
    """The entry of each package: its pin, and the hashes of all files of the release, for every system."""
    command = ["uv", "pip", "compile", "--quiet", "--no-deps", "--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--universal", "--python-version", "3.11", "-"]
    done = subprocess.run(
        [sys.executable, "-m", *command], input="\n".join(pins), text=True, stdout=subprocess.PIPE, check=True
    )
    entries = re.split(r"\n(?=\S)", done.stdout.strip())
    return {canonicalize_name(entry.partition("==")[0]): entry for entry in entries}


def torch_entries(of_registry: str) -> list[str]:
    """The build for CPUs that pip finds here, and the files of the registry for other systems.

    Two entries, as pip would rather take a file whose hash its index tells than the build for CPUs, and the builds
    of the registry for Linux want packages for GPUs of several gigabytes.
    """
    pin, *hashes = of_registry.replace("\\", "").split()
    with tempfile.TemporaryDirectory() as folder:
        command = ["pip", "download", "--quiet", "--no-deps", "--dest", folder, pin]
        subprocess.run([sys.executable, "-m", *command], check=True)
        (wheel,) = Path(folder).iterdir()
        _, version, *_ = parse_wheel_filename(wheel.name)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if not version.local:
        sys.exit("pip finds no build of torch for CPUs: tell it where there is one (PIP_FIND_LINKS), then again")
    here = f"{TORCH}=={version} ; {HERE} \\\n    --hash=sha256:{digest}"
    return [here, f"{pin} ; {ELSEWHERE} \\\n    " + " \\\n    ".join(hashes)]


if __name__ == "__main__":
    main()
