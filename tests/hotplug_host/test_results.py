import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from hotplug_host import results
from hotplug_host.errors import ExitCode, ToolError
from tests.samples import resultfiles


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_line_is_on_the_disk_before_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    path = tmp_path / "out"
    monkeypatch.setattr("os.fsync", lambda _fd: synced.append(path.read_bytes()))
    writer = results.create(path)
    writer.append({"a": 1})
    writer.append({"b": 2})
    assert synced == [b'{"a":1}\n', b'{"a":1}\n{"b":2}\n']
    writer.close()


def test_an_existing_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("precious")
    with pytest.raises(ToolError, match="exists; continue it with --resume") as caught:
        results.create(path)
    assert caught.value.code == ExitCode.USAGE
    assert path.read_text() == "precious"
    with pytest.raises(ToolError, match="cannot create") as caught:
        results.create(tmp_path / "missing" / "out")
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_full_disk_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    writer = results.create(path)
    writer.append({"a": 1})
    write = os.write
    calls: list[int] = []

    def full(descriptor: int, data: bytes) -> int:
        calls.append(descriptor)
        if len(calls) == 1:
            return write(descriptor, data[:4])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.write", full)
    with pytest.raises(
        ToolError, match=r"cannot write to .*out: No space left on device; .*--resume"
    ) as caught:
        writer.append({"b": 2})
    assert caught.value.code == ExitCode.ENVIRONMENT
    assert path.read_bytes() == b'{"a":1}\n'
    writer.close()


def test_a_file_that_may_not_grow_keeps_whole_lines(tmp_path: Path) -> None:
    """The same with the kernel saying no."""
    path = tmp_path / "out"
    code = (
        "import sys\nfrom pathlib import Path\nfrom hotplug_host import results\n"
        "from hotplug_host.errors import ToolError\n"
        "writer = results.create(Path(sys.argv[1]))\n"
        "try:\n    while True: writer.append({'filler': 'x' * 80})\n"
        "except ToolError as error: print(error)\n"
    )
    done = subprocess.run(
        # Bytecode that may not grow either would break each later start.
        [sys.executable, "-B", "-c", code, path],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert done.stdout.startswith(f"cannot write to {path}: File too large; what it holds is kept")
    assert len(lines(path)) == 1000 // 94
    assert path.read_bytes().endswith(b"\n")


def test_previous_counts_what_succeeded_and_forgets_a_line_cut_short(tmp_path: Path) -> None:
    good = resultfiles.records("r1", "stock", [2.0, 2.1], [1.0])
    good.insert(
        4, resultfiles.iteration("r1", 2, "smt=on", None, phase="timed", status="failed", counts=None)
    )
    path = resultfiles.write(tmp_path / "out", good, tail='{"record":"iterat')
    previous = results.read_previous(path)
    assert previous is not None
    assert previous.done == {("timed", 1, "smt=off"), ("timed", 2, "smt=off"), ("timed", 1, "smt=on")}
    results.reopen(path, previous.whole_bytes).close()
    assert lines(path) == good


@pytest.mark.parametrize("text", ["", '{"record":"run","schema":"hotpl'])
def test_a_file_without_a_whole_line_is_started_over(tmp_path: Path, text: str) -> None:
    path = tmp_path / "out"
    path.write_text(text)
    assert results.read_previous(path) is None
    assert results.read_previous(tmp_path / "missing") is None


@pytest.mark.parametrize(
    "text",
    [
        "hello\n",
        "hello",
        "[]\n",
        "{}\n",
        '{"record":"run","schema":"kcidb/2"}\n',
        '{"record":"end"}\n',
    ],
)
def test_a_foreign_file_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "out"
    path.write_text(text)
    with pytest.raises(ToolError, match=r"out:1: not a result of schema result/3") as caught:
        results.read_previous(path)
    assert caught.value.code == ExitCode.INPUT
    assert path.read_text() == text


def test_a_file_of_a_later_schema_is_not_continued(tmp_path: Path) -> None:
    record = {**resultfiles.run_record(), "schema": "result/4"}
    path = resultfiles.write(tmp_path / "out", [record])
    with pytest.raises(
        ToolError, match=r"out:1: written for schema result/4, .* writes result/3; continue it with"
    ) as caught:
        results.read_previous(path)
    assert caught.value.code == ExitCode.INPUT


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_file_of_an_earlier_schema_is_to_be_converted_first(tmp_path: Path, version: str) -> None:
    record = {**resultfiles.run_record(), "schema": f"hotplug-timer/{version}"}
    path = resultfiles.write(tmp_path / "out", [record])
    with pytest.raises(ToolError, match=rf"written for schema hotplug-timer/{version}, ") as caught:
        results.read_previous(path)
    assert caught.value.code == ExitCode.INPUT
    assert caught.value.hint.startswith(f"hotplug-timer convert {path} -o COPY makes a result/3 file")


def test_differences_are_all_named(tmp_path: Path) -> None:
    before = resultfiles.run_record()
    results.check_same(tmp_path, before, resultfiles.run_record(minute=5))
    now = resultfiles.run_record(variant="patched")
    now["tool"] = "clock-check"
    now["detail"]["via"] = "smt-control"
    now["settings"]["operations"] = ["smt=off"]
    now["rcu"] = {"rcu_expedited": "1"}
    with pytest.raises(ToolError) as caught:
        results.check_same(tmp_path, before, now)
    assert caught.value.code == ExitCode.USAGE
    for words in (
        "tool was hotplug-timer, is clock-check",
        "variant was stock, is patched",
        "driver (--via) was auto, is smt-control",
        'operations was ["smt=off", "smt=on"], is ["smt=off"]',
        "kernel release was 6.12.117-stock-1a2b3c4d, is 6.12.117-patched-1a2b3c4d",
        'RCU settings was {"rcu_expedited": "0"}, is {"rcu_expedited": "1"}',
    ):
        assert words in caught.value.message
