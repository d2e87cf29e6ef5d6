"""Learn a mask for images of your own, and look at how undecided it is."""

import torch

import promask

# Any array of images will do: (N, H, W), or (N, contrast, H, W); here 12 noisy discs of different sizes.
generator = torch.Generator().manual_seed(0)
y, x = torch.meshgrid(torch.linspace(-1, 1, 64), torch.linspace(-1, 1, 64), indexing="ij")
radii = 0.3 + 0.5 * torch.rand(12, 1, 1, generator=generator)
images = (x**2 + y**2 < radii**2) + 0.02 * torch.randn(12, 64, 64, generator=generator)

run = promask.learn(images, acceleration=4, seed=0)
print(f"x{run.acceleration:g}: {int(run.mask.sum())} of {run.mask.numel()} locations")
print(f"{run.distribution.entropy():.0f} bits undecided")
print(promask.evaluate(run.mask, images).summary())

for mask in run.sample(2, seed=0, exact=True):
    print(f"a random mask of the same size: {promask.evaluate(mask, images).summary()['psnr']:.1f} dB")
run.save("discs")
