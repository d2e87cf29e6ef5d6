"""What CI installs: the pins of constraints.txt, with hashes, and everything that pyproject.toml asks for."""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REWRITE = "run `make pins`"


def entries():
    """Name, requirement and hashes of each entry of requirements-ci.txt."""
    text = re.sub(r"^#.*\n", "", (ROOT / "requirements-ci.txt").read_text(), flags=re.MULTILINE)
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        requirement, *hashes = re.split(r"\s+--hash=", line.strip())
        found.append((canonicalize_name(Requirement(requirement).name), Requirement(requirement), hashes))
    return found


def pins():
    """The version of each package here."""
    return {
        name: Version(str(requirement.specifier).removeprefix("=="))
        for name, requirement, _ in entries()
        if requirement.marker is None or requirement.marker.evaluate()
    }


def constraints():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    found = [re.fullmatch(r"([A-Za-z0-9._-]+)==([^\s;+]+)", line) for line in lines]
    assert all(found), "one version of each package, and nothing else"
    names = [canonicalize_name(match[1]) for match in found]
    assert len(names) == len(set(names))
    return dict(zip(names, [Version(match[2]) for match in found], strict=True))


def asked_for(extra):
    """What pyproject.toml asks for with this extra, which may name others."""
    result = []
    for text in PROJECT["project"]["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["project"]["name"]:
            result += [below for name in requirement.extras for below in asked_for(name)]
        else:
            result.append(requirement)
    return result


def test_every_entry_is_one_version_with_hashes():
    for name, requirement, hashes in entries():
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), name
        assert requirement.url is None
        assert hashes, name
        assert len(hashes) == len(set(hashes))
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), name


def test_versions_are_those_of_the_constraints():
    wanted = constraints()
    for name, requirement, _ in entries():
        version = Version(str(requirement.specifier).removeprefix("=="))
        assert name in wanted, REWRITE
        assert Version(version.public) == wanted[name], f"{name}: {REWRITE}"
    names = [name for name, *_ in entries()]
    assert {name for name in names if names.count(name) > 1} == {"torch"}, "which has a build for CPUs besides"


def test_all_that_the_project_asks_for_is_pinned():
    found = pins()
    texts = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]
    for requirement in [*map(Requirement, texts), *asked_for("dev")]:
        name = canonicalize_name(requirement.name)
        assert name in found, f"{name}: {REWRITE}"
        assert requirement.specifier.contains(found[name]), f"{name}: {REWRITE}"


@pytest.mark.skipif(not pins()["torch"].local, reason="Packages for other systems than that of CI are not listed.")
def test_all_that_a_package_asks_for_is_pinned():
    """As the metadata say of those that are installed in the version that is pinned."""
    found = pins()
    looked_at = 0
    for name, version in found.items():
        installed = distribution(name)
        if Version(installed.version) != version:
            continue
        looked_at += 1
        for requirement in map(Requirement, installed.requires or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                below = canonicalize_name(requirement.name)
                assert below in found, f"{below}, which {name} needs: {REWRITE}"
                assert requirement.specifier.contains(found[below], prereleases=True), (name, below)
    assert looked_at > len(found) / 2
