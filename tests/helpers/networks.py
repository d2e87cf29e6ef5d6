"""Networks for tests, what they are like before and after, and masks that are judged by them."""

import torch
from monai.losses import DiceCELoss
from torch import nn

from promask.data.sample_sets import choose_part
from promask.data.sources import load
from promask.learning.selection import MOST_JUDGED, reference_masks
from promask.problem.batches import SpectraSet
from promask.problem.problem import mean_loss

FEW = {"steps": 2, "batch_size": 4}
GRADIENTS = {
    "published": {"preset": "paper", "members": 1, **FEW, "steps": 3},
    "response": {"learner": "best-response", **FEW, "steps": 3},
}


def states(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same_state(module, before):
    now = module.state_dict()
    return now.keys() == before.keys() and all(torch.equal(now[name], before[name]) for name in before)


def own_loss():
    return DiceCELoss(to_onehot_y=True, softmax=True)


def own_network(channels=1, seed=0):
    """As a user may have it: layers that behave otherwise in training, and some that are not to be trained."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = nn.Conv2d(channels, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5)
        module = nn.Sequential(*layers, nn.Conv2d(4, 3, 3, padding=1))
    module.train()
    module[1].eval()
    module[0].requires_grad_(False)
    return module


def flags(module):
    return [each.training for each in module.modules()], [each.requires_grad for each in module.parameters()]


def split(data):
    """The samples that are learned from, and those that decide: the split of a run, and once more of its part."""
    chosen = choose_part(load(data), None, default="train")[0]
    return [choose_part(chosen, part, default=part)[0] for part in ("train", "test")]


class Judging:
    """The losses of masks on the patients that decide."""

    def __init__(self, data, task, pattern):
        self.task, self.pattern = task, pattern
        self.learned_from, self.judges = (
            SpectraSet(each, torch.device("cpu"), task.label) for each in split(data)
        )

    def loss(self, units):
        return mean_loss(units, self.judges, self.pattern, self.task, MOST_JUDGED)

    def plain(self, budget):
        masks = reference_masks(self.learned_from, self.pattern, budget, 0)
        return {name: self.loss(units) for name, units in masks.items()}
