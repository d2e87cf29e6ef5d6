"""Data that need no files: the brain, a head, procedural hearts and knees."""
