"""Where PyTorch computes: a device by its name."""

import torch

from promask.errors import InputError, one_line

CPU = torch.device("cpu")


def find_device(name: str | torch.device) -> torch.device:
    """A device that can be used here, by what PyTorch calls it, such as `cpu` or `cuda:1`."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except Exception as error:  # backends that are not there raise nearly everything
        why = one_line(error)
        raise InputError(
            f"The device {str(name)!r} cannot be used here, choose another `device` such as cpu: {why}."
        ) from error
    return device
