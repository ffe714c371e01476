"""The audits of many hosts as one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clock_check import cli
from hotplug_host.errors import ExitCode
from tests.fakes.fakeclocks import FakeClocks, replies, write_probe

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def audited(host: FakeClocks, run: Run, tmp_path: Path) -> Callable[..., Path]:
    """Put an audit of the fake host, measured with this probe, into a file of this name."""

    def take(name: str, measured: tuple[Path, ...] = (), **changes: Any) -> Path:
        code, out, err = run("audit", "--json", *(f"--measured={path}" for path in measured))
        assert code == 0, err
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(json.loads(out) | changes))
        return path

    return take


def hosts(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main(["hosts", *map(str, arguments)])
    return (code, *capsys.readouterr())


def rows(text: str) -> list[dict[str, str]]:
    """The rows of a Markdown table."""
    lines = [line.strip("|\n ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def test_every_host_has_a_row_with_what_it_should_use_and_why(
    host: FakeClocks,
    run: Run,
    audited: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = [tmp_path / "order", tmp_path / "scale"]
    probe = write_probe(tmp_path / "p", replies(violations=2))
    for path in results:
        run(path.name, f"--probe={probe}", f"--output={path}", *(["--threads=1,2"] * (path.name == "scale")))
    bad = audited("db1.example", tuple(results), hypervisor="<b>|")
    host.say_of_cpus("tsc", "constant_tsc", "nonstop_tsc")
    (host.root / "dev/kmsg").unlink()
    good = audited("web1", applied={"before": "hpet", "now": "tsc"})

    code, out, err = hosts(capsys, bad, good)

    assert (code, err) == (0, "")
    assert out.splitlines()[0] == (
        "1 of 2 hosts use the clocksource they should; another one is better for db1.example"
    )
    first, second = rows(out)
    assert first["why"].startswith("slow, but the same on all CPUs; not tsc: order/vdso/")
    assert {name: first[name] for name in list(first)[:-1]} == {
        "host": "db1.example",
        "kernel": "6.12.117-stock-1a2b3c4d x86_64",
        "hypervisor": "&#60;b&#62;&#124;",
        "clocksource": "tsc",
        "others": "hpet acpi_pm",
        "TSC invariant": "-",
        "messages": "0",
        "us/call, 1 thread": "0.025",
        "us/call, most threads": "0.025",
        "went back": "4",
        "applied": "-",
        "recommended": "hpet",
    }
    assert second["applied"] == "tsc (was hpet)"
    assert (second["TSC invariant"], second["messages"], second["went back"]) == ("yes", "unknown", "-")


def test_hosts_without_any_clock_to_rely_on_are_named(
    host: FakeClocks, audited: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    host.put("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc ")
    host.log("tsc: Marking TSC unstable due to X")
    code, out, _ = hosts(capsys, audited("lost"))
    assert code == 0
    assert "0 of 1 hosts use the clocksource they should; none can be relied on at lost" in out
    assert rows(out)[0]["recommended"] == "none"


def test_the_files_hold_the_table_and_the_audits(
    audited: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = audited("web1")
    folder = tmp_path / "new/table"
    code, out, _ = hosts(capsys, path, f"--output-dir={folder}")
    assert code == 0
    assert out.splitlines() == [str(folder / "clocks.md"), str(folder / "clocks.json")]
    assert rows((folder / "clocks.md").read_text())[0]["host"] == "web1"
    assert json.loads((folder / "clocks.json").read_text()) == {
        "schema": "clock-hosts/1",
        "hosts": [{"name": "web1", **json.loads(path.read_text())}],
    }
    (tmp_path / "file").write_text("")
    code, _, err = hosts(capsys, path, f"--output-dir={tmp_path / 'file'}")
    assert code == ExitCode.ENVIRONMENT
    assert "cannot write the table to" in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file or directory; name files of audit --json"),
        ("{", "x.json is no clock-audit/1"),
        ("[" * 100_000, "x.json is no clock-audit/1"),
        ('{"schema": "clock-audit/2"}', "x.json is no clock-audit/1"),
        ('{"schema": "clock-audit/1"}', "x.json: audit: 'taken' is a required property"),
    ],
)
def test_what_is_no_audit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, words: str
) -> None:
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    code, out, err = hosts(capsys, path)
    assert (code, out) == (ExitCode.INPUT, "")
    assert words in err
    assert err.count("\n") == 1
