"""Learning a mask: settings, the loop, members, selection, checkpoints and the run that comes of it."""
