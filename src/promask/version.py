"""The version of the package, from its metadata."""

from importlib.metadata import version

__version__ = version("promask")
