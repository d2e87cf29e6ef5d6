"""Random numbers of a run: a stream of its own for each purpose."""

import numpy as np
import torch


def generator(seed: int, member: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A stream of random numbers of its own for each seed, member and purpose: start, batches or noise."""
    entropy = [seed, member, *purpose.encode()]
    state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    return torch.Generator(device).manual_seed(int(state[0]))
