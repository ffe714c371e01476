"""The command line, with a stand-in for ansible-playbook."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hotplug_common import lock
from hotplug_host.errors import ToolError
from smt_fleet import cli, runs
from smt_fleet.costs import CHUNKS_PATCH
from tests.smt_fleet.test_costs import RELEASE, answer
from tests.smt_fleet.test_forecast import TIMER

#: The fixture below has the program take another one for its own.
PYTHON = sys.executable
#: Notes how it was called, and writes the events of the file `events` beside it.
PLAYBOOK = """#!{python}
import json, os, sys
from pathlib import Path
here = Path({here!r})
with (here / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + chr(10))
with (Path(os.environ["SMT_FLEET_RUN"]) / "state.jsonl").open("a") as state:
    state.write((here / "events").read_text())
sys.exit(int((here / "code").read_text()))
"""


class Stand:
    """A folder to call smt-fleet in."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys
        self.inventory = folder / "inventory.ini"
        self.inventory.write_text("[smt_hosts]\nlpar[1:3]\n")
        self.runs = folder / "runs"

    def plays(self, code: int, *events: dict[str, Any]) -> None:
        """Set what the next playbook does."""
        (self.folder / "events").write_text("".join(json.dumps(event) + "\n" for event in events))
        (self.folder / "code").write_text(str(code))

    def call(self, *words: str) -> tuple[int, str, str]:
        end = words.index("--") if "--" in words else len(words)
        code = cli.main([*words[:end], "--output-dir", str(self.runs), *words[end:]])
        return code, *self.capsys.readouterr()

    def calls(self) -> list[list[str]]:
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def run(self) -> Path:
        """The folder of the last run."""
        return sorted(self.runs.iterdir())[-1]


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Stand:
    programs = tmp_path / "bin"
    programs.mkdir()
    playbook = programs / "ansible-playbook"
    playbook.write_text(PLAYBOOK.format(python=PYTHON, here=str(tmp_path)))
    playbook.chmod(0o755)
    (programs / "ansible").symlink_to(Path(PYTHON).with_name("ansible"))
    monkeypatch.setattr(cli.sys, "executable", str(programs / "python"))
    monkeypatch.setenv("ANSIBLE_LOCALHOST_WARNING", "0")
    return Stand(tmp_path, capsys)


def planned(*hosts: str) -> dict[str, Any]:
    return {"event": "planned", "hosts": list(hosts)}


def became(host: str, *, failed: bool = False, held: bool | None = False) -> list[dict[str, Any]]:
    """The events of a host."""
    lock = (
        [] if held is None else [{"event": "fact", "host": host, "name": "run_lock", "value": {"held": held}}]
    )
    message = [{"event": "failed", "host": host, "message": f"{host} | broke"}] * failed
    ended = {"event": "ended", "host": host, "failed": failed, "changed": True}
    return [{"event": "phase", "host": host, "phase": "change"}, *lock, *message, ended]


def variables(call: list[str]) -> dict[str, Any]:
    file = next(word for word in call if word.startswith("@")).removeprefix("@")
    found: dict[str, Any] = json.loads(Path(file).read_text())
    return found


def test_a_run_leaves_its_summary_and_ends_with_the_worst_host(stand: Stand) -> None:
    hosts = [
        *became("lpar1"),
        *became("lpar2", failed=True, held=True),
        *became("lpar3", failed=True, held=None),
    ]
    stand.plays(2, planned("lpar1", "lpar2", "lpar3"), *hosts, {"event": "end"})

    code, out, err = stand.call("apply", "-i", str(stand.inventory), "--level", "off", "--batches", "1,50%")

    assert code == 6
    assert "1 ok, 1 LEFT-CHANGED, 1 unfit" in out
    folder = stand.run()
    assert f"its state is in {folder}" in err
    assert (folder / "failed.txt").read_text() == "lpar2\nlpar3\n"
    rows = json.loads((folder / "summary.json").read_text())
    assert rows["exit_code"] == 6
    assert [(row["host"], row["verdict"], row["message"]) for row in rows["hosts"]] == [
        ("lpar1", "ok", None),
        ("lpar2", "LEFT-CHANGED", "lpar2 | broke"),
        ("lpar3", "unfit", "lpar3 | broke"),
    ]
    assert len((folder / "summary.csv").read_text().splitlines()) == 4
    assert "lpar2 &#124; broke" in (folder / "summary.md").read_text()
    assert "<td>lpar2 | broke</td>" in (folder / "summary.html").read_text()
    (call,) = stand.calls()
    assert call[:2] == ["-i", str(stand.inventory)]
    given = variables(call)
    assert (given["smt_switch_level"], given["fleet_batches"]) == ("off", [1, "50%"])


def test_resume_goes_on_with_what_is_left_and_rollback_undoes_what_was_done(stand: Stand) -> None:
    hosts = [
        *became("lpar1"),
        *became("lpar2", failed=True, held=True),
        *became("lpar3", failed=True, held=None),
    ]
    stand.plays(2, planned("lpar1", "lpar2", "lpar3"), *hosts, {"event": "end"})
    stand.call("apply", "-i", str(stand.inventory), "--level", "off")
    first = stand.run()
    stand.plays(0, planned("lpar2", "lpar3"), *became("lpar2"), *became("lpar3"), {"event": "end"})

    code, out, err = stand.call("resume", "last")

    assert code == 0
    assert "3 ok" in out
    assert "going on with 2 hosts" in err
    call = stand.calls()[-1]
    assert call[call.index("--limit") + 1] == "lpar2,lpar3"
    assert variables(call)["smt_switch_resume"] is True
    assert (first / "failed.txt").read_text() == ""
    assert stand.call("resume", first.name)[:2] == (0, f"{first.name}: every host is as asked\n")
    assert len(stand.calls()) == 2

    stand.plays(0, planned("lpar1", "lpar2", "lpar3"), {"event": "end"})
    stand.call("rollback", first.name)

    call = stand.calls()[-1]
    assert call[call.index("--limit") + 1] == "lpar1,lpar2,lpar3"
    assert any(word.endswith("playbooks/rollback.yml") for word in call)


def test_status_and_report_read_a_run_that_goes_on(stand: Stand) -> None:
    stand.plays(0, planned("lpar1"), *became("lpar1"), {"event": "end"})
    stand.call("apply", "-i", str(stand.inventory), "--level", "off")
    folder = stand.run()
    runs.note(folder, "resumed", hosts=["lpar1"])
    runs.note(folder, "phase", host="lpar1", phase="change")
    with (folder / "state.jsonl").open("a") as state:
        state.write('{"event": "ended", "ho')

    with lock.held_if_free(folder / "lock"):
        code, out, _ = stand.call("status", "last", "--format", "json")
        refused = stand.call("resume", "last")

    assert code == 0
    found = json.loads(out)
    assert (found["over"], found["exit_code"]) == (False, None)
    assert [(row["phase"], row["verdict"]) for row in found["hosts"]] == [("change", "running")]
    assert (refused[0], "is at work; see smt-fleet status" in refused[2]) == (3, True)

    # Its controller has died.
    found = json.loads(stand.call("status", "last", "--format", "json")[1])
    assert (found["over"], found["exit_code"]) == (True, 7)
    assert "| not-reached |" in stand.call("report", "last", "--format", "markdown")[1]
    assert "| not-reached |" in (folder / "summary.md").read_text()


class Hook(BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    got: ClassVar[list[dict[str, Any]]]
    told: ClassVar[Path] = Path(os.devnull)
    """A file to make when something came."""

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.told.touch()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        pass


def test_what_follows_two_dashes_goes_to_ansible_playbook(stand: Stand) -> None:
    stand.plays(0, planned("lpar1"), *became("lpar1"), {"event": "end"})
    hosts = ("-i", str(stand.inventory))
    for words in (
        ("check", *hosts),
        ("apply", *hosts, "--level", "off"),
        ("rollback", *hosts),
        ("rollback", "last"),
    ):
        assert stand.call(*words, "--", "last", "--check", "--diff")[0] == 0
        assert stand.calls()[-1][-3:] == ["last", "--check", "--diff"]


@pytest.fixture
def hook() -> Iterator[str]:
    """The address of a web hook that keeps what it is sent."""
    Hook.got = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook"
        server.shutdown()
        thread.join()


def test_a_web_hook_hears_of_a_host_that_is_left_changed_while_the_run_goes_on(
    stand: Stand, hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "LOOK_S", 0.05)
    begun = {"event": "fact", "host": "lpar1", "name": "fleet_begun", "value": True}
    *left, over = became("lpar1", failed=True, held=True)
    stand.plays(2, planned("lpar1", "lpar2"), begun, *left, {"event": "batch"})
    playbook = stand.folder / "bin/ansible-playbook"
    rest = "".join(json.dumps(event) + "\n" for event in [over, *became("lpar2"), {"event": "end"}])
    wait = f"""import time
end = time.monotonic() + 60
while not (here / "told").exists() and time.monotonic() < end:
    time.sleep(0.01)
with (Path(os.environ["SMT_FLEET_RUN"]) / "state.jsonl").open("a") as state:
    state.write({rest!r})
"""
    playbook.write_text(playbook.read_text().replace("sys.exit", f"{wait}sys.exit"))
    monkeypatch.setattr(Hook, "told", stand.folder / "told")

    code, out, err = stand.call(
        "apply", "-i", str(stand.inventory), "--level", "off", "--max-failed", "100", "--notify", hook
    )

    assert (code, "warning" in err) == (6, False), out + err
    assert [(got["over"], got["exit_code"]) for got in Hook.got] == [(False, None), (True, 6)]
    verdicts = [[row["verdict"] for row in got["hosts"]] for got in Hook.got]
    assert verdicts == [["LEFT-CHANGED", "not-reached"], ["LEFT-CHANGED", "ok"]]


@pytest.mark.slow
def test_a_web_hook_gets_the_summary_and_cannot_fail_the_run(stand: Stand, hook: str) -> None:
    stand.plays(0, planned("lpar1"), *became("lpar1"), {"event": "end"})
    words = ("apply", "-i", str(stand.inventory), "--level", "off", "--notify")
    assert stand.call(*words, hook)[0] == 0
    assert [(got["exit_code"], len(got["hosts"])) for got in Hook.got] == [(0, 1)]

    # Bound and not listening: its port refuses, and no other process can get it meanwhile.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/hook"
        code, _, err = stand.call(*words, url)
    assert code == 0
    assert f"smt-fleet: warning: {url} did not take the summary: [Errno 111]" in err


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_lets_ansible_end_and_the_summary_is_written(stand: Stand, number: int, code: int) -> None:
    """A terminal sends the one to both; the other comes to smt-fleet alone, which passes it on."""
    playbook = stand.folder / "bin/ansible-playbook"
    end = json.dumps([planned("lpar1"), *became("lpar1", failed=True), {"event": "end"}])
    playbook.write_text(
        f"#!{PYTHON}\nimport json, os, time\nfrom pathlib import Path\n"
        f"try:\n    open({str(stand.folder / 'begun')!r}, 'w').close()\n"
        "    time.sleep(60)\nexcept KeyboardInterrupt:\n    time.sleep(0.5)\n"
        f"    lines = ''.join(json.dumps(one) + chr(10) for one in json.loads({end!r}))\n"
        "    (Path(os.environ['SMT_FLEET_RUN']) / 'state.jsonl').write_text(lines)\n"
    )
    (stand.folder / "bin/python").symlink_to(PYTHON)
    words = ["apply", "-i", str(stand.inventory), "--level", "off", "--output-dir", str(stand.runs)]
    process = subprocess.Popen(
        [str(stand.folder / "bin/python"), "-m", "smt_fleet.cli", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (stand.folder / "begun").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)

    out, _ = process.communicate(timeout=30)

    assert process.returncode == code
    assert "failed-restored" in out
    assert "failed-restored" in (stand.run() / "summary.csv").read_text()


@pytest.mark.slow
def test_what_measures_has_its_variables_and_one_host_at_a_time(stand: Stand) -> None:
    kernels = {name: stand.folder / f"{name}.json" for name in ("stock", "patched")}
    for kernel in kernels.values():
        kernel.write_text("{}")
    stand.plays(0, planned("lpar1"), *became("lpar1"), {"event": "end"})
    hosts = ("-i", str(stand.inventory))
    variants = [word for name, kernel in kernels.items() for word in ("--variant", f"{name}={kernel}")]

    code, out, _ = stand.call("plan", "ab", *hosts, *variants, "--format", "json")
    assert code == 0
    assert [batch["hosts"] for batch in json.loads(out)["batches"]] == [["lpar1"], ["lpar2"], ["lpar3"]]

    assert stand.call("ab", *hosts, *variants, "--max-failed", "20")[0] == 0
    given = variables(stand.calls()[-1])
    assert given["ab_variants"] == [{"name": n, "artifact": str(k)} for n, k in kernels.items()]
    assert (given["ab_iterations"], given["ab_repeat"]) == (3, 2)
    assert (given["ab_max_fail_percentage"], given["fleet_batches"]) == (20, [1])
    assert given["ab_results_dir"] == str(stand.run())

    installed = ("--variant", "debian=running", "--variant", "patched=installed:6.12.118-smt-patched")
    assert stand.call("ab", *hosts, *installed)[0] == 0
    assert variables(stand.calls()[-1])["ab_variants"] == [
        {"name": "debian", "release": "running"},
        {"name": "patched", "release": "6.12.118-smt-patched"},
    ]

    files = [word for name, kernel in kernels.items() for word in (f"--{name}", str(kernel))]
    assert stand.call("regress", *hosts, *files, "--dir", str(stand.folder / "kept"))[0] == 0
    given = variables(stand.calls()[-1])
    assert given["regress_artifacts"] == {name: str(kernel) for name, kernel in kernels.items()}
    assert given["regress_dir"] == str(stand.folder / "kept")
    assert given["regress_max_fail_percentage"] == 0

    assert stand.call("regress", *hosts, "--build", "6.12", "--dir", str(stand.folder / "kept"))[0] == 0
    given = variables(stand.calls()[-1])
    assert (given["regress_build"], given["regress_artifacts"]) == ("6.12", {})
    assert "ab_iterations" not in given, "those of the inventory hold"
    for words in ((), files[:2], (*files, "--build", "6.12")):
        code, _, err = stand.call("regress", *hosts, *words, "--dir", str(stand.folder / "kept"))
        assert code == 2
        assert "give --stock and --patched, or --build" in err


@pytest.mark.slow
def test_where_a_switch_takes_an_hour_each_boot_has_one_iteration_and_the_hours_come_first(
    stand: Stand,
) -> None:
    (stand.folder / "k.json").write_text("{}")
    words = ["-i", str(stand.inventory)]
    words += [
        word for name in ("stock", "patched") for word in ("--variant", f"{name}={stand.folder / 'k.json'}")
    ]
    stand.plays(0, planned("lpar1"), *became("lpar1"), {"event": "end"})

    code, _, err = stand.call("ab", *words, "--switch-minutes", "110")

    assert code == 0
    # Nine boots of 15 minutes; four or eight times 110 minutes.
    assert (
        "4 boots of each kernel, 1 of off and on in each: 9.6 hours a host if stock alone is slow, 16.9"
        in err
    )
    given = variables(stand.calls()[-1])
    assert (given["ab_iterations"], given["ab_repeat"], given["fleet_host_minutes"]) == (1, 2, 1015)
    assert stand.call("ab", *words, "--switch-minutes", "19", "--iterations", "2", "--minutes", "60")[0] == 0
    given = variables(stand.calls()[-1])
    assert (given["ab_iterations"], given["fleet_host_minutes"]) == (2, 60)
    for option, number in (("--boots", "3"), ("--boots", "0"), ("--iterations", "0")):
        code, _, err = stand.call("ab", *words, option, number)
        assert (code, f"'{number}' is not" in err) == (2, True)


@pytest.mark.slow
def test_a_plan_has_batches_and_refuses_what_does_not_fit(stand: Stand) -> None:
    words = ("plan", "apply", "-i", str(stand.inventory), "--level", "off", "--minutes", "10", "--soak", "5")

    code, out, _ = stand.call(*words, "--format", "json")

    assert code == 0
    assert json.loads(out) == {
        "batches": [
            {"hosts": ["lpar1"], "begins_min": 0, "ends_min": 10},
            {"hosts": ["lpar2", "lpar3"], "begins_min": 15, "ends_min": 25},
        ],
        "minutes": {"lpar1": 10, "lpar2": 10, "lpar3": 10},
        "total_min": 25,
        "late": [],
    }
    code, out, _ = stand.call(*words, "--until", f"{datetime.now():%Y-%m-%dT%H:%M}")
    assert code == 7
    assert "3 hosts in 2 batches, 25 minutes at the most" in out
    assert "for lpar1 lpar2 lpar3" in out
    assert not stand.calls()
    assert not stand.runs.exists()


@pytest.mark.slow
def test_a_run_keeps_what_was_planned(stand: Stand) -> None:
    """And one of before, whose plan has none of it, is still read."""
    stand.plays(0, planned("lpar1"), *became("lpar1"), {"event": "end"})
    words = ("apply", "-i", str(stand.inventory), "--level", "off", "--minutes", "10", "--soak", "5")

    assert stand.call(*words)[0] == 0

    kept = runs.read_plan(stand.run()).planned
    assert datetime.fromisoformat(kept.pop("begin")).tzinfo
    assert kept == json.loads(stand.call("plan", *words, "--format", "json")[1])
    assert kept["batches"][1] == {"hosts": ["lpar2", "lpar3"], "begins_min": 15, "ends_min": 25}

    file = stand.run() / "plan.json"
    file.write_text(
        json.dumps({key: value for key, value in json.loads(file.read_text()).items() if key != "planned"})
    )
    assert stand.call("resume", "last")[:2] == (0, f"{stand.run().name}: every host is as asked\n")


@pytest.mark.slow
def test_a_plan_has_what_the_costs_of_hosts_predict(stand: Stand) -> None:
    timer = stand.folder / "bin/hotplug-timer"
    timer.write_text(TIMER)
    timer.chmod(0o755)
    costs = stand.folder / "costs"
    costs.mkdir()
    for name, release in (("lpar1", RELEASE), ("lpar2", "6.5")):
        (costs / f"{name}.jsonl").write_text(json.dumps(answer(kernel=release)))
    facts = {"release": RELEASE, "cpus": {"online": "0-1919", "present": "0-1919"}}
    folder = stand.runs / "20261125T020000Z-check"
    folder.mkdir(parents=True)
    (folder / "preflight.json").write_text(json.dumps({"hosts": [{"host": "lpar2", "facts": facts}]}))
    hosts = ("-i", str(stand.inventory), "--costs", str(costs), "--minutes", "60")
    until = ("--until", f"{datetime.now() + timedelta(minutes=30):%Y-%m-%dT%H:%M}")

    code, out, _ = stand.call("plan", "apply", *hosts, "--level", "off", *until, "--format", "json")

    assert code == 7
    found = json.loads(out)
    assert [(batch["begins_min"], batch["ends_min"]) for batch in found["batches"]] == [(0, 7), (7, 67)]
    assert found["late"] == ["lpar2", "lpar3"]
    first, second, third = found["forecasts"]
    assert first == {
        "host": "lpar1",
        "minutes": 7,
        "predicted": [
            {"operation": "smt=off", "kernel": "expedited", "times": 1, "low_s": 200.0, "high_s": 300.0}
        ],
        "costs": str(costs / "lpar1.jsonl"),
        "kernel": RELEASE,
        "cpus": 1920,
        "held_against": None,
        "problem": None,
    }
    assert (second["minutes"], second["held_against"]) == (60, folder.name)
    assert f"kernel 6.5, and the host runs {RELEASE} in {folder.name}" in second["problem"]
    assert (third["minutes"], third["costs"]) == (60, None)

    code, out, _ = stand.call("plan", "apply", *hosts, "--level", "off")

    assert "lpar1        7  costs         smt=off (expedited) 200 to 300 s" in out
    assert "lpar3       60  --minutes     -" in out
    assert f"lpar3: no prediction: there is no {costs}/lpar3.jsonl" in out
    assert "of the kernel and the CPUs of lpar1 is not known here" in out

    (stand.folder / "k.json").write_text("{}")
    kernel = ("--kernel", str(stand.folder / "k.json"))
    code, out, _ = stand.call("plan", "deploy", *hosts, *kernel, "--limit", "lpar1", "--format", "json")
    # A host that nobody has looked at may have SMT off: on before the boot, off after it.
    assert json.loads(out)["forecasts"][0]["minutes"] == 2 + 15 + 30 + 60
    variants = [word for name in "ab" for word in ("--variant", f"{name}={stand.folder / 'k.json'}")]
    code, out, _ = stand.call("plan", "ab", *hosts, *variants, "--limit", "lpar1", "--format", "json")
    # Three timed in each of eight boots, and one counted for each kernel.
    assert json.loads(out)["forecasts"][0]["minutes"] == 2 + 9 * 15 + 26 * 90

    (stand.folder / "p.json").write_text(json.dumps({"patches": [CHUNKS_PATCH]}))
    files = ("--stock", str(stand.folder / "k.json"), "--patched", str(stand.folder / "p.json"))
    nightly = ("plan", "regress", *hosts, "--dir", "kept", "--limit", "lpar1", "--format", "json")
    code, out, _ = stand.call(*nightly, *files, "--iterations", "1")
    # One timed and one counted in each of three boots; the last of four brings the host back.
    assert json.loads(out)["forecasts"][0]["minutes"] == 2 + 4 * 15 + 2 * (90 + 15 + 1) + 1
    code, out, _ = stand.call(*nightly, "--build", "6.12")
    # Of a kernel that is not built yet it is not known what it has: it counts as stock.
    assert json.loads(out)["forecasts"][0]["minutes"] == 2 + 4 * 15 + 4 * (90 + 15 + 90)


@pytest.mark.slow
def test_a_run_is_told_where_the_costs_are(stand: Stand) -> None:
    (stand.folder / "costs").mkdir()
    stand.plays(0, planned("lpar1"), *became("lpar1"), {"event": "end"})
    costs = ("-i", str(stand.inventory), "--costs", str(stand.folder / "costs"))
    for words in (("check",), ("apply", "--level", "off")):
        assert stand.call(*words, *costs)[0] == 0
        assert variables(stand.calls()[-1])["fleet_costs_dir"] == str(stand.folder / "costs")
    assert stand.call("check", *costs[:2])[0] == 0
    assert "fleet_costs_dir" not in variables(stand.calls()[-1])


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("apply", "--level", "off"), 2, "no inventory given; name yours with -i"),
        (("apply", "-i", "/nowhere", "--level", "off"), 4, "there is no inventory /nowhere"),
        (("apply", "-i", "/etc/hosts", "--level", "off", "--batches", "0"), 2, "'0' is no size of a batch"),
        (
            ("apply", "-i", "/etc/hosts", "--level", "off", "--until", "25:00", "--minutes", "9"),
            2,
            "'25:00' is no time; give HH:MM",
        ),
        (
            ("apply", "-i", "/etc/hosts", "--level", "off", "--until", "04:30"),
            2,
            "--until needs to know how long a host takes; give --minutes N, or --costs DIR",
        ),
        (
            ("regress", "-i", "/etc/hosts", "--build", "6.12", "--dir", "d", "--until", "04:30"),
            2,
            "--until needs to know how long a host takes; give --minutes N, or --costs DIR\n",
        ),
        (("check", "-i", "/etc/hosts", "--costs", "/none"), 4, "there is no folder /none; put a result of"),
        (("deploy", "-i", "/etc/hosts", "--kernel", "/none"), 4, "there is no /none; name the artifact.json"),
        (("ab", "-i", "/etc/hosts", "--variant", "stock"), 2, "'stock' is no variant; give NAME=KERNEL"),
        (("ab", "-i", "/etc/hosts", "--variant", "a=/etc/hosts"), 2, "too few variants, or one name twice"),
        (("ab", "-i", "/etc/hosts", "--variant", "a=/x", "--variant", "b=/x"), 4, "there is no /x; name the"),
        (("apply", "-i", "/etc/hosts", "--level", "off", "--soak", "-1"), 2, "'-1' is not a whole number"),
        (
            ("apply", "-i", "/etc/hosts", "--level", "off", "--notify", "file:///etc/passwd"),
            2,
            "'file:///etc/passwd' is no address of a web hook",
        ),
        (("rollback", "last", "--limit", "a"), 2, "a run has its own hosts; leave out -i and --limit"),
        (("status", "last"), 4, "no run 'last'"),
        (("resume", "../x"), 4, "no run '../x'"),
        (("resume", "last", "--", "--diff"), 2, "resume takes no arguments of ansible-playbook"),
        (("apply", "lpar1", "-i", "/etc/hosts", "--level", "off"), 2, "unrecognized arguments: lpar1"),
    ],
)
def test_bad_words_are_one_line(stand: Stand, words: tuple[str, ...], code: int, told: str) -> None:
    found, out, err = stand.call(*words)
    assert (found, out) == (code, "")
    assert err.startswith("smt-fleet: error: ")
    assert told in err
    assert err.count("\n") == 1
    assert not stand.calls()


def test_a_run_that_comes_to_no_host_is_an_error(stand: Stand) -> None:
    stand.plays(2)
    code, _, err = stand.call("check", "-i", str(stand.inventory))
    assert code == 4
    assert "the run came to no host" in err


def test_a_plan_that_is_limited_to_no_host(stand: Stand) -> None:
    code, _, err = stand.call(
        "plan", "apply", "-i", str(stand.inventory), "--level", "off", "--limit", "other"
    )
    assert code == 4
    assert "is in the group smt_hosts and in other" in err


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("", ""),
        ("04:30", "2026-11-26T04:30"),
        ("23:30", "2026-11-25T23:30"),
        ("2026-12-01T04:30", "2026-12-01T04:30"),
    ],
)
def test_a_time_of_day_is_the_next_one(text: str, end: str) -> None:
    assert cli.window_end(text, datetime(2026, 11, 25, 22, 0)) == end


def test_a_damaged_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(ToolError, match="is no plan of a run"):
        runs.read_plan(tmp_path)
    (tmp_path / "state.jsonl").write_text("nonsense\n")
    with pytest.raises(ToolError, match=r"state\.jsonl:1: "):
        list(runs.events(tmp_path))


def test_runs_of_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    moment = datetime(2026, 11, 25, 22, 0)
    names = [runs.new_folder(tmp_path, "apply", moment).name for _ in range(2)]
    assert names == ["20261125T220000Z-apply", "20261125T220000Z-apply-2"]
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(ToolError, match="cannot make"):
            runs.new_folder(tmp_path / "deeper", "apply", moment)
