"""Data sets: built-in names, arrays, files and folders."""

from promask.data.arrays import from_images, from_kspace
from promask.data.inspection import Inspection, inspect
from promask.data.raw_trajectory import RawTrajectory, read_raw_trajectory, reconstruct_raw
from promask.data.reading import Reading
from promask.data.sample_sets import ArraySet, Subset, choose_part
from promask.data.sensitivities import espirit_maps, with_maps
from promask.data.simulate import simulated_maps
from promask.data.sources import BUILT_IN, COLLECTIONS, READERS, DataPart, load, read_part

__all__ = [
    "BUILT_IN",
    "COLLECTIONS",
    "READERS",
    "ArraySet",
    "DataPart",
    "Inspection",
    "RawTrajectory",
    "Reading",
    "Subset",
    "choose_part",
    "espirit_maps",
    "from_images",
    "from_kspace",
    "inspect",
    "load",
    "read_part",
    "read_raw_trajectory",
    "reconstruct_raw",
    "simulated_maps",
    "with_maps",
]
