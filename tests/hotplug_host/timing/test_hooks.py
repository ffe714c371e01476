import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.signals import StopRequest
from hotplug_host.timing.hooks import Hook, check_hook, parse_hook, run_hook
from hotplug_host.timing.plan import Settings
from tests.fakes.fakehost import FakeHost
from tests.hotplug_host.timing.test_runner import failing, lines

Execute = Callable[..., str]


@pytest.fixture
def stop() -> Iterator[StopRequest]:
    stop = StopRequest()
    yield stop
    stop.close()


def hook(text: str) -> Hook:
    parsed = parse_hook("--prepare", text)
    assert parsed is not None
    return parsed


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_words_are_what_a_shell_would_split(words: list[str]) -> None:
    assert hook(shlex.join(words)).words == tuple(words)


def test_no_hook_is_none() -> None:
    assert parse_hook("--prepare", None) is None
    check_hook(None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "--prepare is empty"),
        ("  ", "--prepare is empty"),
        ("echo 'a", "No closing quotation"),
        ("a\0b", "null byte"),
    ],
)
def test_what_is_no_command_line_is_refused(text: str, words: str) -> None:
    with pytest.raises(ToolError, match=words) as caught:
        parse_hook("--prepare", text)
    assert caught.value.code == ExitCode.USAGE


def test_nothing_reaches_a_shell(tmp_path: Path, stop: StopRequest) -> None:
    """Separators, patterns, variables and substitutions are arguments like others."""
    code = f"import sys; open({str(tmp_path / 'said')!r}, 'w').write(repr(sys.argv[1:]))"
    hostile = "; touch pwned && $(touch pwned) `touch pwned` $HOME * | cat > pwned"
    text = f"{shlex.quote(sys.executable)} -SEc {shlex.quote(code)} {hostile}"
    assert run_hook(hook(text), {}, 10, stop) is None
    assert (tmp_path / "said").read_text() == repr(hostile.split())


def test_failures_say_what_the_command_said(stop: StopRequest) -> None:
    problem = run_hook(hook("sh -c 'echo no load here >&2; exit 3'"), {}, 10, stop)
    assert problem == ("--prepare: sh -c echo no load here >&2; exit 3 exited with status 3: no load here")
    problem = run_hook(hook("/nonexistent"), {}, 10, stop)
    assert problem == "--prepare: /nonexistent did not start: No such file or directory"


def test_a_program_that_is_not_there_is_refused_early() -> None:
    with pytest.raises(ToolError, match=r"--prepare: there is no program 'ulimit'; .* sh -c") as caught:
        check_hook(hook("ulimit -n 1"))
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_time_is_bounded_and_a_second_signal_ends_it(stop: StopRequest) -> None:
    assert run_hook(hook("sleep 30"), {}, 0.2, stop) == "--prepare: sleep did not finish within 0.2 s"
    stop.count = 1
    assert run_hook(hook("sleep 0.1"), {}, 10, stop) is None
    stop.count = 2
    assert run_hook(hook("sleep 30"), {}, 60, stop) == "--prepare: sleep was ended early by a second signal"


def test_what_it_leaves_in_the_background_is_not_waited_for(stop: StopRequest) -> None:
    started = time.monotonic()
    assert run_hook(hook("sh -c 'sleep 5 &'"), {}, 60, stop) is None
    assert time.monotonic() - started < 4


# In a run


def logging(log: Path, what: str, then: str = "") -> str:
    variables = "$HOTPLUG_TIMER_OPERATION $HOTPLUG_TIMER_PHASE $HOTPLUG_TIMER_INDEX"
    return f"sh -c 'echo {what} {variables} >> {log}; {then or 'true'}'"


def hooks(log: Path, prepare: str = "", cleanup: str = "") -> dict[str, object]:
    return {
        "prepare": parse_hook("--prepare", logging(log, "prepare", prepare)),
        "cleanup": parse_hook("--cleanup", logging(log, "cleanup", cleanup)),
    }


def test_hooks_run_around_every_switch(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    execute(iterations=1, warmup=1, **hooks(log))
    assert log.read_text().splitlines() == [
        f"{when} {name} {phase} 1"
        for phase in ("warmup", "timed")
        for name in ("smt=off", "smt=on")
        for when in ("prepare", "cleanup")
    ]
    recorded = lines(settings.output, "run")[0]["detail"]
    assert isinstance(recorded, dict)
    assert recorded["prepare"] == logging(log, "prepare")
    assert recorded["cleanup"] == logging(log, "cleanup")


@pytest.mark.slow
def test_hooks_are_off_the_clock(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    slow = hooks(tmp_path / "log", prepare="sleep 1", cleanup="sleep 1")
    execute(operations=settings.operations[:1], iterations=1, **slow)
    seconds = lines(settings.output)[0]["seconds"]
    assert isinstance(seconds, float)
    assert seconds < 1


def test_another_hook_is_another_experiment(execute: Execute, host: FakeHost, tmp_path: Path) -> None:
    execute(iterations=1)
    changed = hooks(tmp_path / "log")
    failing(execute, ExitCode.USAGE, "--prepare was null, is sh -c", iterations=1, resume=True, **changed)


def test_a_prepare_that_fails_ends_the_run_with_nothing_switched(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    failing(
        execute,
        ExitCode.OPERATION,
        "smt=off, timed iteration 1: --prepare: sh -c ",
        "exited with status 7",
        **hooks(log, prepare="exit 7"),
    )
    assert lines(settings.output) == []
    # What it began is cleaned up all the same.
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["prepare", "cleanup"]
    assert lines(settings.output, "end")[0]["outcome"] == "failed"


def test_a_cleanup_that_fails_ends_the_run_and_the_sample_is_kept(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    failing(
        execute,
        ExitCode.OPERATION,
        "iteration 1: --cleanup: sh ",
        **hooks(tmp_path / "log", cleanup="exit 7"),
    )
    assert [record["status"] for record in lines(settings.output)] == ["ok"]
    assert host.online == frozenset(range(8))


def test_a_failed_switch_is_cleaned_up_after_and_is_what_gets_told(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    host.stick(6)
    log = tmp_path / "log"
    failing(execute, ExitCode.OPERATION, "CPUs 6-7 online but should be", **hooks(log, cleanup="exit 7"))
    assert len(log.read_text().splitlines()) == 2


def test_a_prepare_that_takes_cpus_away_is_found_out(
    execute: Execute, host: FakeHost, settings: Settings, tmp_path: Path
) -> None:
    online = host.root / "sys/devices/system/cpu/online"
    failing(
        execute,
        ExitCode.OPERATION,
        "--prepare left CPU 7 offline but should be online; leave CPUs as they are",
        **hooks(tmp_path / "log", prepare=f"echo 0-6 > {online}"),
    )
    assert lines(settings.output) == []


def test_a_program_that_is_missing_is_told_before_anything_happens(
    execute: Execute, host: FakeHost, settings: Settings
) -> None:
    failing(
        execute, ExitCode.ENVIRONMENT, "there is no program 'gone'", cleanup=parse_hook("--cleanup", "gone")
    )
    assert not settings.output.exists()
