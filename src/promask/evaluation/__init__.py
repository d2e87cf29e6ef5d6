"""How good masks are: metrics, comparisons of methods, stability, and their tables."""
