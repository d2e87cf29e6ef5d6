"""The calls of the studio, as a page makes them."""

import html
import json
import shlex

import httpx
import numpy as np
import pytest
from reports import content_of
from studio_helpers import asked, events_of, images_file, kspace_file, scanner_file, sent, until

from promask.cli import options
from promask.data.inspection import inspect
from promask.data.reading import Reading
from promask.data.sources import load
from promask.studio import jobs as jobs_module
from promask.studio import request as uploads_module
from promask.studio.app import Server
from promask.studio.jobs import Studio

SMALL = {"acceleration": 4, "steps": 5}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/style.css"),
        ("GET", "/api/data/head"),
        ("POST", "/api/uploads"),
        ("PUT", "/api/uploads/x/y.npz"),
        ("POST", "/api/jobs"),
        ("GET", "/api/jobs/x/events"),
        ("GET", "/api/jobs/x/report.html"),
        ("GET", "/api/jobs/x/mask"),
        ("DELETE", "/api/jobs/x"),
    ],
)
@pytest.mark.parametrize("token", [None, "", "wrong", "é"])
def test_nothing_without_the_token(server, method, path, token):
    base = server.url.partition("/?")[0]
    answer = httpx.request(method, base + path, params=None if token is None else {"token": token})
    assert answer.status_code == 403
    sentence = answer.json()["error"] if path.startswith("/api") else answer.text
    assert sentence == "The token is missing or wrong: open the address that promask studio printed."


def test_the_token_may_be_in_the_query_or_in_a_header(server, client):
    base = server.url.partition("/?")[0]
    assert httpx.get(server.url).status_code == 200
    assert client.get("/").status_code == 200
    assert httpx.get(base, headers={"X-Promask-Token": server.studio.token[:-1]}).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.168.0.1:80"])
def test_other_names_of_the_host_are_refused(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 400


def test_it_listens_on_this_machine_alone(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_the_page_needs_nothing_from_elsewhere_and_may_load_nothing(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "//" not in answer.text.replace("// ", ""), "no address"
    assert answer.text.count("<script nonce=") == 7
    assert client.get("/").headers["content-security-policy"] != policy, "another nonce every time"


def test_headers_of_every_answer(client):
    for path in ("/", "/api/data/nothing", "/nothing"):
        headers = client.get(path).headers
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers
        assert "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/style.css", "/api"])
def test_there_are_no_other_pages(client, path):
    answer = client.get(path)
    assert (answer.status_code, answer.json()) == (404, {"error": "There is no such call."})


def test_a_built_in_set_is_described(client):
    found, truth = client.get("/api/data/head").json(), load("head")
    assert (found["images"], found["channels"], *found["shape"]) == (len(truth), *truth.shape)
    assert found["held_out"] == 0
    assert found["picture"].startswith("data:image/png;base64,")
    assert found["sentence"] == inspect("head").description.sentence()
    assert (found["question"], found["choices"]) == (None, [])
    assert (found["pattern"], found["directions"], found["readout"]) == ("2d", [], None)
    assert client.get("/api/data/heart").status_code == 404


def test_an_upload_is_described(client, scans):
    found = client.get(f"/api/uploads/{sent(client, scans)}").json()
    assert (found["images"], found["subjects"], found["shape"], found["held_out"]) == (6, 3, [24, 24], 2)
    told = inspect(scans)
    assert found["sentence"] == told.description.sentence()
    assert found["facts"] == [[heading, " ".join(text.split())] for heading, text in told.facts()]
    assert ["subjects", "3; 4 samples to learn from, 2 held out"] in found["facts"]


def test_what_can_be_read_in_several_ways_is_asked_for(server, client, tmp_path):
    path = kspace_file(tmp_path / "raw.npy")
    upload = sent(client, path)
    asked_for = client.get(f"/api/uploads/{upload}").json()
    assert asked_for["question"].startswith("raw.npy has shape [6, 24, 20] of complex numbers")
    choices = {choice["value"]: choice["words"] for choice in asked_for["choices"]}
    assert choices["slice ky kx"] == "6 slices, in k-space"
    assert choices["coil y x"] == "one slice, 6 coils, as images"
    assert {choice["argument"] for choice in asked_for["choices"]} == {"axes"}
    assert ["arrays", "array complex64 [6, 24, 20]"] in asked_for["facts"]
    wish = {"upload": upload, "acceleration": 4, "steps": 3}
    assert client.post("/api/check", json=wish).json()["budget"] is None
    assert events_of(client, asked(client, **wish)["id"])[-1]["error"] == asked_for["question"]
    for axes in choices:
        found = client.get(f"/api/uploads/{upload}", params={"axes": axes}).json()
        assert found["sentence"] == inspect(path, Reading(axes=axes)).description.sentence()
    assert len(server.studio.uploads.get(upload).descriptions) == 1 + len(choices), "each is remembered"
    lines = client.post("/api/check", json={**wish, "axes": "slice ky kx"}).json()
    assert lines["budget"] == {"acquired": 6, "units": 24}, "a line for each ky: the readout is named"
    images = client.post("/api/check", json={**wish, "axes": "coil y x"}).json()
    assert images["budget"] == {"acquired": 120, "units": 480}
    assert shlex.split(lines["command"])[2:5] == ["raw.npy", "--axes", "slice ky kx"]
    ended = events_of(client, asked(client, **wish, axes="slice ky kx")["id"])[-1]
    assert (ended["state"], ended["free"], ended["directions"]) == ("done", [0], ["ky", "kx"])


def test_descriptions_are_forgotten_when_a_file_is_added_or_they_are_many(server, client, scans, monkeypatch):
    monkeypatch.setattr(jobs_module, "MOST_DESCRIPTIONS", 2)
    upload = sent(client, scans)
    known = server.studio.uploads.get(upload)
    for readout in ("kx", "ky", "none"):
        assert client.get(f"/api/uploads/{upload}", params={"readout": readout}).status_code == 200
    assert [reading.readout for reading in known.descriptions] == ["ky", "none"]
    client.put(f"/api/uploads/{upload}/more.npz", content=scans.read_bytes())
    assert known.descriptions == {}
    assert client.get(f"/api/uploads/{upload}").json()["images"] == 12


def test_a_readout_that_is_known_is_not_undersampled(client, tmp_path):
    upload = sent(client, scanner_file(tmp_path / "scan.h5"))
    found = client.get(f"/api/uploads/{upload}").json()
    assert (found["pattern"], found["readout"], found["directions"]) == ("1d", "kx", ["kx", "ky"])
    wish = {"upload": upload, "acceleration": 4}
    checked = client.post("/api/check", json=wish).json()
    assert checked["budget"] == {"acquired": 5, "units": 20}
    assert "--pattern" not in checked["command"]
    for call in ("check", "jobs"):
        refused = client.post(f"/api/{call}", json={**wish, "pattern": "2d"})
        assert refused.status_code == 400
        assert "would undersample kx, the readout" in refused.json()["error"]
    assert client.get(f"/api/uploads/{upload}", params={"readout": "none"}).json()["pattern"] == "2d"
    free = client.post("/api/check", json={**wish, "pattern": "2d", "readout": "none"}).json()
    assert free["budget"] == {"acquired": 120, "units": 480}
    lines = client.post("/api/check", json={**wish, "pattern": "1d", "axis": "kx", "readout": "none"}).json()
    assert lines["budget"] == {"acquired": 6, "units": 24}
    assert " --readout none " in lines["command"]
    assert " --axis kx " in lines["command"]


def test_names_in_files_are_text_of_limited_length(client, tmp_path):
    trap = "<img src=x onerror=alert(1)>"
    arrays = dict.fromkeys([trap, "a" * 5000, "two\nlines", "other"], np.eye(24)[None].repeat(3, axis=0))
    np.savez(tmp_path / "arrays.npz", **arrays)
    upload = sent(client, tmp_path / "arrays.npz")
    found = client.get(f"/api/uploads/{upload}").json()
    assert [choice["value"] for choice in found["choices"]] == [trap, "other"]
    assert {choice["argument"] for choice in found["choices"]} == {"array"}
    assert max(len(text) for fact in found["facts"] for text in fact) <= 300
    assert len(json.dumps(found)) < 5000
    chosen = client.get(f"/api/uploads/{upload}", params={"array": trap}).json()
    assert chosen["sentence"].startswith("images: 3 slices, y (24), x (24)")
    checked = client.post("/api/check", json={"upload": upload, "acceleration": 4, "array": trap}).json()
    assert shlex.split(checked["command"])[2:5] == ["arrays.npz", "--array", trap]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"axes": "slice kq kx"}, "unknown name 'kq'"),
        ({"axes": "slice ky kx coil"}, "4 names"),
        ({"axes": "slice " * 40}, "at most 200"),
        ({"array": "a" * 501}, "at most 500"),
        ({"array": "../../etc/passwd"}, "passwd"),
        ({"readout": "up"}, "kx or ky or kz or none"),
        ({"readout": "kz"}, "kz"),
        ({"each_frame": "perhaps"}, "each_frame"),
    ],
)
def test_ways_to_read_that_do_not_fit_are_one_sentence(server, client, scans, settings, words):
    answer = client.get(f"/api/uploads/{sent(client, scans)}", params=settings)
    assert answer.status_code == 400
    sentence = answer.json()["error"]
    assert words in sentence
    assert not {"\n", "`"} & set(sentence)
    assert str(server.studio.folder) not in sentence


def test_the_page_has_the_words_of_the_command_line(client):
    page = client.get("/").text
    array = options.READING["array"].__metadata__[0].help
    for words in (options.AXES_HELP, options.READOUT_HELP, options.EACH_FRAME_HELP, array):
        assert html.escape(words, quote=False) in page


def test_files_sent_together_are_a_folder(client, tmp_path):
    paths = [images_file(tmp_path / f"sub-{n}_scan.npz", count=3, seed=n) for n in range(4)]
    upload = sent(client, *paths)
    found = client.get(f"/api/uploads/{upload}").json()
    assert found["images"] == 12
    checked = client.post("/api/check", json={"upload": upload, "acceleration": 4}).json()
    assert checked["command"] == "promask learn scans --accel 4 --out runs/scans-x4"


def test_the_two_files_of_bart_are_one_data_set(client, tmp_path, commands, scans):
    commands("baseline", "random", scans, "--accel", 2, "--out", "mask.cfl")
    upload = sent(client, tmp_path / "mask.hdr", tmp_path / "mask.cfl")
    checked = client.post("/api/check", json={"upload": upload, "acceleration": 4}).json()
    assert checked["command"].startswith("promask learn mask.cfl ")


@pytest.mark.parametrize(
    ("name", "status", "kept"),
    [
        ("..%5C..%5Cx.npz", 201, "x.npz"),
        ("folder%5Cx.npz", 201, "x.npz"),
        (".hidden.npz", 201, "hidden.npz"),
        ("-out%20of%3Bline.npz", 201, "out_of_line.npz"),
        ("acdc%3Ax.npz", 201, "acdc_x.npz"),
        ("%00a%0Ab.NII.GZ", 201, "a_b.NII.GZ"),
        ("a" * 300 + ".npz", 201, "a" * 100 + ".npz"),
        ("..%5Cmy%20mask.PNG", 201, "my_mask.PNG"),
        ("..%2F..%2Fx.npz", 404, None),
        ("%2Fetc%2Fx.npz", 404, None),
        ("%2E%2E", 400, None),
        (".npz", 400, None),
        ("run.sh", 400, None),
        ("x.npz.py", 400, None),
        ("x.pkl", 400, None),
    ],
)
def test_names_are_never_places(server, client, name, status, kept):
    upload = client.post("/api/uploads").json()["upload"]
    # httpx would tidy the path up; the bytes go as they are.
    url = client.base_url.copy_with(raw_path=f"/api/uploads/{upload}/{name}".encode())
    before = set(server.studio.folder.rglob("*"))
    answer = client.put(url, content=b"bytes")
    assert answer.status_code == status, answer.text
    new = set(server.studio.folder.rglob("*")) - before
    assert new == (set() if kept is None else {server.studio.uploads.get(upload).files / kept})


@pytest.mark.parametrize("told", [True, False])
def test_what_is_too_large_is_refused_and_leaves_nothing(server, client, told):
    upload = client.post("/api/uploads").json()["upload"]
    whole = b"x" * 1_200_000
    body = whole if told else iter([whole[:600_000], whole[600_000:]])
    answer = client.put(f"/api/uploads/{upload}/big.npy", content=body)
    assert answer.status_code == 413
    assert "larger than 1 MB" in answer.json()["error"]
    found = server.studio.uploads.get(upload)
    assert list(found.files.iterdir()) == []
    assert client.put(f"/api/uploads/{upload}/small.npy", content=b"x" * 900_000).status_code == 201
    assert client.put(f"/api/uploads/{upload}/other.npy", content=b"x" * 200_000).status_code == 413, "together"


def test_an_upload_that_breaks_off_leaves_nothing(server, client):
    upload = client.post("/api/uploads").json()["upload"]

    def broken():
        yield b"x" * 1000
        raise ConnectionError

    with pytest.raises(ConnectionError):
        client.put(f"/api/uploads/{upload}/scan.npy", content=broken())
    found = server.studio.uploads.get(upload)
    until(lambda: not found.names)
    assert list(found.files.iterdir()) == []
    assert found.size == 0


def test_files_are_counted_and_their_names_differ(client, monkeypatch):
    monkeypatch.setattr(uploads_module, "MOST_FILES", 2)
    upload = client.post("/api/uploads").json()["upload"]
    statuses = [
        client.put(f"/api/uploads/{upload}/{name}", content=b"x").status_code
        for name in ("a.npy", "A.npy", "b.npy", "c.npy")
    ]
    assert statuses == [201, 409, 201, 413]
    assert client.put(f"/api/uploads/{upload}/a.npy", content=b"").status_code == 409


def test_only_built_in_sets_and_uploads_are_opened(client, scans):
    for data in (str(scans), "scans.npz", "/etc/passwd", f"acdc:{scans.parent}", "head+phase", ""):
        answer = client.post("/api/jobs", json={"data": data, **SMALL})
        assert answer.status_code == 400
        assert "is not a built-in data set" in answer.json()["error"]
    assert client.post("/api/jobs", json={"upload": str(scans), **SMALL}).status_code == 404
    assert client.post("/api/jobs", json=SMALL).status_code == 400
    assert client.post("/api/jobs", json={"data": "head", "upload": "x", **SMALL}).status_code == 400


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"init": "/etc/passwd"}, "init"),
        ({"network": "x.safetensors"}, "network"),
        ({"maps": "x.npy"}, "maps"),
        ({"out": "/tmp/x"}, "out"),
        ({"acceleration": 0.5}, "at least 1"),
        ({"acceleration": "8"}, "acceleration"),
        ({"acceleration": True}, "acceleration"),
        ({"pattern": "3d"}, "2d or 1d"),
        ({"loss": "segmentation"}, "mse or l1 or ssim"),
        ({"recon": "network"}, "zero-filled"),
        ({"axis": 0}, "1d"),
        ({"pattern": "1d", "axis": 2}, "0 or 1"),
        ({"pattern": "1d", "axis": "kq"}, "such as ky"),
        ({"axes": "slice kq kx"}, "unknown name 'kq'"),
        ({"axes": 3}, "axes"),
        ({"readout": "up"}, "kx or ky or kz or none"),
        ({"each_frame": "true"}, "each_frame"),
        ({"allow_readout": True}, "allow_readout"),
        ({"steps": 0}, "at least 1"),
        ({"steps": 2.5}, "steps"),
        ({"seed": -1}, "seed"),
        ({"coils": 1000}, "at most 64"),
    ],
)
@pytest.mark.parametrize("call", ["check", "jobs"])
def test_bad_settings_are_one_sentence(client, wish, words, call):
    answer = client.post(f"/api/{call}", json={"data": "head", **SMALL, **wish})
    assert answer.status_code == 400
    sentence = answer.json()["error"]
    assert words in sentence
    assert sentence.endswith(".")
    assert not {"\n", "`"} & set(sentence)


def test_a_body_that_is_no_json(client):
    answer = client.post("/api/jobs", content=b"{", headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}


def test_the_budget_is_told_when_the_data_are_known(client, scans):
    upload = sent(client, scans)
    wish = {"upload": upload, "acceleration": 5}
    assert client.post("/api/check", json=wish).json()["budget"] is None
    client.get(f"/api/uploads/{upload}")
    assert client.post("/api/check", json=wish).json()["budget"] == {"acquired": 115, "units": 576}
    lines = client.post("/api/check", json={**wish, "pattern": "1d"}).json()
    assert lines["budget"] == {"acquired": 4, "units": 24}
    too_wide = client.post("/api/check", json={**wish, "centre": 20})
    assert too_wide.status_code == 400
    assert "400 samples" in too_wide.json()["error"]


def test_damaged_files_are_one_sentence_without_places(server, client, tmp_path):
    path = tmp_path / "scan.npz"
    path.write_bytes(b"PK nonsense")
    upload = sent(client, path)
    answer = client.get(f"/api/uploads/{upload}")
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("scan.npz ")
    ended = events_of(client, asked(client, upload=upload, **SMALL)["id"])[-1]
    assert (ended["state"], ended["error"]) == ("failed", answer.json()["error"])
    assert str(server.studio.folder) not in json.dumps(ended)
    assert client.get(f"/api/jobs/{ended['id']}/mask").status_code == 409


def test_nothing_in_a_file_is_executed(client, tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "trapped"), "w"))

    np.save(tmp_path / "trap.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    upload = sent(client, tmp_path / "trap.npy")
    assert client.get(f"/api/uploads/{upload}").status_code == 400
    assert events_of(client, asked(client, upload=upload, **SMALL)["id"])[-1]["state"] == "failed"
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("name", ["mask.mat", "mask.cfl"])
def test_a_mask_of_ones_own_is_in_the_report(server, client, scans, tmp_path, commands, name):
    commands("baseline", "gaussian", scans, "--accel", 3, "--out", name)
    mask = sent(client, *sorted(tmp_path.glob("mask.*")))
    assert client.get(f"/api/uploads/{mask}/mask").json() == {"shape": [24, 24], "acceleration": 3.0}
    wish = {"upload": sent(client, scans), "mask": mask, **SMALL}
    command = client.post("/api/check", json=wish).json()["command"]
    assert command == (
        "promask learn scans.npz --accel 4 --steps 5 --out runs/scans-x4 && "
        f"promask report runs/scans-x4 --beside yours={name}"
    )
    ended = events_of(client, asked(client, **wish)["id"])[-1]
    assert (ended["state"], ended["command"]) == ("done", command)
    page = client.get(f"/api/jobs/{ended['id']}/report.html").text
    rows = {row["cells"][0]["text"]: row["cells"] for row in content_of(page)["compared"]["rows"]}
    wanted = json.loads(commands("evaluate", name, scans, "--json"))
    assert rows["yours"][1]["text"] == "3"
    assert rows["yours"][2]["value"] == pytest.approx(wanted["psnr"], rel=1e-5)
    assert "yours" in content_of(page)["masks"]
    assert str(server.studio.folder) not in page
    until(lambda: not any(server.studio.uploads.get(each).users for each in (mask, wish["upload"])))


def test_masks_that_do_not_fit_or_are_none(server, client, scans, tmp_path):
    wish = {"upload": sent(client, scans), **SMALL}

    def refusals(*paths):
        """What is said of a mask, and of a job that has it."""
        mask = sent(client, *paths)
        answer = client.get(f"/api/uploads/{mask}/mask")
        job = client.post("/api/jobs", json={**wish, "mask": mask})
        said = job.json()["error"] if job.status_code != 201 else events_of(client, job.json()["id"])[-1]["error"]
        assert str(server.studio.folder) not in said
        return answer.json(), said

    np.save(tmp_path / "other.npy", np.ones((30, 24)))
    assert refusals(tmp_path / "other.npy") == (
        {"shape": [30, 24], "acceleration": 1.0},
        "yours: The mask has shape [30, 24], but the k-space of the data has shape [24, 24]: "
        "promask.export.resized carries it there.",
    )
    (tmp_path / "bad.png").write_bytes(b"\x89PNG nonsense")
    told, said = refusals(tmp_path / "bad.png")
    assert told == {"error": said}
    assert said.startswith("bad.png is damaged or not of the format png")
    sentence = "A mask is one file, or the two of BART: choose one mask."
    assert refusals(tmp_path / "other.npy", tmp_path / "bad.png") == ({"error": sentence}, sentence)
    for call in ("check", "jobs"):
        answer = client.post(f"/api/{call}", json={**wish, "mask": str(tmp_path / "other.npy")})
        assert answer.status_code == 404


def test_a_port_that_is_taken(server):
    studio = Studio(threads=1)
    try:
        with pytest.raises(ValueError, match="leave out `port`"):
            Server(studio, server.socket.getsockname()[1])
    finally:
        studio.close()
