"""Learning the probabilities: the step, the one loop, independent members, and the result."""
