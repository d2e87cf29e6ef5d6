"""Damaged files of every kind that promask reads: they are read, or refused with one sentence, and nothing else.

Each target of `fuzz` is called with whole files that were changed in ways that Hypothesis thinks of, and with the
inputs that fuzzing found, which are kept in `found` as TARGET-what-was-wrong.
"""

import contextlib
import os
import warnings
from pathlib import Path

import pytest
from fuzz import targets
from fuzz.targets import TARGETS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promask.errors import InputError
from promask.learning.config import Config
from promask.studio.request import RefusedError, safe_name

pytestmark = pytest.mark.filterwarnings("ignore")
FOUND = sorted((Path(__file__).parents[2] / "found").iterdir())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module", params=TARGETS)
def built(request, tmp_path_factory):
    """A target, and the cache that it works with."""
    place = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("PROMASK_CACHE", str(place / "cache"))
        return TARGETS[request.param](place), place / "cache"


@pytest.fixture
def target(built, monkeypatch):
    monkeypatch.setenv("PROMASK_CACHE", str(built[1]))
    return built[0]


@st.composite
def damaged(draw, wholes):
    """A whole file of which the end is lost, bytes are others, or a part is taken out, doubled or made up."""
    content = bytearray(draw(st.sampled_from(wholes)))
    for _ in range(draw(st.integers(1, 4))):
        # Most of what can go wrong is said in the beginning.
        most = draw(st.sampled_from([64, 512, 4096, len(content)]))
        place = draw(st.integers(1, max(1, min(most, len(content) - 1))))
        kind = draw(st.sampled_from(["cut", "byte", "number", "remove", "double", "make up"]))
        if kind == "cut":
            del content[place:]
        elif kind == "byte":
            content[place : place + 1] = bytes([draw(st.integers(0, 255))])
        elif kind == "number":
            content[place : place + 4] = draw(st.sampled_from([bytes(4), b"\xff" * 4, b"\xff\xff\xff\x7f"]))
        else:
            length = draw(st.integers(1, 40))
            part = bytes(content[place : place + length])
            changed = {"remove": b"", "double": part + part, "make up": draw(st.binary(max_size=length))}[kind]
            content[place : place + length] = changed
    return bytes(content)


@given(data=st.data())
@settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_damaged_files_are_read_or_refused(target, data):
    target.call(data.draw(damaged(target.seeds)))


def test_whole_files_are_read(target, monkeypatch):
    """What fuzzing begins with is read in some way; else the target would see little of its reader."""
    read = []

    def note(call):
        with contextlib.suppress(InputError):
            call()
            read.append(call)

    monkeypatch.setattr(targets, "refused", note)
    for seed in target.seeds:
        read.clear()
        target.call(seed)
        assert read


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_what_fuzzing_found(tmp_path, monkeypatch, path):
    monkeypatch.setenv("PROMASK_CACHE", str(tmp_path / "cache"))
    TARGETS[path.name.partition("-")[0]](tmp_path).call(path.read_bytes())


@given(settings_=st.dictionaries(st.sampled_from(sorted(Config.CHECKS)) | st.text(max_size=5), JSON, max_size=4))
@settings(deadline=None, database=None)
def test_any_settings_are_taken_or_refused(settings_):
    whole = Config.preset("paper", acceleration=4).to_dict()
    for usual in ({}, {"acceleration": 4}, whole):
        with contextlib.suppress(InputError):
            config = Config.from_dict(usual | settings_)
            assert Config.from_dict(config.to_dict()) == config


@given(name=st.text() | st.builds("{}.nii.gz".format, st.text(max_size=300)))
@settings(deadline=None, database=None)
def test_names_of_uploads_stay_in_their_folder(name):
    try:
        safe = safe_name(name)
    except RefusedError:
        return
    assert Path(safe).name == safe
    assert not safe.startswith((".", "-"))
    assert len(os.fsencode(safe)) < 255
    assert safe.isprintable()
