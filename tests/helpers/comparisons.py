"""Comparisons for tests: data to compare on, and small ones made by hand."""

from dataclasses import replace

import numpy as np
import torch

from helpers import smooth_images
from promask.evaluation.cells import Comparison, Scores, segmentation_measure, with_shares
from promask.evaluation.conventions import METRICS, Measure, find_convention
from promask.segmentation.classes import Classes, dice_cross_entropy
from promask.segmentation.network import Architecture, SegmentationNetwork


def image_file(path):
    """Ten slices of five subjects, in a file."""
    subjects = [f"subject{number // 2}" for number in range(10)]
    np.savez(path, image=smooth_images(10, size=(24, 20), phase=False)[:, 0].float().numpy(), subject=subjects)
    return str(path)


def hearts(count=10, size=(24, 20), seed=0):
    """Images and labels: a bright cavity, 2, in a darker wall, 1, here and there; the last has no cavity."""
    generator = np.random.default_rng(seed)
    height, width = np.indices(size)
    images, labels = [], []
    for number in range(count):
        radius = generator.uniform(5, 7)
        middle = [n / 2 + generator.uniform(-2, 2) for n in size]
        distance = np.hypot(height - middle[0], width - middle[1])
        label = (distance < radius).astype(int) + (distance < radius - 3) * (number < count - 1)
        labels.append(label)
        images.append(np.array([0.2, 0.5, 1.0])[label] + generator.normal(0, 0.03, size))
    return np.abs(np.stack(images)).astype(np.float32), np.stack(labels)


def heart_file(path, **settings):
    """Ten labelled slices of five subjects, in a file."""
    images, labels = hearts(**settings)
    np.savez(path, image=images, label=labels, subject=[f"subject{number // 2}" for number in range(len(images))])
    return str(path)


def heart_network(channels=1, seed=0, steps=0, **settings):
    """A small network for these classes, which may have seen some of such images."""
    classes = Classes(("wall", "cavity"), (1, 2))
    network = SegmentationNetwork(Architecture(channels, classes, widths=(4, 8), **settings), seed)
    optimiser = torch.optim.Adam(network.parameters(), 0.02)
    images, labels = (torch.from_numpy(each) for each in hearts(8, seed=1))
    for _ in range(steps):
        optimiser.zero_grad()
        dice_cross_entropy(network(images[:, None]), labels, classes).backward()
        optimiser.step()
    return network.eval()


def row(method, psnr, acceleration=4.0, free=2, ssim=None, nmse=None, achieved=None):
    """Quality by seed and image; SSIM and NMSE follow from PSNR if they are not given."""
    psnr = np.array(psnr, dtype=float)
    quality = {
        "psnr": psnr,
        "ssim": psnr / 100 if ssim is None else np.array(ssim, dtype=float),
        "nmse": 1 / psnr if nmse is None else np.array(nmse, dtype=float),
    }
    seeds = len(psnr)
    achieved = [acceleration] * seeds if achieved is None else achieved
    return Scores(method, free, acceleration, achieved, [0.5 + seed for seed in range(seeds)], quality)


def compared(*scores, convention="paper"):
    subjects = ["one"] * scores[0].quality["psnr"].shape[1]
    rule = find_convention(convention)
    measure = Measure(convention, "reconstruction", rule.of, rule.sentence, METRICS)
    return Comparison("my_data", measure, "2 held-out slices", subjects, scores)


def found_row(method, dice, acceleration=8.0, free=2, **settings):
    """What a network finds, by metric, seed and image: Dice of its classes; IoU follows from it."""
    quality = {}
    for name, values in dice.items():
        quality[name] = np.array(values, dtype=float)
        quality[name.replace("dice", "iou")] = quality[name] / (2 - quality[name])
    seeds = len(quality["dice"])
    seconds = [0.5 + seed for seed in range(seeds)]
    return Scores(method, free, acceleration, [acceleration] * seeds, seconds, quality, **settings)


def compared_by_segmentation(full, *rows, classes=("wall", "cavity"), subjects=None):
    """A comparison below the fully sampled images, whose Dice are given by metric and image."""
    measure = segmentation_measure(classes)
    full = found_row("fully sampled", {name: [values] for name, values in full.items()}, 1.0, free=0)
    full = replace(full, seconds=[], quality=with_shares(full.quality, full.quality, measure))
    rows = [replace(row, quality=with_shares(row.quality, full.quality, measure)) for row in rows]
    subjects = subjects or ["one"] * full.quality["dice"].shape[1]
    return Comparison("my_data", measure, "2 held-out images", subjects, rows, full)


def tiny_comparison():
    """Two seeds and two images; means over images 21 and 23, 30 and 30, 29 and 33 at x4."""
    return compared(
        row("lines_1", [[20, 22], [22, 24]], free=1, achieved=[4.0, 4.2]),
        row("energy", [[28, 32]]),
        row("promask", [[28, 30], [32, 34]]),
        row("energy", [[24, 26]], 8.0),
        row("promask", [[24, 26], [24, 26]], 8.0),
    )
