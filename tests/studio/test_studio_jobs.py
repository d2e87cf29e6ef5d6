"""The jobs of the studio: what they make, how they are watched, cancelled and kept."""

import base64
import io
import json
import shlex
import threading
import zipfile

import numpy as np
import pytest
from masks import CARTESIAN
from studio_helpers import LONG, asked, calling, events_of, images_file, is_alive, run_of, sent, serving, until

from promask.export import FORMATS, read_mask
from promask.studio import request as uploads_module

SMALL = {"acceleration": 4, "steps": 5}


@pytest.mark.parametrize(
    "wish",
    [
        {"acceleration": 4.5, "seed": 3},
        {"acceleration": 3, "pattern": "1d", "axis": 0, "loss": "ssim", "centre": 2, "steps": 7},
        {"acceleration": 4, "recon": "cg-sense", "coils": 3, "steps": 4},
        {"acceleration": 4, "array": "image", "axes": "slice y x", "readout": "kx", "steps": 4},
    ],
    ids=["usual", "lines", "coils", "axes"],
)
def test_the_same_bytes_as_on_the_command_line(client, commands, undrawn, scans, tmp_path, wish):
    job = asked(client, upload=sent(client, scans), **wish)
    assert events_of(client, job["id"])[-1]["state"] == "done"
    there = run_of(client, job["id"])
    words = shlex.split(job["command"])
    assert words[:3] == ["promask", "learn", "scans.npz"]
    commands(*words[1:])
    here = tmp_path / words[-1]
    for name in ("mask.npy", "probabilities.npy", "variance.npy"):
        assert there[name] == (here / name).read_bytes(), name
    records = [json.loads(text) for text in (there["run.json"], (here / "run.json").read_text())]
    assert records[0]["config"] == records[1]["config"]
    asked_for = {name: [value] if name == "axis" else value for name, value in wish.items()}
    assert {name: records[0]["config"][name] for name in wish} == asked_for
    assert records[0]["about"]["command"] == job["command"]
    assert records[0]["about"]["data"] == records[1]["about"]["data"], "named alike, and no place on this machine"


def test_slices_without_an_image_can_be_left_out(client, tmp_path):
    path = images_file(tmp_path / "scans.npz")
    content = dict(np.load(path))
    content["image"][0] = 0
    np.savez(path, **content)
    upload = sent(client, path)
    ended = events_of(client, asked(client, upload=upload, **SMALL)["id"])[-1]
    assert ended["state"] == "failed"
    assert "is zero everywhere" in ended["error"]
    ended = events_of(client, asked(client, upload=upload, skip_bad=True, **SMALL)["id"])[-1]
    assert (ended["state"], len(ended["warnings"])) == ("done", 1), "what was left out is told"
    assert " --skip-bad " in ended["command"]


def test_what_the_page_is_told(client, scans):
    upload = sent(client, scans)
    client.get(f"/api/uploads/{upload}")
    job = asked(client, upload=upload, acceleration=4, pattern="1d", steps=20)
    assert (job["free"], job["shape"], job["directions"]) == ([1], [24, 24], ["ky", "kx"]), "known beforehand"
    events = events_of(client, job["id"])
    run = run_of(client, job["id"])
    history = json.loads(run["run.json"])["history"]["loss"]
    assert [loss for event in events for loss in event["losses"]] == history
    units = np.load(io.BytesIO(run["probabilities.npy"]))
    last = events[-1]
    shown = np.frombuffer(base64.b64decode(last["units"]["bytes"]), np.uint8)
    np.testing.assert_array_equal(shown, np.round(units * 255).astype(np.uint8))
    assert (last["state"], last["free"], last["shape"], last["done"]) == ("done", [1], [24, 24], len(history))
    assert last["summary"]["held_out"] is True
    again = events_of(client, job["id"])
    assert len(again) == 1, "who comes late gets all of it at once"
    assert again[0]["losses"] == history


def test_downloads(client, scans, tmp_path):
    job = asked(client, upload=sent(client, scans), **SMALL)["id"]
    assert events_of(client, job)[-1]["state"] == "done"
    run = run_of(client, job)
    assert {"mask.npy", "probabilities.npy", "run.json", "report.html"} <= set(run)
    mask = np.load(io.BytesIO(run["mask.npy"]))
    for name in CARTESIAN:
        kind = FORMATS[name]
        answer = client.get(f"/api/jobs/{job}/mask", params={"to": name})
        file = tmp_path / answer.headers["content-disposition"].split('"')[1]
        file.write_bytes(answer.content)
        if name == "bart":
            zipfile.ZipFile(file).extractall(tmp_path)
            file = tmp_path / "mask.cfl"
        assert file.suffix == kind.suffix
        np.testing.assert_array_equal(read_mask(file).mask.numpy(), mask)
    assert client.get(f"/api/jobs/{job}/mask", params={"to": "exe"}).status_code == 400
    report = client.get(f"/api/jobs/{job}/report.html")
    assert report.content == run["report.html"]
    assert "sandbox" in report.headers["content-security-policy"]
    assert "connect-src" not in report.headers["content-security-policy"], "default: nothing"
    assert '<html data-theme="dark" ' in client.get(f"/api/jobs/{job}/report.html?theme=dark").text
    assert client.delete(f"/api/jobs/{job}").status_code == 200
    assert client.get(f"/api/jobs/{job}").status_code == 404, "what has ended is forgotten"


def test_two_at_once_get_what_each_gets_alone(server, client, tmp_path):
    files = [images_file(tmp_path / f"scan{n}.npz", seed=n) for n in range(2)]
    found = {}

    def one(number, name):
        with calling(server) as own:
            job = asked(own, upload=sent(own, files[number]), acceleration=4, steps=30, seed=number)["id"]
            assert events_of(own, job)[-1]["state"] == "done"
            found[name, number] = run_of(own, job)["probabilities.npy"]

    threads = [threading.Thread(target=one, args=(number, "together")) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        one(number, "alone")
        assert found["together", number] == found["alone", number]
    assert found["alone", 0] != found["alone", 1]


def test_cancelling_ends_the_process_and_removes_the_folder(server, client, scans):
    job = asked(client, upload=sent(client, scans), **LONG)["id"]
    known = server.studio.jobs.get(job)
    until(lambda: known.step)
    pid, folder = known.worker.process.pid, known.folder
    assert is_alive(pid)
    assert folder.exists()
    assert client.delete(f"/api/jobs/{job}").status_code == 200
    assert events_of(client, job)[-1]["state"] == "cancelled"
    assert not is_alive(pid)
    assert not folder.exists()
    assert client.get(f"/api/jobs/{job}").json()["error"] is None


def test_a_process_that_dies_is_told_of(server, client, scans):
    job = asked(client, upload=sent(client, scans), **LONG)["id"]
    known = server.studio.jobs.get(job)
    until(lambda: known.step)
    known.worker.process.kill()
    ended = events_of(client, job)[-1]
    assert ended["state"] == "failed"
    assert ended["error"] == "The process ended without a word (signal 9): did the memory run out?"
    assert not known.folder.exists()


def test_a_queue(scans):
    with serving(most_running=1) as server, calling(server) as client:
        upload = sent(client, scans)
        first, second, third = (asked(client, upload=upload, **wish)["id"] for wish in (LONG, SMALL, SMALL))
        state = client.get(f"/api/jobs/{third}").json()
        assert (state["state"], state["position"]) == ("queued", 2)
        server.studio.uploads.drop(keep=0)
        assert client.get(f"/api/uploads/{upload}").status_code == 200, "files that jobs wait for are kept"
        client.delete(f"/api/jobs/{second}")
        assert client.get(f"/api/jobs/{third}").json()["position"] == 1
        assert client.get(f"/api/jobs/{first}").json()["state"] == "running"
        client.delete(f"/api/jobs/{first}")
        assert events_of(client, third)[-1]["state"] == "done"
        server.studio.uploads.drop(keep=0)
        assert client.get(f"/api/uploads/{upload}").status_code == 404


def test_what_is_old_is_removed(client, server, monkeypatch, scans):
    monkeypatch.setattr(uploads_module, "MOST_UPLOADS", 2)
    old = sent(client, scans)
    folder = server.studio.uploads.get(old).folder
    for _ in range(2):
        client.post("/api/uploads")
    assert client.get(f"/api/uploads/{old}").status_code == 404
    assert not folder.exists()
    job = asked(client, upload=sent(client, scans), **SMALL)["id"]
    assert events_of(client, job)[-1]["state"] == "done"
    place = server.studio.jobs.get(job).folder
    server.studio.jobs.drop(keep=0, older=3600)
    assert place.exists(), "it is not old yet"
    server.studio.jobs.drop(keep=0)
    assert not place.exists()
    assert client.get(f"/api/jobs/{job}/run.zip").status_code == 404


def test_who_watches_is_let_go_when_the_studio_ends(scans):
    with serving() as server, calling(server) as client:
        job = asked(client, upload=sent(client, scans), **LONG)["id"]
        seen = []

        def watch():
            with client.stream("GET", f"/api/jobs/{job}/events") as answer:
                for line in answer.iter_lines():
                    seen.extend([json.loads(line[5:])] if line.startswith("data:") else [])

        watching = threading.Thread(target=watch)
        watching.start()
        until(lambda: seen and server.studio.jobs.get(job).step)  # or the studio ends before anyone watches
        pid = server.studio.jobs.get(job).worker.process.pid
        server.handle_exit(15, None)
        watching.join(10)
        assert not watching.is_alive()
    assert seen[-1]["state"] in ("running", "cancelled")
    assert not is_alive(pid)
