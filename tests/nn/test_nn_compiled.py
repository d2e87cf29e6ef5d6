"""The layer in torch.compile, in a process of its own: there, signatures are not checked at run time."""

import os
import subprocess
import sys

import pytest
import torch

from promask.nn import ProbabilisticMask

BACKEND = "aot_eager"


def test_compiled():
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["evaluation", "training"]


def kspace_of(batch: int) -> torch.Tensor:
    """For the layers below."""
    generator = torch.Generator().manual_seed(batch)
    return torch.randn(batch, 2, 8, 8, dtype=torch.complex64, generator=generator)


def evaluation() -> None:
    """One graph, and the values of the uncompiled layer, also after the probabilities changed."""
    for pattern in ("2d", "1d"):
        layer = ProbabilisticMask((8, 8), 4, pattern, centre=2).eval()
        compiled = torch.compile(layer, backend=BACKEND, fullgraph=True)
        assert torch.equal(compiled(kspace_of(3)), layer(kspace_of(3)))
        with torch.no_grad():
            layer.probabilities.copy_(layer.probabilities.flip(0))
        assert torch.equal(compiled(kspace_of(3)), layer(kspace_of(3)))


def training() -> None:
    """Broken only where masks are drawn; the steps of the uncompiled layer; compiled once for all of them."""
    for estimator in ("difference", "gumbel"):
        torch._dynamo.reset()
        layer = ProbabilisticMask((8, 8), 4, estimator=estimator)
        explained = torch._dynamo.explain(layer)(kspace_of(3))
        assert (explained.graph_count, explained.graph_break_count) == (2, 1), explained
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported, match=r"ProbabilisticMask\._draw"):
            torch.compile(layer, backend=BACKEND, fullgraph=True)(kspace_of(3))
        torch._dynamo.reset()
        results = []
        for compile_it in (False, True):
            layer = ProbabilisticMask((8, 8), 4, estimator=estimator)
            model = torch.compile(layer, backend=BACKEND) if compile_it else layer
            optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
            for step in range(1, 5):
                torch._dynamo.config.error_on_recompile = step > 1
                layer.anneal(step, 4)
                optimiser.zero_grad()
                (model(kspace_of(3)) - kspace_of(3)).abs().square().mean().backward()
                assert layer.probabilities.grad is not None
                assert layer.probabilities.grad.any()
                optimiser.step()
                layer.constrain()
            torch._dynamo.config.error_on_recompile = False
            results.append(layer.probabilities.detach())
        torch.testing.assert_close(*results)


if __name__ == "__main__":
    for part in (evaluation, training):
        part()
        print(part.__name__)
