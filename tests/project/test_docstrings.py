"""The docstrings of what users call: each argument is described, and so is what comes back."""

import ast
import functools
import importlib
import inspect
import itertools
import re
import textwrap
from pathlib import Path
from typing import NoReturn, is_typeddict

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
ROOMS = ("baselines", "data", "export", "figures", "learners", "losses", "recon", "report")


@functools.cache
def public_objects():
    """Every function and class that a module exports or a page of the reference names, by its place."""
    modules = ["promask", *(f"promask.{room}" for room in ROOMS)]
    names = [f"{module}.{name}" for module in modules for name in importlib.import_module(module).__all__]
    for page in REFERENCE.glob("*.md"):
        names += re.findall(r"auto(?:function|class):: (\S+)", page.read_text())
    found = {}
    for name in names:
        module, _, attribute = name.rpartition(".")
        each = getattr(importlib.import_module(module), attribute)
        left_out = isinstance(each, type) and (issubclass(each, BaseException) or is_typeddict(each))
        if (inspect.isfunction(each) or isinstance(each, type)) and not left_out:
            found[f"{each.__module__}.{each.__qualname__}"] = each
    return found


def functions():
    """The functions to be described and, for methods, the class: constructors come as the class itself."""
    for name, each in public_objects().items():
        yield pytest.param(each, None, id=name)
        for key, method in methods(each).items() if isinstance(each, type) else ():
            yield pytest.param(method, each, id=f"{name}.{key}")


def parameters(function):
    """The names as a docstring has them, without `self`, `cls` and `*args`."""
    named = inspect.signature(function).parameters.values()
    return [each.name for each in named if each.kind != each.VAR_POSITIONAL and each.name not in ("self", "cls")]


def section(docstring, title):
    """The lines below the title of a section, up to the next one."""
    found = re.search(rf"^{title}:\n((?:(?: .*)?\n)+)", inspect.cleandoc(docstring or "") + "\n", re.MULTILINE)
    return found[1] if found else ""


def described(docstring):
    return set(re.findall(r"^    (?:\*\*)?(\w+):", section(docstring, "Args"), re.MULTILINE))


def described_fields(kind):
    """What the docstrings of a class and its bases, and those below their fields, describe."""
    names = set()
    for base in inspect.getmro(kind):
        if base.__module__.partition(".")[0] == "promask":
            names |= described(base.__doc__) | described(vars(base).get("__init__", base).__doc__)
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body
            for field, text in itertools.pairwise(body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    names.add(field.target.id)
    return names


def is_described_elsewhere(method, owner):
    """Whether a base class, or a protocol whose methods the class has all, describes the method."""
    protocols = [each for each in public_objects().values() if getattr(each, "_is_protocol", False)]
    kept = [each for each in protocols if all(hasattr(owner, name) for name in methods(each))]
    others = {*owner.__mro__, *kept} - {owner}
    return any(described(getattr(base, method.__name__, object).__doc__) for base in others)


def methods(kind):
    """The public methods that a class defines itself, by their names."""
    found = {key: getattr(member, "__func__", member) for key, member in vars(kind).items() if key[0] != "_"}
    return {key: each for key, each in found.items() if inspect.isfunction(each)}


@pytest.mark.parametrize(("function", "owner"), list(functions()))
def test_arguments_and_results_are_described(function, owner):
    if isinstance(function, type):
        if not getattr(function, "_is_protocol", False):
            assert not set(parameters(function)) - described_fields(function)
        return
    if owner is not None and (not parameters(function) or is_described_elsewhere(function, owner)):
        return
    assert described(function.__doc__) == set(parameters(function))
    if inspect.signature(function).return_annotation not in (None, "None", NoReturn):
        assert section(function.__doc__, "Returns") or section(function.__doc__, "Yields")
