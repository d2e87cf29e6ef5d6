"""Masks for other programs: files, mask functions, and other matrix sizes; and scans, to try them on."""

from promask.export.bart import write_scan
from promask.export.files import check_mask_file, read_mask, write_mask
from promask.export.formats import FORMATS, Format
from promask.export.mask_file import ExportedMask
from promask.export.mask_function import MaskFunction, as_mask_func, resized

__all__ = [
    "FORMATS",
    "ExportedMask",
    "Format",
    "MaskFunction",
    "as_mask_func",
    "check_mask_file",
    "read_mask",
    "resized",
    "write_mask",
    "write_scan",
]
