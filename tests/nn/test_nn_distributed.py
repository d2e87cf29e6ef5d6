"""The layer in DistributedDataParallel: two processes, each of which runs this file."""

import os
import subprocess
import sys
from datetime import timedelta

import torch
from torch.distributed import TCPStore, init_process_group
from torch.nn.parallel import DistributedDataParallel

from promask.nn import ProbabilisticMask

HOST = "127.0.0.1"
PATIENCE = timedelta(seconds=60)


def test_processes_draw_masks_of_their_own_and_keep_the_same_probabilities(tmp_path):
    store = TCPStore(HOST, 0, is_master=True, timeout=PATIENCE, wait_for_workers=False)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, __file__, str(tmp_path), str(store.port)]
    processes = [
        subprocess.Popen([*command, str(rank)], env=environment, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        for process in processes:
            _, errors = process.communicate(timeout=PATIENCE.total_seconds())
            assert process.returncode == 0, errors
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stderr.close()

    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert len(first["probabilities"]) == 4
    for one, other in zip(first["probabilities"], second["probabilities"], strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(first["probabilities"][0], first["probabilities"][-1])
    for one, other in zip(first["masks"], second["masks"], strict=True):
        assert not torch.equal(one, other)
    assert first["state"].keys() == second["state"].keys()
    assert all(torch.equal(value, second["state"][name]) for name, value in first["state"].items())


def work(folder: str, port: int, rank: int) -> None:
    """Four steps with k-space of one's own."""
    store = TCPStore(HOST, port, is_master=False, timeout=PATIENCE)
    init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=PATIENCE)
    layer = ProbabilisticMask((16, 16), 4, centre=2, seed=1)
    model = DistributedDataParallel(layer)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    probabilities, masks = [], []
    for step in range(1, 5):
        kspace = torch.randn(3, 1, 16, 16, dtype=torch.complex64, generator=generator)
        layer.anneal(step, 4)
        optimiser.zero_grad()
        acquired = model(kspace)
        (acquired - kspace).abs().square().mean().backward()
        optimiser.step()
        layer.constrain()
        masks.append(acquired.detach() != 0)
        probabilities.append(layer.probabilities.detach().clone())
    state = layer.state_dict()
    torch.save({"probabilities": probabilities, "masks": masks, "state": state}, f"{folder}/{rank}.pt")
    store.set(f"done {rank}", "")
    store.wait(["done 0", "done 1"])  # one that leaves while the other still receives would let it wait for ever
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
