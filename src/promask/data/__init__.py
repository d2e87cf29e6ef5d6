"""Data sets: built-in names, arrays, files and folders."""

from promask.data.arrays import from_images, from_kspace
from promask.data.sample_sets import ArraySet, Subset
from promask.data.sensitivities import espirit_maps, with_maps
from promask.data.simulate import simulated_maps
from promask.data.sources import BUILT_IN, COLLECTIONS, READERS, load

__all__ = [
    "BUILT_IN",
    "COLLECTIONS",
    "READERS",
    "ArraySet",
    "Subset",
    "espirit_maps",
    "from_images",
    "from_kspace",
    "load",
    "simulated_maps",
    "with_maps",
]
