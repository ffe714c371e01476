from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.cpulist import format_cpulist
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.operations import DIRECTIONS
from hotplug_host.timing.cycle import check_cycle, parse_operation, parse_operations, start_of
from hotplug_host.timing.operation import SMT_OFF, SMT_ON, CoresOn, CpuList, Machine, Operation, SmtLevel
from hotplug_host.topology import Topology, read_topology
from tests.fakes.fakehost import FakeHost, FakeSysfs


def machine(cores: int = 2, threads: int = 8, offline: frozenset[int] = frozenset()) -> Machine:
    everything = frozenset(range(cores * threads))
    placed = tuple(tuple(range(core * threads, (core + 1) * threads)) for core in range(cores))
    return Machine(
        Topology(everything, everything, everything, placed, threads, frozenset()), everything - offline
    )


def refused(code: ExitCode, words: str, operation: Operation, on: Machine, fs: FakeSysfs) -> None:
    with pytest.raises(ToolError) as caught:
        operation.check(on, fs)
    assert caught.value.code == code
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("smt", "smt=", "off", "smt=0", "smt=-1", "smt=max", "cpu=off", "smt=٣", "smt=off,on", ""),
        *(
            "cores-on",
            "cores-on=",
            "cores-on=0",
            "cores-on=off",
            "cores-on=1-2",
            "cpus",
            "cpus=",
            "cpus=:off",
        ),
    ],
)
def test_unknown_operations_are_refused(text: str) -> None:
    with pytest.raises(ToolError, match="unknown operation") as caught:
        parse_operation(text)
    assert caught.value.code == ExitCode.USAGE
    assert "smt=off|on|K" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cpus=3-1", "CPU range '3-1' runs backwards"),
        ("cpus=1,,2", "empty element"),
        ("cpus=1-3:up", "'1-3:up' is not a CPU number"),
        ("cpus=0-4000000000", "CPU numbers have up to 6 digits"),
        ("cpus=1;reboot", "'1;reboot' is not a CPU number"),
        *((f"smt=off@{limit}", "is no time limit") for limit in ("", "0", "-1", "nan", "inf", "1h")),
    ],
)
def test_bad_lists_and_limits_are_named(text: str, words: str) -> None:
    with pytest.raises(ToolError, match="give") as caught:
        parse_operations([text])
    assert words in caught.value.message
    assert caught.value.code == ExitCode.USAGE


def test_operations_and_their_names() -> None:
    levels = [parse_operation(f"smt={level}") for level in ("off", "on", "2", "08")]
    assert [level.threads(8) for level in levels if isinstance(level, SmtLevel)] == [1, 8, 2, 8]
    assert parse_operation("smt=04") == SmtLevel("4")
    assert parse_operation("cores-on=02") == CoresOn("2")
    assert [operation.name for operation in parse_operations(["cpus=3,1-2", "cpus=0-31:1/8:on"])] == [
        "cpus=1-3:off",
        "cpus=1-3:on",
        "cpus=0,8,16,24:on",
    ]
    with pytest.raises(ToolError, match="is more than one operation"):
        parse_operation("cpus=1-3")


def test_a_time_limit_of_its_own_is_no_part_of_the_name() -> None:
    off, on = parse_operations(["smt=off@600", "smt=on"])
    assert (off.name, off.timeout_s, on.timeout_s) == ("smt=off", 600.0, None)
    assert {operation.timeout_s for operation in parse_operations(["cpus=1-3@2.5"])} == {2.5}
    with pytest.raises(ToolError, match="smt=off is given more than once"):
        check_cycle(parse_operations(["smt=off@600", "smt=off"]))


@given(st.sets(st.integers(0, 2047), min_size=1), st.sampled_from([":off", ":on", ""]))
def test_a_cpu_operation_names_what_it_parses_to(cpus: set[int], state: str) -> None:
    operations = parse_operations([f"cpus={format_cpulist(cpus)}{state}"])
    assert parse_operations([operation.name for operation in operations]) == operations


@given(st.text(max_size=12), st.sampled_from(["", "smt=", "cores-on=", "cpus=", "cpus=1:", "smt=off@"]))
def test_any_text_is_an_operation_or_a_usage_fault(text: str, prefix: str) -> None:
    try:
        operations = parse_operations([prefix + text])
    except ToolError as error:
        assert error.code == ExitCode.USAGE
    else:
        assert parse_operations([operation.name for operation in operations]) == operations


@given(st.integers(2, 6), st.integers(2, 8), st.data())
def test_an_operation_alone_starts_elsewhere_than_it_ends(
    cores: int, threads: int, data: st.DataObject
) -> None:
    on = machine(cores, threads)
    cpus = data.draw(st.sets(st.sampled_from(sorted(on.baseline)), min_size=1, max_size=len(on.baseline) - 1))
    operation: Operation = data.draw(
        st.sampled_from(
            [
                SmtLevel(str(data.draw(st.integers(1, threads)))),
                CoresOn(str(data.draw(st.integers(1, cores)))),
                CpuList(f"{format_cpulist(cpus)}:{data.draw(st.sampled_from(DIRECTIONS))}"),
            ]
        )
    )
    start = start_of((operation,), 0, on)
    assert start.kind == operation.kind
    assert start.target(on) != operation.target(on)
    assert start.target(on) | operation.target(on) <= on.baseline
    assert operation.target(on)


def test_levels_the_machine_lacks_are_refused_with_those_it_has(host: FakeHost, tmp_path: Path) -> None:
    fs = FakeSysfs(host)
    power = Machine(read_topology(fs), host.online)
    SmtLevel("3").check(power, fs)
    SMT_ON.check(power, fs)
    refused(ExitCode.USAGE, "; it has 1, 2, 3, 4 threads per core", SmtLevel("8"), power, fs)
    # x86 has no levels in between.
    x86 = FakeSysfs(FakeHost.build(tmp_path / "x86", machine="x86_64"))
    refused(ExitCode.USAGE, "it has 1, 4 threads per core", SmtLevel("2"), power, x86)
    refused(ExitCode.USAGE, "one thread per core", SMT_OFF, machine(threads=1), fs)


@pytest.mark.parametrize(
    ("cycle", "starts"),
    [
        (("off",), [8]),
        (("on",), [1]),
        (("4",), [8]),
        (("off", "on"), [8, 1]),
        (("4", "off"), [1, 4]),
        (("off", "2", "on"), [8, 1, 2]),
        (("off", "1"), [8, 8]),
    ],
)
def test_every_iteration_starts_from_where_the_cycle_comes(cycle: tuple[str, ...], starts: list[int]) -> None:
    on = machine(cores=1)
    operations = tuple(SmtLevel(level) for level in cycle)
    found = [len(start_of(operations, at, on).target(on)) for at in range(len(cycle))]
    assert found == starts


@pytest.mark.parametrize(
    "cycle",
    [("smt=off", "cpus=1:on"), ("cores-on=1", "smt=on"), ("cpus=1:off", "cpus=2:on"), ("cpus=1", "cpus=1-2")],
)
def test_operations_that_do_not_undo_each_other_are_refused(cycle: tuple[str, ...]) -> None:
    with pytest.raises(ToolError, match="make no cycle") as caught:
        check_cycle(parse_operations(cycle))
    assert caught.value.code == ExitCode.USAGE


def test_cores_keep_the_threads_they_had() -> None:
    on = machine(cores=3, threads=4, offline=frozenset({2, 3, 6, 7, 10, 11}))
    assert CoresOn("2").target(on) == {0, 1, 4, 5}
    assert CoresOn("all").target(on) == on.baseline
    assert CoresOn("1").ppc64_cpu_option(on) == "--cores-on=1"
    # ppc64_cpu's "all" would bring up cores that were offline before.
    assert CoresOn("all").ppc64_cpu_option(on) == "--cores-on=3"


def test_cores_that_would_not_come_back_as_they_went_are_refused(host: FakeHost) -> None:
    fs = FakeSysfs(host)
    CoresOn("2").check(machine(cores=3, offline=frozenset(range(16, 24))), fs)
    refused(ExitCode.USAGE, "2 cores are online, and those offline take no part", CoresOn("3"), machine(), fs)
    first_gone = machine(cores=3, offline=frozenset(range(8, 16)))
    refused(ExitCode.USAGE, "the core of CPUs 8-15 is offline and comes before", CoresOn("1"), first_gone, fs)
    uneven = machine(offline=frozenset({15}))
    refused(ExitCode.USAGE, "the cores differ in which of their threads", CoresOn("1"), uneven, fs)
    refused(ExitCode.USAGE, "one core is online", CoresOn("1"), machine(cores=1), fs)


def test_cpus_that_cannot_go_are_refused_by_number(host: FakeHost) -> None:
    fs = FakeSysfs(host)
    on = machine(cores=2, threads=4, offline=frozenset({7}))
    CpuList("1-6:off").check(on, fs)
    refused(ExitCode.USAGE, "CPUs 7-9 not online before the run", CpuList("6-9:off"), on, fs)
    refused(ExitCode.USAGE, "would leave no CPU online", CpuList("0-6:on"), on, fs)
    (host.root / "sys/devices/system/cpu/cpu0/online").unlink()
    refused(ExitCode.USAGE, "this kernel cannot take CPU 0 offline", CpuList("0-1:off"), on, fs)


@pytest.mark.parametrize(
    ("before", "after", "level", "path"),
    [
        ("on", "off", "off", "smt/control"),
        ("off", "on", "on", "smt/control"),
        ("on", "4", "4", "smt/control"),
        ("on", "on", "off", "per-cpu"),  # ppc64_cpu 1.3.10 leaves smt/control saying "on"
        (None, None, "off", "per-cpu"),  # powerpc before 6.6
        ("notimplemented", "notimplemented", "off", "per-cpu"),
        ("on", "2", "off", None),
    ],
)
def test_path_is_told_by_what_smt_control_says(
    before: str | None, after: str | None, level: str, path: str | None
) -> None:
    assert SmtLevel(level).path(before, after, machine()) == path


def test_cpus_and_cores_leave_smt_control_alone() -> None:
    for operation in (CoresOn("1"), CpuList("1:off")):
        assert operation.path("on", "on", machine()) == "per-cpu"
        assert operation.path("on", "off", machine()) is None
