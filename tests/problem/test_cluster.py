"""Work on a Dask cluster, a real one: each result once, one call at a time, and a sentence for what goes wrong."""

import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import uuid
from pathlib import Path

import dask
import pytest
import yaml
from clusters import running_cluster

from promask.errors import InputError, InputWarning
from promask.problem import cluster
from promask.problem.cluster import check_address, map_unordered


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    """Each of them with two threads; work that ends both is not tried again."""
    with running_cluster(tmp_path_factory.mktemp("dask"), failures=1) as running:
        for _ in range(2):
            running.add_worker(threads=2)
        running.await_workers()
        yield running


def test_each_argument_once(two_workers, capfd):
    """What calls have in common is opened once in each worker, and a worker makes one call at a time."""

    def call(common, number):
        began = time.monotonic()
        time.sleep(0.02)
        return number**2, common, os.getpid(), began, time.monotonic()

    answers = list(map_unordered(two_workers.address, call, range(30), uuid.uuid4))
    assert sorted(argument for argument, _ in answers) == list(range(30))
    assert all(answer[0] == argument**2 for argument, answer in answers)
    processes = {answer[2] for _, answer in answers}
    assert processes == {worker.pid for worker in two_workers.workers}
    assert len({answer[1:3] for _, answer in answers}) == len(processes)
    for process in processes:
        spans = sorted(answer[3:] for _, answer in answers if answer[2] == process)
        assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(spans))
    assert capfd.readouterr() == ("", "")


def test_few_calls_are_shared(two_workers):
    for _ in range(3):
        answers = map_unordered(
            two_workers.address, lambda common, seconds: time.sleep(seconds) or os.getpid(), [0.1] * 2, int
        )
        assert len({process for _, process in answers}) == 2


def test_nothing_to_do_needs_no_cluster():
    assert list(map_unordered("tcp://127.0.0.1:1", pow, [], int)) == []


def test_errors_of_calls(two_workers):
    def refuse(common, sentence):
        raise InputError(sentence)

    with pytest.raises(InputError, match=f"^On {socket.gethostname()}: There is no file.$"):
        list(map_unordered(two_workers.address, refuse, ["There is no file."], int))
    with pytest.raises(ZeroDivisionError):
        list(map_unordered(two_workers.address, lambda common, number: number / common, [1], int))


def test_what_cannot_be_sent(two_workers):
    with pytest.raises(
        InputError, match=r"cannot be sent to a cluster: .* \(cannot pickle '_thread.lock' object\)"
    ):
        list(map_unordered(two_workers.address, pow, [1], threading.Lock().acquire))


def at_the_top(common, argument):
    """A function of a module that the cluster does not have."""


def test_a_module_that_is_not_there(two_workers):
    with pytest.raises(
        InputError, match=r"A worker of the cluster at \S+ lacks \w+: let all have the same packages"
    ):
        list(map_unordered(two_workers.address, at_the_top, [1], int))


def test_closed_early(two_workers, capfd):
    """What was not begun is cancelled, and the cluster is free for others."""
    from distributed import Client

    answers = map_unordered(two_workers.address, lambda common, seconds: time.sleep(seconds), [0.05] * 200, int)
    assert next(answers) == (0.05, None)
    answers.close()
    assert capfd.readouterr() == ("", "")
    with Client(two_workers.address, set_as_default=False) as client:
        while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
            time.sleep(0.02)
        counts = client.run(lambda dask_worker: dask_worker.state.executed_count)
    assert sum(counts.values()) < 200


def test_versions(two_workers, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "__version__", "99.0")
        with pytest.raises(InputError, match=r"has promask [\d.]+: install 99\.0 on all"):
            list(map_unordered(two_workers.address, pow, [1], int))
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "PACKAGE", "no-such-package")
        with pytest.raises(InputError, match="lacks promask: install"):
            list(map_unordered(two_workers.address, pow, [1], int))
    with pytest.raises(InputError, match=r"This worker has promask [\d.]+, and not 99\.0"):  # it came late
        _ = cluster._Common(b"", "99.0").functions


def test_other_packages_are_told(two_workers, monkeypatch):
    from distributed import versions

    here = versions.get_versions()
    packages = {**here["packages"], "numpy": "0.1"}
    monkeypatch.setattr(versions, "get_versions", lambda *_: {**here, "packages": packages})
    with pytest.warns(InputWarning, match="not the same here and on the cluster"):
        assert list(map_unordered(two_workers.address, pow, [2], lambda: 3)) == [(2, 9)]


def test_a_cluster_that_ends(two_workers, capfd):
    """Work that kills its workers, one after the other; then there are none; then there is no scheduler either."""
    address = two_workers.address
    with pytest.raises(MemoryError, match=r"2 workers died of the same work, one after the other: .* is kept"):
        list(map_unordered(address, os.kill, [signal.SIGKILL], os.getpid))
    assert [worker.wait() for worker in two_workers.workers] == [-signal.SIGKILL] * 2
    with pytest.raises(InputError, match=r"has had no workers for 0\.1 seconds: start some"):
        list(map_unordered(address, pow, [1], int, without_workers=0.1))
    threading.Timer(0.5, two_workers.scheduler.kill).start()
    with pytest.raises(ConnectionError, match=f"The cluster at {address} was lost: what is done is kept"):
        list(map_unordered(address, pow, [1], int))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("deaf", [False, True], ids=["nobody there", "deaf"])
def test_no_scheduler(monkeypatch, deaf):
    monkeypatch.setattr(cluster, "ANSWERS_WITHIN", 0.3)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        if deaf:
            other.listen()
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(InputError, match=f"No Dask scheduler answers at {address}: start one"):
            list(map_unordered(address, pow, [1], int))


def test_certificates_are_asked_for():
    with pytest.raises(InputError, match=r"tls://127\.0\.0\.1:1 needs certificates"):
        list(map_unordered("tls://127.0.0.1:1", pow, [1], int))


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1:8786",
        "http://host:8786",
        "inproc://host:1",
        "scheduler.json",
        "tcp://host",
        "tcp://host:99999",
        "tcp://:1",
        "tcp://a b:1",
        "tcp://host:8786/x",
        "tcp://user@host:1",
    ],
)
def test_other_addresses(address):
    with pytest.raises(InputError, match="A Dask scheduler has an address such as tcp://HOST:8786"):
        check_address(address)


def test_addresses():
    for address in ("tcp://10.0.0.1:8786", "tls://node-1.lab.org:8786", "tcp://[::1]:8786"):
        check_address(address)


def test_without_dask(monkeypatch):
    monkeypatch.setattr(cluster.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'promask\[dask\]'"):
        check_address("tcp://10.0.0.1:8786")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl")
def test_certificates(tmp_path, monkeypatch):
    """As the documentation has it; without them, nobody gets in."""
    words = "req -x509 -newkey rsa:2048 -nodes -subj /CN=dask -keyout dask.key -out dask.crt"
    subprocess.run(["openssl", *words.split()], cwd=tmp_path, check=True, capture_output=True)
    settings = {"distributed.comm.tls.ca-file": str(tmp_path / "dask.crt")}
    for part in ("scheduler", "worker", "client"):
        settings[f"distributed.comm.tls.{part}.cert"] = str(tmp_path / "dask.crt")
        settings[f"distributed.comm.tls.{part}.key"] = str(tmp_path / "dask.key")
    for name, place in settings.items():
        monkeypatch.setenv(f"DASK_{name.replace('.', '__').replace('-', '_').upper()}", place)
    monkeypatch.setattr(cluster, "ANSWERS_WITHIN", 1.0)
    with running_cluster(tmp_path, protocol="tls") as running:
        assert running.address.startswith("tls://")
        running.add_worker()
        with dask.config.set(settings):
            assert list(map_unordered(running.address, pow, [2], lambda: 3)) == [(2, 9)]
        with pytest.raises(InputError, match="No Dask scheduler answers"):
            list(map_unordered(running.address.replace("tls", "tcp"), pow, [2], int))


def test_the_recipe_for_kubernetes():
    """Parts find each other by their names, and only they are let in."""
    page = (Path(__file__).parents[2] / "docs" / "howto" / "cluster.md").read_text()
    parts = list(yaml.safe_load_all(re.search("```yaml\n(.*?)```", page, flags=re.DOTALL)[1]))
    assert [part["kind"] for part in parts] == ["Deployment", "Service", "Deployment", "NetworkPolicy", "Job"]
    scheduler, service, workers, policy, command = parts
    pods = {part["metadata"]["name"]: part["spec"]["template"] for part in (scheduler, workers, command)}
    assert pods["dask-scheduler"]["metadata"]["labels"] == service["spec"]["selector"]
    for deployment in (scheduler, workers):
        assert (
            deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
        )
    allowed = policy["spec"]["podSelector"]["matchLabels"].items()
    assert all(allowed <= pod["metadata"]["labels"].items() for pod in pods.values())
    address = f"tcp://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert all(
        address in pods[name]["spec"]["containers"][0]["command"] for name in ("dask-worker", "promask-compare")
    )
