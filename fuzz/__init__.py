"""Fuzzing of everything that promask reads: `python -m fuzz NAME`, or `make fuzz` for all of it."""
