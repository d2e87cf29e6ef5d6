"""Checkpoints: how far the members of a run are, in files from which a run that was killed goes on.

Each member has a file of its own, `checkpoint.safetensors` for the first, and the file before it is kept in case
the newest one is damaged. They are written so seldom that no more than a small share of the time is spent on them,
and whenever learning ends before its time: by an error, an interrupt or a signal.

A state is made of dicts with texts as keys, lists, numbers, texts, None and tensors. Its bytes are those of a
.safetensors file, whose metadata hold the rest as JSON, the version of this layout, and a checksum of everything.
Nothing in them is executed.
"""

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from promask.data.atomic import replace_file
from promask.errors import InputError, InputWarning
from promask.learners.base import State
from promask.learning.hooks import TrajectoryRecorder
from promask.problem.parallel import ALONE, Group
from promask.types import Units

FORMAT = "promask.state.1"
"""The name of the layout, with its version."""
TENSOR = "$tensor"
"""Stands in JSON where a tensor belongs, with its name."""


class DamagedStateError(ValueError):
    """Bytes that are no state, or no longer one."""


class OtherFormatError(ValueError):
    """A state that another version of promask wrote."""


def packed(state: Mapping[str, Any]) -> bytes:
    """The state as bytes.

    >>> unpacked(packed({"step": 3, "theta": torch.tensor([0.5, 1.0])}))
    {'step': 3, 'theta': tensor([0.5000, 1.0000])}
    """
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(_outlined(state, tensors))
    return save(tensors, {"format": FORMAT, "state": text, "sha256": checksum(text, tensors)})


def unpacked(content: bytes) -> dict[str, Any]:
    """The state that bytes hold, after their checksum was found to be right."""
    try:
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        if metadata["format"] != FORMAT:
            raise OtherFormatError(metadata["format"])
        tensors = load(content)
        text = metadata["state"]
        if metadata["sha256"] != checksum(text, tensors):
            raise DamagedStateError("The checksum is wrong.")
        state = _filled_in(json.loads(text), tensors)
    except (OtherFormatError, DamagedStateError):
        raise
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedStateError(str(error)) from error
    if not isinstance(state, dict):
        raise DamagedStateError("It is no state.")
    return state


def _outlined(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """What JSON can hold, with the names of tensors in their places; the tensors are collected."""
    if isinstance(value, torch.Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        return {TENSOR: name}
    if isinstance(value, Mapping):
        return {name: _outlined(each, tensors) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_outlined(each, tensors) for each in value]
    return value


def _filled_in(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(value, dict):
        if TENSOR in value:
            return tensors[value[TENSOR]]
        return {name: _filled_in(each, tensors) for name, each in value.items()}
    return [_filled_in(each, tensors) for each in value] if isinstance(value, list) else value


def checksum(text: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """Of all that a state holds."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


SHARE = 0.02
"""The largest share of the time that is spent on checkpoints."""
FIRST = 1.0
"""Seconds before the first one: a run that is shorter is as quickly done again."""
ALIKE = 1e-3
"""How much the energies of the same data may differ, computed on another machine."""


def checkpoint_file(folder: Path, member: int) -> Path:
    """The newest checkpoint of a member; `before` it there may be an older one.

    >>> checkpoint_file(Path("run"), 0).name, checkpoint_file(Path("run"), 2).name
    ('checkpoint.safetensors', 'checkpoint-2.safetensors')
    """
    return folder / ("checkpoint.safetensors" if member == 0 else f"checkpoint-{member}.safetensors")


def before(path: Path) -> Path:
    """The place of the checkpoint before the newest one."""
    return path.with_name(f"{path.stem}-before{path.suffix}")


def checkpoints_in(folder: Path) -> list[Path]:
    """All checkpoints in a run folder."""
    return sorted(folder.glob("checkpoint*.safetensors"))


@dataclass(frozen=True)
class Identity:
    """By what a run is known again: its settings, and its data by their mean energy."""

    settings: Mapping[str, Any]
    energy: Units

    def as_state(self) -> dict[str, Any]:
        """As it stands in a checkpoint."""
        return {"settings": json.loads(json.dumps(self.settings)), "energy": self.energy}

    def check(self, found: Mapping[str, Any], path: Path) -> None:
        """Refuse a checkpoint of another run."""
        ours, theirs = self.as_state()["settings"], found["settings"]
        for name in dict.fromkeys(("learner", *ours, *theirs)):
            if ours.get(name) != theirs.get(name):
                raise InputError(
                    f"{path} is of a run with {name} {theirs.get(name)!r} and not {ours.get(name)!r}: leave out "
                    f"`resume` to begin anew."
                )
        energy, wanted = found["energy"], self.energy.cpu()
        alike = energy.shape == wanted.shape and energy.dtype == wanted.dtype
        if not alike or not torch.allclose(energy, wanted, ALIKE, ALIKE * float(wanted.mean())):
            raise InputError(f"{path} is of a run on other data: leave out `resume` to begin anew.")


@dataclass
class Clock:
    """Says when a checkpoint is due.

    >>> clock = Clock(now=iter([0.0, 0.5, 1.0]).__next__)
    >>> clock.is_due(), clock.is_due()
    (False, True)
    >>> clock.spent = clock.last = 0.1  # what was a fiftieth of 5 s is affordable again after 10 s
    >>> Clock(began=0.0, spent=0.1, last=0.1, now=iter([9.9, 10.0]).__next__).is_due()
    False
    """

    now: Any = time.perf_counter
    began: float = -1.0
    spent: float = 0.0
    last: float = FIRST * SHARE
    written: int = 0

    def __post_init__(self) -> None:
        self.began = self.now() if self.began < 0 else self.began

    def is_due(self) -> bool:
        """Whether one as costly as the last is affordable."""
        return SHARE * (self.now() - self.began) >= self.spent + self.last

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Take note of what a checkpoint costs."""
        began = self.now()
        try:
            yield
            self.written += 1
        finally:
            self.last = self.now() - began
            self.spent += self.last


@dataclass(frozen=True)
class Unsaved:
    """The last state of a member, which is not in its file yet."""

    member: Callable[[], Mapping[str, Any]]
    recorder: Mapping[str, Any] | None
    seconds: float

    def as_state(self) -> dict[str, Any]:
        """As it stands in a checkpoint."""
        return {"member": self.member(), "recorder": self.recorder, "seconds": self.seconds}


@dataclass
class Checkpointer:
    """The hook that keeps the state of the members of a run, in a folder if there is one.

    It writes a state when that is due, and otherwise remembers it, so that `at_work` can write it if something
    ends the work.
    """

    folder: Path | None = None
    identity: Identity | None = None
    resume: bool = False
    recorder: TrajectoryRecorder | None = None
    """What it has recorded of the first member is kept with it."""
    group: Group = ALONE
    clock: Clock = field(default_factory=Clock)
    seconds_before: float = 0.0
    """Spent before this process went on."""
    unsaved: dict[int, Unsaved] = field(default_factory=dict)
    resumed: list[int] = field(default_factory=list)
    """Members that did not begin anew."""

    @property
    def seconds(self) -> float:
        """Spent on learning until now, by all processes that worked on it one after the other."""
        return self.seconds_before + self.clock.now() - self.clock.began

    def alone(self) -> "Checkpointer":
        """For the members that a process learns by itself."""
        return replace(self, group=ALONE, recorder=self.recorder, unsaved={})

    def start(self, member: int, state: State) -> None:
        """Go on from a checkpoint, if that was asked for and there is one."""
        known = self.load(member)
        if known is not None:
            with self.refusing_unfit(member):
                state.restore(known)

    def after_step(self, member: int, state: State, loss: float) -> None:
        """Take note of the state, and write it when that is due."""
        if self.folder is not None and self.group.leads:
            self.keep(member, state.snapshot())

    def load(self, member: int) -> dict[str, Any] | None:
        """The state that a member goes on from; None: it begins. All processes of a group get the same."""
        if not self.resume or self.folder is None:
            return None
        content = self._read(member) if self.group.leads else b""
        content = self.group.broadcast(content or b" ")
        if content == b" ":
            return None
        with self.refusing_unfit(member):
            found = unpacked(content)
            state = dict(found["member"])
            self.seconds_before = max(self.seconds_before, float(found["seconds"]))
            if member == 0 and self.recorder is not None:
                self.recorder.resume(found["recorder"])
        self.resumed.append(member)
        return state

    def keep(self, member: int, state: Callable[[], Mapping[str, Any]]) -> None:
        """Take note of a state, as a function that gives it whenever it is called."""
        recorded = self.recorder.state() if member == 0 and self.recorder is not None else None
        self.unsaved[member] = Unsaved(state, recorded, self.seconds)
        if self.clock.is_due():
            self._write_unsaved()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """If anything ends the work, the last state is written."""
        try:
            yield
        except BaseException:
            self._write_unsaved()
            raise

    @contextmanager
    def refusing_unfit(self, member: int) -> Iterator[None]:
        """A state that is whole, but not what it should be, as one sentence."""
        try:
            yield
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            path = checkpoint_file(self.folder or Path(), member)
            raise InputError(f"{path} does not fit this run: leave out `resume` to begin anew.") from error

    def _write_unsaved(self) -> None:
        if self.folder is None or self.identity is None:
            return
        for member, state in list(self.unsaved.items()):
            path = checkpoint_file(self.folder, member)
            try:
                with self.clock.timing():
                    self.folder.mkdir(parents=True, exist_ok=True)
                    with replace_file(path) as temporary:
                        temporary.write_bytes(packed({**state.as_state(), "identity": self.identity.as_state()}))
                        if path.exists():
                            path.replace(before(path))
            except OSError as error:
                sentence = f"Cannot write {path}: {error.strerror or error}; learning goes on without it."
                warnings.warn(sentence, InputWarning, stacklevel=2)
                return
            del self.unsaved[member]

    def _read(self, member: int) -> bytes | None:
        """The newest checkpoint of a member that is whole, as it is in its file."""
        assert self.folder is not None
        assert self.identity is not None
        newest = checkpoint_file(self.folder, member)
        for path in (newest, before(newest)):
            try:
                content = path.read_bytes()
                state = unpacked(content)
            except FileNotFoundError:
                continue
            except OtherFormatError as error:
                raise InputError(
                    f"{path} was written by another version of promask ({error}): leave out `resume` to begin "
                    f"anew."
                ) from error
            except (DamagedStateError, OSError) as error:
                warnings.warn(
                    f"{path} is damaged ({error}): learning goes on from before it.", InputWarning, stacklevel=2
                )
                continue
            with self.refusing_unfit(member):
                self.identity.check(state["identity"], path)
            return content
        return None
