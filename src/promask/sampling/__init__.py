"""Which parts of k-space are acquired: patterns, distributions over masks, the projection onto a budget."""
