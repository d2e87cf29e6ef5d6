"""Learn a mask together with the network that reconstructs, and compare with a fixed Poisson-disc mask.

Both have the same network, the same steps on the same images, the same number of samples and the same centre.
"""

import torch

from promask.baselines import baseline_mask
from promask.baselines.loupe import Correction
from promask.data import choose_part, load
from promask.losses.metrics import psnr
from promask.nn import ProbabilisticMask
from promask.operators.fourier import to_image, to_kspace

AXES = (-2, -1)
CENTRE = 24


class Reconstruction(torch.nn.Module):
    """Undersampling, the zero-filled image, and a U-Net's correction of its magnitude."""

    def __init__(self, mask: ProbabilisticMask, seed: int) -> None:
        super().__init__()
        self.mask, self.correction = mask, Correction(dimensions=2, seed=seed)

    def forward(self, kspace: torch.Tensor) -> torch.Tensor:
        """Fully sampled k-space in, a magnitude image out."""
        filled = to_image(self.mask(kspace), AXES)
        return filled.abs() + self.correction(filled)


def train(model: Reconstruction, images: torch.Tensor, steps: int, seed: int, learn_mask: bool) -> None:
    """Batches of 4 slices; a mask that is not learned stays in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    groups = [{"params": model.correction.parameters(), "lr": 0.002}]
    if learn_mask:
        groups.append({"params": model.mask.parameters(), "lr": 0.3})
    optimiser = torch.optim.Adam(groups)
    model.train()
    model.mask.train(learn_mask)
    for step in range(1, steps + 1):
        batch = images[torch.randperm(len(images), generator=generator)[:4]]
        model.mask.anneal(step, steps, exploration=0.0, exploitation=0.7)
        optimiser.zero_grad()
        loss = (model(to_kspace(batch, AXES)) - batch).square().mean()
        loss.backward()
        optimiser.step()
        if learn_mask:
            model.mask.constrain()


def main(steps: int = 100, seed: int = 0, acceleration: float = 8) -> dict[str, float]:
    """The mean PSNR of held-out slices with each mask."""
    brain = load("brain")
    slices, held_out = (choose_part(brain, part, default="all")[0] for part in ("train", "test"))
    images, unseen = (torch.stack([sample.image for sample in part]) for part in (slices, held_out))
    shape = brain.shape[1:]

    learned = ProbabilisticMask(shape, acceleration, centre=CENTRE, seed=seed)
    discs = baseline_mask("poisson", slices, learned.pattern, acceleration, seed=seed, centre=CENTRE)
    fixed = ProbabilisticMask(shape, acceleration, init=discs)
    quality = {}
    for name, mask in {"learned": learned, "Poisson disc": fixed}.items():
        model = Reconstruction(mask, seed)
        train(model, images, steps, seed, learn_mask=mask is learned)
        with torch.no_grad():
            reconstructed = model.eval()(to_kspace(unseen, AXES))
        quality[name] = float(psnr(reconstructed, unseen).mean())
        print(f"{name}: {quality[name]:.1f} dB with {int(mask.mask.sum())} of {mask.mask.numel()} samples")
    return quality


if __name__ == "__main__":
    main()
