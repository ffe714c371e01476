import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_host import results
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.progress import Progress
from hotplug_host.timing import command, runner
from hotplug_host.timing.cycle import parse_operation
from hotplug_host.timing.plan import Settings
from hotplug_timer.reader import read_files
from tests.fakes.fakehost import RELEASE, FakeHost, FakeSysfs

Execute = Callable[..., str]


def lines(path: Path, kind: str = "iteration") -> list[dict[str, object]]:
    """Return the records of a kind, with the fields of their detail among the others."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [{**record, **record.get("detail", {})} for record in records if record["record"] == kind]


def operations(*names: str) -> tuple[object, ...]:
    return tuple(parse_operation(f"smt={name}") for name in names)


def failing(execute: Execute, code: ExitCode, *words: str, **changes: object) -> ToolError:
    with pytest.raises(ToolError) as caught:
        execute(**changes)
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)
    return caught.value


def test_a_run_records_what_the_reader_accepts(execute: Execute, host: FakeHost, settings: Settings) -> None:
    host.add_tracing()
    printed = execute(count_iterations=1, warmup=1)
    run = read_files([settings.output]).runs[0]
    assert [(item.phase, item.index, item.operation) for item in run.iterations] == [
        (phase, index, name)
        for phase, number in (("warmup", 1), ("timed", 2), ("counted", 1))
        for index in range(1, number + 1)
        for name in ("smt=off", "smt=on")
    ]
    assert all(item.seconds is not None and item.counts is None for item in run.iterations[:-2])
    assert [item.counts and item.counts["stop_machine"] for item in run.iterations[-2:]] == [6, 0]
    assert all(item.seconds is None for item in run.iterations[-2:])
    assert {item.path for item in run.iterations} == {"smt/control"}
    assert (run.outcome, run.restored) == ("complete", True)
    assert (run.shape.cores, run.shape.threads_per_core, run.shape.cpus) == (2, 4, 8)
    assert run.host.kernel_release == RELEASE
    assert host.online == frozenset(range(8))
    assert "[8/8] smt=on counted 1/1: counted" in printed


def test_each_timed_transition_changes_cpus(execute: Execute, host: FakeHost, settings: Settings) -> None:
    execute(operations=operations("off"), iterations=3)
    for record in lines(settings.output):
        assert (record["cpus_before"], record["cpus_after"]) == ("0-7", "0,4")
        assert (record["direction"], record["switched"]) == ("off", 6)
    assert host.online == frozenset(range(8))


def test_a_switch_waits_until_udev_is_done_with_the_one_before(
    execute: Execute, host: FakeHost, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = iter([0.0, 3.5, 300.0])
    monkeypatch.setattr(runner, "wait_until_idle", lambda *_: (seconds := next(waited), seconds < 300))
    printed = execute(iterations=3)
    assert printed.count("udev was done") == 1
    assert "udev was done 3.5 s after smt=on" in printed
    # The third one was in vain, and there is no fourth.
    assert "udev was not done 300 s after smt=off; the run goes on and waits for it no more" in printed
    assert len(lines(settings.output)) == 6


def test_the_first_iteration_starts_where_the_others_do(
    execute: Execute, host: FakeHost, settings: Settings
) -> None:
    host.write_control("off")
    execute(operations=operations("2", "on"), iterations=2)
    starts = [(record["operation"], record["cpus_before"]) for record in lines(settings.output)]
    assert starts == [("smt=2", "0-7"), ("smt=on", "0-1,4-5")] * 2
    assert host.online == {0, 4}
    assert host.control == "off"


@pytest.mark.parametrize(
    ("way", "control", "path"),
    [("control", "on", "smt/control"), ("per-cpu", "on", "per-cpu"), ("per-cpu", None, "per-cpu")],
)
def test_ppc64_cpu_by_both_paths(  # noqa: PLR0917
    tmp_path: Path,
    settings: Settings,
    execute: Execute,
    use_ppc64_cpu: Callable[..., None],
    way: str,
    control: str | None,
    path: str,
) -> None:
    host = FakeHost.build(tmp_path / "lpar", control=control)
    use_ppc64_cpu(host, path=way)
    execute(FakeSysfs(host), via="auto", operations=operations("off", "2", "on"), iterations=1)
    recorded = lines(settings.output)
    assert {record["path"] for record in recorded} == {path}
    assert {record["driver"] for record in recorded} == {"ppc64_cpu"}
    assert host.get("ppc64_cpu.log").split() == ["--smt=off", "--smt=2", "--smt=on"]
    assert host.online == frozenset(range(8))


def test_offline_cpus_and_cores_come_back_exactly_as_they_were(execute: Execute, host: FakeHost) -> None:
    for cpu in (3, 4, 5, 6, 7):
        host.set_cpu(cpu, False)
    execute()
    assert host.online == {0, 1, 2}
    assert host.control == "on"


def test_interrupts_get_the_cpus_back_that_they_had(execute: Execute, host: FakeHost) -> None:
    """A run takes their CPUs away; the kernel does not give them back."""
    host.put("proc/irq/30/smp_affinity_list", "5")
    host.put("proc/irq/31/smp_affinity_list", "0-7")

    execute()

    assert host.get("proc/irq/30/smp_affinity_list") == "5"
    assert host.get("proc/irq/31/smp_affinity_list") == "0-7"


def test_an_interrupt_that_keeps_its_new_cpus_is_named(
    execute: Execute, host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that the kernel manages itself."""
    host.put("proc/irq/30/smp_affinity_list", "5")
    write = FakeSysfs.write

    def refuse(fs: FakeSysfs, name: str, text: str) -> None:
        if "/irq/" in name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        write(fs, name, text)

    monkeypatch.setattr(FakeSysfs, "write", refuse)

    assert "interrupts 30 did not take back the CPUs that they had" in execute()


def test_an_smt_level_in_between_comes_back(execute: Execute, host: FakeHost) -> None:
    host.write_control("2")
    execute()
    assert host.control == "2"
    assert host.online == {0, 1, 4, 5}


def test_x86_with_smt_off_is_looked_at_with_smt_on_first(
    tmp_path: Path, execute: Execute, settings: Settings
) -> None:
    host = FakeHost.build(tmp_path / "x86", cores=4, threads=2, machine="x86_64")
    host.write_control("off")
    printed = execute(FakeSysfs(host))
    assert "bringing all threads online once" in printed
    assert [record["cpus_after"] for record in lines(settings.output)] == ["0-3", "0-7"] * 2
    assert host.online == {0, 1, 2, 3}
    assert host.control == "off"


def test_x86_level_is_refused_before_anything_is_recorded(
    tmp_path: Path, execute: Execute, settings: Settings
) -> None:
    host = FakeHost.build(tmp_path / "x86", cores=4, threads=2, machine="x86_64")
    host.write_control("off")
    failing(
        execute,
        ExitCode.USAGE,
        "it has 1, 2 threads per core",
        fs=FakeSysfs(host),
        operations=operations("4"),
    )
    assert host.online == {0, 1, 2, 3}
    assert not settings.output.exists()


def test_a_cpu_that_stays_is_named_and_the_run_ends(
    execute: Execute, host: FakeHost, settings: Settings
) -> None:
    host.stick(6)
    failing(
        execute,
        ExitCode.OPERATION,
        "smt=off, timed iteration 1: Device or resource busy; CPUs 6-7 online but should be offline; look",
    )
    record = lines(settings.output)[0]
    assert record["status"] == "failed"
    assert record["path"] is None
    assert (record["cpus_after"], record["cpus_expected"]) == ("0,4,6-7", "0,4")
    assert lines(settings.output, "end")[0]["outcome"] == "failed"
    assert lines(settings.output, "end")[0]["restored"] is True
    assert host.online == frozenset(range(8))


def test_a_partial_switch_is_not_a_success_whatever_ppc64_cpu_says(
    execute: Execute, host: FakeHost, settings: Settings, use_ppc64_cpu: Callable[..., None]
) -> None:
    use_ppc64_cpu(host, path="per-cpu", lie=True)
    host.stick(5)
    failing(execute, ExitCode.OPERATION, "CPU 5 online but should be offline", via="ppc64_cpu")
    assert lines(settings.output)[0]["status"] == "failed"


def test_ppc64_cpus_own_words_and_the_cpus_are_both_told(
    execute: Execute, host: FakeHost, use_ppc64_cpu: Callable[..., None]
) -> None:
    use_ppc64_cpu(host, path="per-cpu")
    host.stick(5)
    failing(
        execute,
        ExitCode.OPERATION,
        "exited with status 255: One or more cpus could not be on/offlined; CPU 5 online",
        via="ppc64_cpu",
    )


def test_a_core_that_comes_online_unasked_is_named(tmp_path: Path, execute: Execute) -> None:
    """x86 brings wholly offline cores up with SMT; that is not the state the run measures."""
    host = FakeHost.build(tmp_path / "x86", cores=4, threads=2, machine="x86_64")
    for cpu in (3, 7):
        host.set_cpu(cpu, False)
    failing(
        execute,
        ExitCode.OPERATION,
        "CPUs 3,7 online but should be offline",
        "; this kernel brings up cores that were wholly offline: bring them online before the run",
        fs=FakeSysfs(host),
    )
    assert host.online == {0, 1, 2, 4, 5, 6}


def test_a_restore_that_fails_is_told_with_the_failure(execute: Execute, host: FakeHost) -> None:
    fs = FakeSysfs(host)
    write = fs.write

    def breaking(name: str, text: str) -> None:
        write(name, text)
        host.stick(7)

    fs.write = breaking  # type: ignore[method-assign]
    error = failing(execute, ExitCode.OPERATION, "the SMT state was not put back: ", "7 offline", fs=fs)
    assert error.message.startswith("smt=on, timed iteration 1: ")


def test_timeout_has_its_own_exit_code(
    execute: Execute, host: FakeHost, settings: Settings, use_ppc64_cpu: Callable[..., None]
) -> None:
    use_ppc64_cpu(host, path="per-cpu", pause=30)
    failing(
        execute,
        ExitCode.TIMEOUT,
        "did not finish within 0.5 s",
        "raise --timeout",
        via="ppc64_cpu",
        timeout_s=0.5,
    )
    assert lines(settings.output)[0]["seconds"] is None
    assert host.online == frozenset(range(8))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"operations": operations("on", "off", "on")}, "smt=on is given more than once"),
        ({"operations": operations("8")}, "it has 1, 2, 3, 4 threads per core"),
    ],
)
def test_what_makes_no_run_is_refused(
    execute: Execute, host: FakeHost, settings: Settings, changes: dict[str, object], words: str
) -> None:
    failing(execute, ExitCode.USAGE, words, **changes)
    assert not settings.output.exists()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--iterations=0", "argument --iterations: '0' is not a whole number of at least 1"),
        ("--count-iterations=-1", "argument --count-iterations: '-1' is not a whole number of at least 0"),
        ("--warmup=-1", "argument --warmup: '-1' is not a whole number of at least 0"),
        ("--settle=-0.5", "argument --settle: '-0.5' is not a number of seconds from 0.001 to 1000000"),
        ("--settle=nan", "argument --settle: 'nan' is not a number of seconds"),
        ("--timeout=0", "argument --timeout: '0' is not a number of seconds"),
        ("--timeout=inf", "argument --timeout: 'inf' is not a number of seconds"),
        ("--trace-buffer=0", "argument --trace-buffer: '0' is not a whole number of at least 1"),
        ("--variant= ", "argument --variant: is empty"),
    ],
)
def test_options_that_make_no_run_are_refused(
    host: FakeHost, settings: Settings, capsys: pytest.CaptureFixture[str], option: str, words: str
) -> None:
    arguments = ["run", "smt=off", "--variant=x", "--iterations=1", f"--output={settings.output}", option]
    assert command.main([*arguments, f"--sysroot={host.root}"]) == ExitCode.USAGE
    assert words in capsys.readouterr().err
    assert not settings.output.exists()


def test_counting_that_cannot_work_is_refused_before_anything_is_switched(
    execute: Execute, host: FakeHost, settings: Settings
) -> None:
    fs = FakeSysfs(host)
    failing(execute, ExitCode.ENVIRONMENT, "cannot count grace periods", fs=fs, count_iterations=1)
    assert fs.writes == []
    assert not settings.output.exists()


def test_full_disk_ends_the_run_with_the_state_restored(
    execute: Execute, host: FakeHost, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = results.ResultWriter.append
    appended: list[object] = []

    def full(self: results.ResultWriter, record: dict[str, object]) -> None:
        if len(appended) >= 2:
            raise ToolError("cannot write: No space left on device", "make room", ExitCode.ENVIRONMENT)
        appended.append(record)
        append(self, record)

    monkeypatch.setattr(results.ResultWriter, "append", full)
    failing(execute, ExitCode.ENVIRONMENT, "No space left on device")
    assert host.online == frozenset(range(8))
    assert len(lines(settings.output)) == 1
    monkeypatch.undo()
    execute(resume=True)
    assert len(lines(settings.output)) == 4


def test_resume_does_what_is_left_and_only_that(execute: Execute, host: FakeHost, settings: Settings) -> None:
    execute()
    whole = settings.output.read_text().splitlines(keepends=True)
    settings.output.write_text("".join(whole[:4]) + whole[4][:20])
    execute(resume=True)
    done = [(record["index"], record["operation"]) for record in lines(settings.output)]
    assert done == [(1, "smt=off"), (1, "smt=on"), (2, "smt=off"), (2, "smt=on")]
    # The step resumed with starts from the same level as ever.
    assert lines(settings.output)[-1]["cpus_before"] == "0,4"
    assert len(lines(settings.output, "run")) == 2
    assert read_files([settings.output]).notices == ()
    before = settings.output.read_text()
    assert "complete already" in execute(resume=True)
    assert settings.output.read_text() == before


def test_resume_repeats_the_warm_up(execute: Execute, host: FakeHost, settings: Settings) -> None:
    execute(warmup=1)
    whole = settings.output.read_text().splitlines(keepends=True)
    settings.output.write_text("".join(whole[:-2]))
    execute(warmup=1, resume=True)
    phases = [record["phase"] for record in lines(settings.output)]
    assert phases == ["warmup"] * 2 + ["timed"] * 3 + ["warmup"] * 2 + ["timed"]


def test_resume_refuses_another_kernels_file(execute: Execute, host: FakeHost, settings: Settings) -> None:
    execute()
    before = settings.output.read_text()
    host.put("proc/sys/kernel/osrelease", "7.3.0-rc7")
    failing(execute, ExitCode.USAGE, f"kernel release was {RELEASE}, is 7.3.0-rc7", resume=True)
    assert settings.output.read_text() == before
    assert host.online == frozenset(range(8))


def test_resume_starts_a_file_that_is_missing_or_empty(
    execute: Execute, host: FakeHost, settings: Settings
) -> None:
    execute(resume=True)
    first = len(lines(settings.output))
    settings.output.write_text("")
    execute(resume=True)
    assert len(lines(settings.output)) == first == 4


def test_without_resume_a_file_is_left_alone(execute: Execute, settings: Settings, host: FakeHost) -> None:
    settings.output.write_text("precious")
    failing(execute, ExitCode.USAGE, "exists")
    assert settings.output.read_text() == "precious"


def test_a_bug_still_restores(execute: Execute, host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "step", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        execute()
    assert host.online == frozenset(range(8))


def test_settings_are_recorded(execute: Execute, host: FakeHost, settings: Settings) -> None:
    execute()
    (recorded,) = lines(settings.output, "run")
    assert recorded["settings"] == {
        "operations": ["smt=off", "smt=on"],
        "iterations": 2,
        "warmup": 0,
        "settle_s": 0.0,
        "timeout_s": 20.0,
    }
    assert recorded["detail"] == {
        "smt": {"control": "on", "active": "1"},
        "count_iterations": 0,
        "operation_timeouts_s": {},
        "prepare": None,
        "cleanup": None,
        "traces": [],
        "via": "smt-control",
        "hotplug_states": None,
    }
    assert replace(settings, iterations=2) == settings
