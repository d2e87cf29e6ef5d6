"""The run-time type checker of the tests: whole numbers may stand for floats, as in static checking.

jaxtyping's own decorator checks the arguments of every call twice, and keeps sizes also where no array is named;
that was a quarter of the time of all tests. Here a call is checked once, by the same two libraries.
"""

import dataclasses
import functools
import inspect
import types
import typing

import jaxtyping
from beartype import BeartypeConf, beartype

# A type error either way, as of Python itself: code that answers those is tested with them.
typecheck = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=jaxtyping.TypeCheckError))
thorough = jaxtyping.jaxtyped
# Before Python 3.12, what a protocol asks for is gathered anew for every object that is compared with it.
typing._get_protocol_attrs = functools.cache(typing._get_protocol_attrs)


def jaxtyped(*, typechecker):
    """Takes the place of `jaxtyping.jaxtyped` in the modules that its import hook loads."""
    return functools.partial(checked, typechecker=typechecker)


def checked(defined, typechecker=typecheck):
    """A function, or the constructor of a dataclass, that checks what it takes and what it returns."""
    if inspect.isclass(defined):
        if dataclasses.is_dataclass(defined) and not hasattr(defined.__init__, "__wrapped__"):
            defined.__init__ = checked(defined.__init__, typechecker)
        return defined
    names = {name: resolved(hint, defined.__globals__) for name, hint in defined.__annotations__.items()}
    arrays = [array for hint in names.values() for array in arrays_in(hint)]
    runs_later = inspect.isgeneratorfunction(defined) or inspect.iscoroutinefunction(defined)
    if runs_later or inspect.isasyncgenfunction(defined) or any("{" in array.dim_str for array in arrays):
        return thorough(defined, typechecker=typechecker)
    once = typechecker(annotated(defined, names))
    if not arrays:
        return functools.update_wrapper(once, defined)

    @functools.wraps(defined)
    def with_sizes_of_its_own(*args, **kwargs):
        __tracebackhide__ = True
        with thorough("context"):
            return once(*args, **kwargs)

    return with_sizes_of_its_own


def resolved(hint, scope):
    """What an annotation means; anything, if it names what is defined later or for static checking alone."""
    holder = types.SimpleNamespace(__annotations__={"value": hint})
    try:
        return typing.get_type_hints(holder, scope, include_extras=True)["value"]
    except Exception:
        return typing.Any


def arrays_in(hint):
    """The arrays that an annotation names, at whatever depth."""
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        yield hint
    parts = typing.get_args(hint)
    for part in parts:
        yield from arrays_in(part) if not isinstance(part, list) else (a for each in part for a in arrays_in(each))


def annotated(function, names):
    """A copy of a function with other annotations."""
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, names
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy
