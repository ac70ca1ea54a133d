"""Sets from the hub, fetched from a small server in this process that answers as the hub does."""

import hashlib
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.conftest import turbosvm
from turbosvm.data import store
from turbosvm.data.sources import hub
from turbosvm.errors import TurboSVMError

COMMIT, OTHER_COMMIT = "1" * 40, "2" * 40
PAUSE = 0.02
DRIVER = """
import json, os, sys
from turbosvm.cli.main import main
from turbosvm.data.sources.png import decode_grey
import turbosvm.data.preparation.prepare, turbosvm.data.sources.hub_tables
decode_grey([], 28, 28)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        os.environ.clear()
        os.environ.update(order["environment"])
        for number, file in ((1, order["out"]), (2, order["err"])):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.argv = ["turbosvm", *order["arguments"]]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs each command in a process of its own that has what is slow to load, but not the hub's client."""


def femnist_table(writers: list[str]) -> bytes:
    """A table such as the hub has, of two samples for each writer."""
    pictures = []
    for grey in range(2 * len(writers)):
        file = io.BytesIO()
        Image.fromarray(np.full((28, 28), 10 * grey, dtype=np.uint8)).save(file, "PNG")
        pictures.append({"bytes": file.getvalue(), "path": None})
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    writer_ids = [writer for writer in writers for _ in range(2)]
    columns = {"image": pa.array(pictures, kind), "writer_id": writer_ids, "character": [0, 61] * len(writers)}
    table = io.BytesIO()
    pq.write_table(pa.table(columns), table)
    return table.getvalue()


FILES = {
    "data/train-00000-of-00002.parquet": femnist_table(["f0001_41", "f0002_00"]),
    "data/train-00001-of-00002.parquet": femnist_table(["f0003_10"]),
    "README.md": b"# A set\n",
    "pictures/sheet.png": b"no picture",
}


@dataclass
class Hub:
    """A server that has some repositories, keeps what it was asked for, and can be told to break off.

    Args:
        revisions: for each repository, its revisions, and the files of each.
        asked: the requests so far.
        broken: files are sent by half, and the other half is not to be had.
    """

    revisions: dict[str, dict[str, tuple[str, dict[str, bytes]]]]
    asked: list[tuple[str, str]] = field(default_factory=list)
    broken: bool = False
    endpoint: str = ""

    def files_sent(self) -> list[str]:
        """The names of the files whose content was asked for."""
        return sorted(path.rsplit("/", 1)[-1] for method, path in self.asked if method == "GET" and "/resolve/" in path)


class Answers(BaseHTTPRequestHandler):
    """The few answers of the hub that fetching a set needs."""

    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Answer without content."""
        self._answer(with_content=False)

    def do_GET(self) -> None:
        """Answer with content."""
        self._answer(with_content=True)

    def _answer(self, with_content: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path))
        kind, owner, name, what, revision, file = [*path.removeprefix("/api").strip("/").split("/", 5), *[""] * 6][:6]
        if kind != "datasets" or f"{owner}/{name}" not in self.hub.revisions:
            return self._send(404, b"", {"X-Error-Code": "RepoNotFound"}, with_content)
        found = self.hub.revisions[f"{owner}/{name}"]
        if revision not in found:
            return self._send(404, b"", {"X-Error-Code": "RevisionNotFound"}, with_content)
        commit, files = found[revision]
        if what == "revision":
            told = {"id": f"{owner}/{name}", "sha": commit, "siblings": [{"rfilename": each} for each in files]}
            return self._send(200, json.dumps(told).encode(), {}, with_content)
        if what == "tree":
            listed = [
                {"type": "file", "path": each, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for each, content in files.items()
            ]
            return self._send(200, json.dumps(listed).encode(), {}, with_content)
        if what == "resolve" and file in files:
            headers = {"ETag": f'"{hashlib.sha1(files[file]).hexdigest()}"', "X-Repo-Commit": commit}
            return self._send(200, files[file], headers, with_content, is_file=True)
        return self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, with_content)

    def _send(
        self, status: int, content: bytes, headers: dict[str, str], with_content: bool, is_file: bool = False
    ) -> None:
        begin = 0
        if (asked := self.headers.get("Range")) and self.hub.broken:
            status, content, is_file = 500, b"", False
        elif asked and with_content:
            begin, status = int(asked.removeprefix("bytes=").split("-")[0]), 206
            headers = headers | {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content) - begin)}.items():
            self.send_header(key, value)
        self.end_headers()
        if is_file and with_content and self.hub.broken:
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        elif with_content:
            self.wfile.write(content[begin:])


@pytest.fixture
def served() -> Iterator[Hub]:
    """A hub with one repository in two revisions."""
    files = {"main": (COMMIT, FILES), COMMIT: (COMMIT, FILES)}
    small = {"data/all.parquet": femnist_table(["f0009_99"])}
    files |= {"v1": (OTHER_COMMIT, small), OTHER_COMMIT: (OTHER_COMMIT, small)}
    made = Hub({"flwrlabs/femnist": files})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Answers,), {"hub": made}))
    made.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(PAUSE,))
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Person:
    """Someone at a command line, with caches of their own."""

    driver: "subprocess.Popen[str]"
    home: Path
    endpoint: str

    def prepare(self, *arguments: str, source: str = "hub:", out: str = "set") -> Done:
        """Prepare FEMNIST."""
        kept = {key: value for key, value in os.environ.items() if "proxy" not in key.lower() and key[:3] != "HF_"}
        ours = {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(self.home / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1"}
        ours |= {"TURBOSVM_CACHE": str(self.home / "sets"), "COLUMNS": "1000", "OMP_NUM_THREADS": "1"}
        files = {"out": str(self.home / "out.txt"), "err": str(self.home / "err.txt")}
        words = ["data", "prepare", "femnist", "--from", source, "--out", out, *arguments]
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        self.driver.stdin.write(json.dumps({"environment": kept | ours, "arguments": words, **files}) + "\n")
        self.driver.stdin.flush()
        status = int(self.driver.stdout.readline())
        return Done(status, Path(files["out"]).read_text(), Path(files["err"]).read_text())

    def refused(self, *arguments: str, source: str = "hub:") -> str:
        """Prepare FEMNIST, which goes wrong; returns the sentence that says why."""
        done = self.prepare(*arguments, source=source)
        assert done.status == 2, done
        assert "Traceback" not in done.err + done.out
        assert not list((self.home / "sets").glob("*"))
        assert not list((self.home / "sets").glob(".*"))
        return done.err.strip().splitlines()[-1]

    def counts(self, out: str = "set") -> tuple[int, int]:
        """How many users and samples a prepared set has."""
        data = store.load(self.home / "sets" / out)
        return len(data.users), len(data.labels)


@pytest.fixture(scope="module")
def driver() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", DRIVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def person(driver: "subprocess.Popen[str]", served: Hub, tmp_path: Path) -> Person:
    return Person(driver, tmp_path, served.endpoint)


@pytest.fixture
def lonely(person: Person) -> Person:
    """The same one, without a network."""
    return replace(person, endpoint="http://127.0.0.1:9")


def test_a_set_is_fetched_once_and_prepared_from_what_is_kept(served: Hub, person: Person, lonely: Person) -> None:
    done = person.prepare()
    assert done.status == 0, done
    assert "set: 3 users, 6 samples, prepared" in done.out
    assert person.counts() == (3, 6)
    tables = sorted(Path(name).name for name in FILES if name.endswith(".parquet"))
    assert served.files_sent() == tables
    assert not any(name in path for _, path in served.asked for name in ("README.md", "sheet.png"))

    asked = len(served.asked)
    assert "was prepared before" in person.prepare().out
    assert len(served.asked) == asked

    assert person.prepare(out="again").status == 0
    assert person.counts("again") == (3, 6)
    assert served.files_sent() == tables

    asked = len(served.asked)
    assert person.prepare("--offline", out="offline").status == 0
    assert person.counts("offline") == (3, 6)
    assert lonely.prepare(out="without a network").status == 0
    assert person.counts("without a network") == (3, 6)
    assert len(served.asked) == asked


def test_offline_without_a_cache_is_a_sentence(served: Hub, person: Person) -> None:
    sentence = person.refused("--offline")
    assert "hub:flwrlabs/femnist has not been fetched to this machine yet, and --offline forbids it" in sentence
    assert not served.asked


def test_no_network_is_a_sentence_and_soon(lonely: Person) -> None:
    began = time.monotonic()
    sentence = lonely.refused()
    assert "has not been fetched to this machine yet, and the hub cannot be reached" in sentence
    assert "--from PATH" in sentence
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("source", ["hub:nobody/nothing", "hub:flwrlabs/femnist@v2"])
def test_what_is_not_on_the_hub_is_said_to_be_missing(source: str, person: Person) -> None:
    assert f"{source} is not on the hub, or not for everyone to see" in person.refused(source=source)


def test_a_revision_is_the_one_that_is_fetched(served: Hub, person: Person) -> None:
    assert person.prepare(source="hub:flwrlabs/femnist@v1").status == 0
    assert store.load(person.home / "sets" / "set").users == ("f0009_99",)
    assert ("GET", "/api/datasets/flwrlabs/femnist/revision/v1") in served.asked
    assert served.files_sent() == ["all.parquet"]


def test_a_connection_that_breaks_leaves_nothing_and_a_later_try_succeeds(served: Hub, person: Person) -> None:
    served.broken = True
    assert "the hub cannot be reached" in person.refused()
    assert "has not been fetched" in person.refused("--offline")
    served.broken = False
    assert person.prepare().status == 0
    assert person.counts() == (3, 6)


@pytest.mark.parametrize("text", ["hub:bad", "hub:a/b/c", "hub:/", "hub:a/", "hub:/b", "hub:@v1"])
def test_what_names_no_set_is_refused(text: str) -> None:
    with pytest.raises(TurboSVMError, match="names no data set of the hub; write hub:OWNER/NAME"):
        hub.parse(text, "own")


def test_a_task_has_a_repository_of_its_own() -> None:
    assert hub.parse("hub:", "celeba") == hub.HubPlace("flwrlabs/celeba", "main")
    assert hub.parse("hub:@v1", "celeba") == hub.HubPlace("flwrlabs/celeba", "v1")
    assert str(hub.parse("hub:a/b@v1", "own")) == "hub:a/b@v1"


def test_a_name_that_is_none_is_refused_at_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert turbosvm("data", "prepare", "femnist", "--from", "hub:bad") == 2
    assert "'hub:bad' names no data set of the hub" in capsys.readouterr().err


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setattr(hub, "PATIENCE", 0.2)
        with pytest.raises(TurboSVMError, match=r"nobody/nothing has not been fetched .* the hub cannot be reached"):
            hub.fetch(hub.HubPlace("nobody/nothing"), offline=False)


def test_a_part_of_a_set_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    for part in (0, 2):
        (tmp_path / f"train-{part:05d}-of-00003.parquet").touch()
    assert hub._missing(tmp_path) == "train-00001-of-00003.parquet"
    (tmp_path / "train-00001-of-00003.parquet").touch()
    assert hub._missing(tmp_path) is None
