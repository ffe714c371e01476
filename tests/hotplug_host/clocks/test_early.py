"""clock-check early: what it reads in a trace, what it makes of it, and that the clock is put back."""

from __future__ import annotations

import io
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotplug_host.clocks import early, steering, timertrace
from hotplug_host.clocks.early import Anchor, Plan, Programming, Sleep
from hotplug_host.clocks.steering import Rate, Restorer, SystemClock, kept, steered
from hotplug_host.clocks.timertrace import Device, Event, TimerTrace
from hotplug_host.errors import ExitCode, ToolError
from hotplug_host.signals import StopRequest
from hotplug_host.sysfs import Sysfs
from tests.fakes.inchild import in_child

NS = 1_000_000_000
DECREMENTER = Device("decrementer", 0.512, 4_194_303_998, "decrementer_set_next_event")
TIMER_LIST = """\
Timer List Version: v0.10
Tick Device: mode:     1
Broadcast device
Clock Event Device: bc_hrtimer
 max_delta_ns:   9223372036854775807
 min_delta_ns:   1
 mult:           1
 shift:          0
 set_next_event: <0000000000000000>

Tick Device: mode:     1
Per CPU device: 0
Clock Event Device: decrementer
 max_delta_ns:   4194303998
 min_delta_ns:   1000
 mult:           2199023256
 shift:          32
 mode:           3
 next_event:     6390000000 nsecs
 set_next_event: decrementer_set_next_event
 shutdown: decrementer_shutdown
 event_handler:  hrtimer_interrupt

Per CPU device: 1
Clock Event Device: decrementer
 max_delta_ns:   1125899906842624
 min_delta_ns:   1000
 mult:           8589935
 shift:          24
 mode:           3
 next_event:     6390000000 nsecs
 set_next_event: decrementer_set_next_event
"""
TRACE = """\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
  python-61 [001] d....  10.000100: program: (clockevents_program_event+0x8/0x230) expires=11000000001
  python-61 [001] d....  10.000110: now: (clockevents_program_event+0xb0/0x230 <- ktime_get) now=10000108000
  python-61 [001] d....  10.000120: ticks: (decrementer_set_next_event+0x8/0x90) ticks=511944704
  <idle>-0 [001] d....  10.000200: program: (clockevents_program_event+0x8/0x230) expires=10010000000
  <idle>-0 [001] d....  10.000210: now: (tick_nohz+0xb0/0x230 <- ktime_get) now=10000209000
  <idle>-0 [001] d....  10.000220: ticks: (decrementer_set_next_event+0x8/0x90) ticks=5012992
  <idle>-0 [001] dn.h.  10.999500: timer_interrupt_entry: pt_regs=00000000deadbeef
  <idle>-0 [001] dn.h.  11.000040: timer_interrupt_entry: pt_regs=00000000deadbeef
  <idle>-0 [001] dn.h.  11.000050: hrtimer_expire_entry: function=hrtimer_wakeup now=11000045000
"""
EXPIRES = 11 * NS


class FakeClock(SystemClock):
    """A clock that is a counter and a rate; `log` says what was done to it."""

    def __init__(self, freq: int = 0) -> None:
        self.now, self.counter, self.current = 1_000 * NS, 5 * NS, Rate(freq)
        self.log: list[str] = []

    def rate(self) -> Rate:
        return self.current

    def set_rate(self, rate: Rate) -> None:
        self.current = rate
        self.log.append(f"rate {rate.freq}")

    def step(self, ns: int) -> None:
        self.now += ns
        self.log.append(f"step {ns}")

    def reading(self) -> tuple[int, int]:
        return self.now, self.counter

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.counter += round(seconds * NS)
        self.now += round(seconds * NS * self.current.ratio)


def host(tmp_path: Path) -> Sysfs:
    """A host with a timer list, and nothing else."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/timer_list").write_text(TIMER_LIST)
    return Sysfs(tmp_path)


def sleep(ppm: float, worst: float | None) -> Sleep:
    return Sleep(ppm, 1.0, 2, worst, 3, 1, 12.5, 40.0)


def test_the_device_of_a_cpu_is_read(tmp_path: Path) -> None:
    fs = host(tmp_path)
    first, second = (timertrace.read_device(fs, cpu) for cpu in (0, 1))
    assert first == Device("decrementer", 2199023256 / 2**32, 4194303998, "decrementer_set_next_event")
    assert second.rate == 8589935 / 2**24


def test_a_cpu_without_a_timer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no timer of CPU 7"):
        timertrace.read_device(host(tmp_path), 7)


def test_a_trace_is_read() -> None:
    events = timertrace.read_events(TRACE)
    assert [event.name for event in events[:3]] == ["program", "now", "ticks"]
    assert events[0] == Event(10_000_100_000, "program", {"expires": EXPIRES + 1})
    assert events[-1].fields["now"] == 11_000_045_000


@given(st.text())
def test_any_trace_is_read(text: str) -> None:
    timertrace.read_events(f"{text}\n x-1 [000] d.. 1.000000: now: {text}\n")


def test_only_what_is_programmed_for_this_sleep_counts() -> None:
    found = early.programmings(timertrace.read_events(TRACE), EXPIRES, 1.0, DECREMENTER, None)
    assert [one.ticks for one in found] == [511944704]
    assert found[0].exact == pytest.approx(511944704.5, abs=0.1)
    assert early.worst_ppm(found, DECREMENTER) == 0


def test_ticks_at_the_raw_rate_are_wrong_for_a_steered_clock() -> None:
    found = early.programmings(timertrace.read_events(TRACE), EXPIRES, steered(500).ratio, DECREMENTER, None)
    assert early.worst_ppm(found, DECREMENTER) == pytest.approx(500, abs=0.01)
    slow = early.programmings(timertrace.read_events(TRACE), EXPIRES, steered(-500).ratio, DECREMENTER, None)
    assert early.worst_ppm(slow, DECREMENTER) == pytest.approx(-500, abs=0.01)


def test_a_tick_and_a_nanosecond_are_no_error() -> None:
    assert early.worst_ppm([Programming(1001, 1000), Programming(999, 1000)], DECREMENTER) == 0
    assert early.worst_ppm([], DECREMENTER) is None


def test_what_the_device_cannot_count_says_nothing() -> None:
    events = [
        Event(0, "program", {"expires": 10 * NS}),
        Event(0, "now", {"now": 0}),
        Event(0, "ticks", {"ticks": 2**31 - 1}),
    ]
    assert early.programmings(events, 10 * NS, 1.0, DECREMENTER, None) == []


def test_deadlines_are_held_against_one_that_was_close() -> None:
    def events(expires: int, cycles: int) -> list[Event]:
        return [
            Event(0, "program", {"expires": expires}),
            Event(0, "deadline", {"cycles": cycles}),
        ]

    anchor = early.find_anchor(events(NS, 512_000_000), NS)
    assert anchor == Anchor(NS, 512_000_000)
    found = early.programmings(events(11 * NS, 512_000_000 * 11), 11 * NS, 1.0, DECREMENTER, anchor)
    assert early.worst_ppm(found, DECREMENTER) == 0
    assert early.find_anchor(timertrace.read_events(TRACE), EXPIRES) is None
    assert early.find_anchor(events(NS, 0) + events(NS, 1), NS) is None
    sleeps = iter([(NS, NS, []), (NS, NS, events(NS, 512_000_000)), (NS, NS, events(NS, 2))])
    assert early.first_anchor(sleeps) == anchor
    assert len(list(sleeps)) == 1
    assert early.first_anchor([(NS, NS, [])]) is None
    assert early.programmings(events(11 * NS, 0), 11 * NS, 1.0, DECREMENTER, anchor) == []


def test_interrupts_are_counted_and_early_ones_known() -> None:
    events = timertrace.read_events(TRACE)
    assert early.early_interrupts(events, EXPIRES, NS) == (2, 1, 500.0)
    assert early.late_us(events, EXPIRES, EXPIRES + 90_000) == 45.0
    assert early.late_us([], EXPIRES, EXPIRES + 90_000) == 90.0


def test_the_worst_sleep_is_the_problem() -> None:
    sleeps = [sleep(0, 0.0), sleep(-500, -499.9), sleep(500, 0.2), sleep(500, None)]
    assert early.problem(sleeps[2:], 1.0) is None
    said = early.problem(sleeps, 1.0)
    assert said == "a sleep of 1 s, the clock steered by -500 ppm, was programmed -500 ppm off"


def test_table_and_json() -> None:
    sleeps = [sleep(-500, 0.0), sleep(500, None)]
    text = early.render(DECREMENTER, sleeps[:1])
    assert "early/1s/-500ppm" in text
    assert "programmed ppm off" in text
    assert '"late_us": 40.0' in early.to_json(DECREMENTER, sleeps)


def test_coupled_devices_have_one_more_probe() -> None:
    symbols = "c0001 T ktime_expiry_to_cycles\n"
    lines = timertrace.probes(DECREMENTER, symbols)
    assert len(lines) == len(timertrace.probes(DECREMENTER, "")) + 1
    assert len(timertrace.probes(replace(DECREMENTER, name="lapic-deadline"), symbols)) == len(lines) - 1
    assert "ticks=$arg1" in lines[2]


def test_tracing_that_is_not_possible_is_said(tmp_path: Path) -> None:
    trace = TimerTrace(host(tmp_path), 1)
    with pytest.raises(ToolError, match="cannot trace"):
        trace.start(DECREMENTER)
    assert trace.remove() == []


class Tracefs(Sysfs):
    """Makes the files of a trace instance with its folder, as the kernel does; no event is missing."""

    def mkdir(self, name: str) -> None:
        super().mkdir(name)
        events = [f"events/{event}/enable" for event in (timertrace.EXPIRE, *timertrace.INTERRUPTS)]
        files = ("tracing_on", "trace_clock", "buffer_size_kb", "tracing_cpumask", *events)
        for file in (*files, f"events/{timertrace.DEVICE_INTERRUPT}/filter"):
            path = self.path(f"{name}/{file}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


def test_of_the_interrupts_of_devices_only_timers_are_traced(tmp_path: Path) -> None:
    fs = Tracefs(tmp_path)
    fs.path(timertrace.INSTANCE).parent.mkdir(parents=True)
    TimerTrace(fs, 1).start(DECREMENTER)
    event = f"{timertrace.INSTANCE}/events/{timertrace.DEVICE_INTERRUPT}"
    assert fs.read(f"{event}/filter") == 'name == "timer" || name ~ "hpet*"'
    assert fs.read(f"{event}/enable") == "1"


def test_an_interrupt_of_a_device_is_an_interrupt() -> None:
    text = "  <idle>-0 [001] d.h.  10.999500: irq_handler_entry: irq=0 name=timer\n"
    assert early.early_interrupts(timertrace.read_events(text), EXPIRES, NS) == (1, 1, 500.0)


def test_what_is_left_of_a_trace_is_removed(tmp_path: Path) -> None:
    fs = host(tmp_path)
    instance = fs.path(timertrace.INSTANCE)
    instance.mkdir(parents=True)
    probes = fs.path(timertrace.PROBES)
    probes.write_text("p:clock_check/now ktime_get\np:other/one schedule\n")
    assert TimerTrace(fs, 1).remove() == []
    assert not instance.exists()
    assert probes.read_text().endswith("-:clock_check/now\n")


def test_a_rate_is_a_ratio() -> None:
    assert steered(500).ratio == 1.0005
    assert Rate(0, 10_001).ratio == 1.0001


def test_the_clock_is_put_back_with_what_it_has_gained() -> None:
    clock = FakeClock(65536)
    restorer = Restorer.of(clock)
    clock.set_rate(steered(500))
    clock.run(10)
    assert restorer.restore() == []
    assert clock.current == Rate(65536)
    shown, counter = clock.reading()
    assert abs(shown - 1_000 * NS - round((counter - 5 * NS) * 1.000001)) <= 1
    assert [word.split()[0] for word in clock.log] == ["rate", "rate", "step"]


def test_a_clock_that_somebody_set_is_left_alone() -> None:
    clock = FakeClock()
    restorer = Restorer.of(clock)
    clock.run(1)
    clock.now += 3600 * NS
    assert restorer.restore() == ["the clock was set by 3600.000 s meanwhile, and left so"]
    assert not any(word.startswith("step") for word in clock.log)


def test_a_clock_that_cannot_be_set_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    restorer = Restorer.of(clock)

    def refuse(rate: Rate) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(clock, "set_rate", refuse)
    assert restorer.restore() == ["the clock could not be put back: Operation not permitted"]


def test_the_kernels_clock_is_read() -> None:
    clock = SystemClock()
    assert abs(clock.rate().ratio - 1) < 0.11
    shown, counter = clock.reading()
    assert abs(shown - time.time_ns()) < 60 * NS
    assert counter > 0


def test_ntp_and_this_are_not_both_at_it() -> None:
    with pytest.raises(ToolError, match="kept by NTP"):
        steering.require_free(Rate(0, kept=True), force=False)
    steering.require_free(Rate(0, kept=True), force=True)
    steering.require_free(Rate(0), force=False)


def test_it_is_undone_once_after_the_block(tmp_path: Path) -> None:
    done = tmp_path / "done"

    def undo() -> list[str]:
        with done.open("a") as stream:
            stream.write("once\n")
        return ["a problem"]

    with kept(undo) as left:
        assert not done.exists()
    assert done.read_text() == "once\n"
    assert left.problems == ["a problem"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_is_undone_when_the_tool_is_killed(tmp_path: Path, how: signal.Signals) -> None:
    done, ready = tmp_path / "done", tmp_path / "ready"

    def undo() -> list[str]:
        done.touch()
        return []

    pid = os.fork()
    if pid == 0:
        with kept(undo):
            ready.touch()
            time.sleep(60)
        os._exit(0)
    wait_for(ready)
    os.kill(pid, how)
    os.waitpid(pid, 0)
    wait_for(done)


def test_it_is_undone_here_when_the_keeper_is_killed(tmp_path: Path) -> None:
    calls: list[int] = []

    def undo() -> list[str]:
        calls.append(os.getpid())
        return ["done here"]

    before = children()
    with kept(undo) as left:
        (keeper,) = children() - before
        os.kill(keeper, signal.SIGKILL)
    assert left.problems == ["done here"]
    assert calls == [os.getpid()]


def test_a_signal_ends_the_check_and_the_clock_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, stop = FakeClock(), StopRequest()
    check = early.Check(host(tmp_path), Plan(1, (500.0,), (1.0,), 1.0, False), stop, clock)
    monkeypatch.setattr(check.trace, "start", lambda _device: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr(early, "Sleeper", lambda _cpu: None)

    def execute() -> ExitCode:
        with pytest.raises(ToolError, match="stopped by SIGTERM") as raised:
            check.execute(io.StringIO())
        return raised.value.code

    assert in_child(execute) == ExitCode.TERMINATED
    stop.close()


def wait_for(path: Path) -> None:
    """Until it is there."""
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def children() -> set[int]:
    """This process's."""
    return {int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}
