"""What is said about speed follows from what was measured, and a miss is called one."""

from dataclasses import replace
from pathlib import Path

import pytest

from hotplug_host.errors import ExitCode
from kernel_qualify import figures, keeping
from kernel_qualify.cli import main
from kernel_qualify.judge import gains, verdicts
from kernel_qualify.judge.gains import Figure, Run


def figure(kernel: str, mode: str, to: str, seconds: float, counts: tuple[int, int, int]) -> Figure:
    return Figure(kernel, mode, to, (seconds * 0.9, seconds, seconds * 1.3), *counts, 0.1)


def run_of(cores: int = 2, stock: float = 2.8, patched: float = 0.16, chunks: int = 1) -> Run:
    cpus = cores * 8 - cores
    each, once = (2 * cpus + 1, cpus, cpus), (2, chunks, chunks)
    return Run(
        "ppc64le",
        cores,
        8,
        chunks,
        {"stock": "6.12-stock", "patched": "6.12-patched"},
        (
            figure("stock", "plain", "off", stock, each),
            figure("stock", "plain", "on", 0.9, each),
            figure("stock", "expedited", "off", stock / 2, each),
            figure("stock", "expedited", "on", 0.15, each),
            figure("patched", "plain", "off", patched, once),
            figure("patched", "plain", "on", 0.06, (1, 0, chunks)),
        ),
    )


def with_off(run: Run, **changed: int | tuple[str, ...]) -> Run:
    """The run, with facts of patched off changed."""
    return replace(
        run,
        figures=tuple(
            replace(kept, **changed)  # type: ignore[arg-type]
            if (kept.kernel, kept.to) == ("patched", "off")
            else kept
            for kept in run.figures
        ),
    )


def test_a_run_that_meets_its_target_passes() -> None:
    assert gains.problems(run_of()) == []


@pytest.mark.parametrize(
    ("run", "word"),
    [
        (run_of(patched=0.5), "off against stock: 5.6 times, not 12"),
        (run_of(patched=0.234), "off against stock: 11.966 times, not 12"),
        (run_of(stock=1.5, patched=0.16), "off against expedited: 4.7 times, not 5"),
        (run_of(cores=8, patched=0.2), "off against stock: 14.0 times, not 25"),
        (with_off(run_of(), grace_periods=4), "4 grace periods for 1 chunk"),
        (with_off(run_of(), rendezvous=2), "2 rendezvous for 1 chunk"),
        (with_off(run_of(), rebuilds=2), "2 rebuilds for 1 chunk"),
        (with_off(run_of(), serially=("x:online", "a single CPU")), "one by one because of x:online"),
        (replace(run_of(), figures=()), "nothing was measured"),
    ],
)
def test_a_miss_is_a_problem(run: Run, word: str) -> None:
    assert any(word in problem for problem in gains.problems(run))


def test_a_distributions_configuration_has_no_target_but_its_counts_are_judged() -> None:
    slow = replace(run_of(patched=2.0), config="debian-7.3.config")
    assert gains.problems(slow) == []
    assert "one by one because of x:online" in str(gains.problems(with_off(slow, serially=("x:online",))))
    assert slow.guest == "ppc64le, 2 x 8, debian-7.3.config"


def test_an_unusual_guest_has_no_target_but_its_counts_are_judged() -> None:
    assert gains.problems(run_of(cores=3, patched=2.0)) == []
    assert gains.problems(with_off(run_of(cores=3), rendezvous=9)) != []


def test_a_cpu_that_is_its_chunk_alone_may_go_alone() -> None:
    assert gains.problems(with_off(run_of(), serially=("a single CPU",))) == []


def test_pieces_are_kept_and_shown_by_their_medians(tmp_path: Path) -> None:
    run = run_of()
    pieces = tuple({"takedown": seconds, "dead": 0.001} for seconds in (0.1, 0.3, 0.2))
    run = replace(
        run,
        figures=tuple(
            replace(kept, pieces=pieces) if (kept.kernel, kept.to) == ("patched", "off") else kept
            for kept in run.figures
        ),
    )
    keeping.save(run, tmp_path / "speed.json")
    assert gains.load(tmp_path / "speed.json") == run
    (row,) = gains.table([run]).splitlines()[-1:]
    assert row == "| ppc64le, 2 x 8 | 0.16 | 0.000 | 0.000 | 0.000 | 0.200 | 0.001 | 0.000 |"
    assert "Where the time of `off` goes" not in gains.table([run_of()])


def test_growth_is_the_slope_between_sizes() -> None:
    assert gains.exponent([(16, 1.0), (64, 16.0)]) == pytest.approx(2.0)
    assert "to the power of 2.2" in gains.table([run_of(), run_of(cores=8, stock=2.8 * 4**2.2)])


def test_a_run_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "speed.json"
    keeping.save(run_of(), path)
    assert gains.load(path) == run_of()


def test_the_table_has_a_row_for_each_kernel_and_way() -> None:
    lines = gains.table([run_of()]).splitlines()
    assert [line.count("|") for line in lines[:5]] == [11] * 5
    single = tuple(replace(kept, seconds=kept.seconds[1:2]) for kept in run_of().figures)
    assert (
        "| 17.5x, 8.8x over expedited |" in gains.table([replace(run_of(), figures=single)]).splitlines()[4]
    )
    assert lines[4].split(" | ")[-2] == "17.5x (12.1 to 25.3), 8.8x (6.1 to 12.6) over expedited"


def switched(stock: tuple[float, ...], patched: tuple[float, ...], mode: str = "legacy") -> Run:
    """A run with those seconds going on, in one more way."""
    more = (
        replace(figure("stock", mode, "on", 1, (1, 1, 1)), seconds=stock),
        replace(figure("patched", mode, "on", 1, (1, 1, 1)), seconds=patched),
    )
    return replace(run_of(), figures=(*run_of().figures, *more))


SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)


@pytest.mark.parametrize("mode", gains.WAYS)
def test_a_way_that_was_slower_than_on_stock_is_named_and_no_problem(mode: str) -> None:
    run = switched(SPREAD, tuple(1.1 * one for one in SPREAD), mode)
    run = replace(run, figures=tuple(one for one in run.figures if one.mode == mode and one.to == "on")[-2:])
    (loss,) = gains.losses(run)
    assert loss.startswith(
        f"{mode} on was slower than on stock: 0.91x (0.88 to 0.93); repeat it with --boots 3"
    )
    assert gains.losses(switched(SPREAD, SPREAD, "crash")) == []
    assert gains.problems(switched(SPREAD, (2.0,) * 5)) == []


@pytest.mark.parametrize(
    ("stock", "patched"),
    [
        pytest.param(SPREAD, tuple(1.04 * one for one in SPREAD), id="within 5%"),
        pytest.param((0.5, 1.0, 1.6), (0.7, 1.2, 1.4), id="within the spread"),
        pytest.param((1.0, 1.0), (2.0, 2.0), id="two switches have no interval"),
        pytest.param(SPREAD, (0.5,) * 5, id="faster"),
    ],
)
def test_what_the_spread_explains_is_no_loss(stock: tuple[float, ...], patched: tuple[float, ...]) -> None:
    assert gains.losses(switched(stock, patched)) == []


def booted(run: Run, *factors: float) -> Run:
    """The run with as many boots of each kernel, and the seconds of the patched one by these factors."""
    runs = [
        [
            replace(
                kept, seconds=tuple(one * (factor if kept.kernel == "patched" else 1) for one in kept.seconds)
            )
            for kept in run.figures
        ]
        for factor in factors
    ]
    return replace(run, figures=gains.joined(runs))


def test_figures_of_several_boots_keep_the_boots_apart() -> None:
    run = booted(run_of(), 1.0, 1.1, 1.2)
    off = run.of("patched", "plain", "off")
    assert off
    assert off.boots == tuple(
        tuple(one * factor for one in (0.16 * 0.9, 0.16, 0.16 * 1.3)) for factor in (1.0, 1.1, 1.2)
    )
    assert gains.joined([run_of().figures]) == run_of().figures
    assert "(0.14 to 0.25, 9 in 3 boots)" in gains.table([run])


def test_figures_of_several_boots_have_the_most_that_a_boot_counted() -> None:
    one, two = run_of(), with_off(run_of(), rendezvous=2, grace_periods=1, serially=("a reason",))
    joined = replace(one, figures=gains.joined([one.figures, two.figures]))
    assert gains.problems(joined) == [
        "2 rendezvous for 1 chunk(s)",
        "CPUs of a chunk went one by one because of a reason",
    ]


def test_the_interval_of_several_boots_is_that_of_boots() -> None:
    narrow, wide = (
        booted(run_of(), *factors).gain("off", "plain") for factors in ((0.8, 1.0, 1.25), (0.5, 1.0, 2.0))
    )
    assert narrow
    assert narrow.interval
    assert wide
    assert wide.interval
    assert narrow.boots == wide.boots == 3
    assert narrow.times == pytest.approx(wide.times) == pytest.approx(17.5)
    assert wide.interval[0] < narrow.interval[0] < 17.5 < narrow.interval[1] < wide.interval[1]


@pytest.mark.parametrize(
    ("factors", "wrong"),
    [
        pytest.param((1.2, 1.2, 1.2), True, id="in three boots alike"),
        pytest.param((0.7, 1.2, 1.9), False, id="boots differ"),
        pytest.param((1.2, 1.2), False, id="two boots are too few"),
        pytest.param((1.04, 1.04, 1.04), False, id="within 5%"),
    ],
)
def test_a_way_that_is_slower_in_several_boots_is_a_problem(factors: tuple[float, ...], wrong: bool) -> None:
    run = booted(switched(SPREAD, SPREAD), *factors)
    found = [problem for problem in gains.problems(run) if problem.startswith("legacy on is slower")]
    assert bool(found) == wrong
    assert all("in 3 boots: 0.83x" in problem for problem in found)
    assert not (found and gains.losses(run))


def test_runs_of_several_boots_come_back_as_they_were_kept(tmp_path: Path) -> None:
    path = tmp_path / "speed.json"
    run = booted(run_of(), 1.0, 1.1)
    keeping.save(run, path)
    assert gains.load(path) == run


def test_a_gain_has_as_many_digits_as_it_bears() -> None:
    assert str(gains.Gain(2.04, None)) == "2.0x"
    assert str(gains.Gain(1.04, (0.994, 1.11))) == "1.04x (0.99 to 1.11)"


def test_goals_stand_beside_what_bare_guests_gained() -> None:
    bare = replace(run_of(), bare=True)
    lines = gains.goals([replace(run_of(cores=3, patched=0.5), bare=True), bare]).splitlines()
    assert lines[2:] == [
        "| 16 | 17.5x of 20x | 8.8x of 8x | 15.0x of 25x |",
        "| 24 | 5.6x of 14x | 2.8x of 6x | 15.0x of 12x |",
    ]
    only = replace(bare, figures=tuple(one for one in bare.figures if one.mode == "plain"))
    assert "| 17.5x of 20x | not measured | 15.0x of 25x |" in gains.goals([only])
    others = [run_of(), replace(bare, one_thread=True), replace(bare, arch="x86_64"), replace(bare, cores=4)]
    assert [gains.goals([one]) for one in others] == [""] * 4
    assert gains.goals([]) == ""


def test_figures_and_chunks_come_from_the_records() -> None:
    counts = {gains.GRACE_PERIODS: 2, gains.RENDEZVOUS: 1, gains.REBUILDS[1]: 1, gains.REWRITES: 0}
    records: list[verdicts.Record] = [
        {"kind": "machine", "victims": list(range(120)), "chunk": "64", "release": "r"},
        {"kind": "speed", "mode": "plain", "to": "off", "seconds": [3, 1, 2], "counts": counts},
    ]
    (only,) = gains.figures("patched", records)
    assert (only.median, only.grace_periods, only.reader_wait) == (2, 2, None)
    assert gains.chunks(verdicts.the(records, "machine")) == 2
    assert gains.chunks({"victims": [1, 2, 3], "chunk": None}) == 3


def test_a_run_is_kept_under_its_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "KEPT", tmp_path / "kept")
    keeping.save(run_of(), tmp_path / "speed.json")
    kept = figures.keep(tmp_path / "speed.json", "7.3")
    assert kept.name == "7.3-ppc64le-16.json"
    assert gains.load(kept) == run_of()


def test_a_run_of_one_way_adds_to_the_kept_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "KEPT", tmp_path / "kept")
    keeping.save(run_of(), tmp_path / "speed.json")
    figures.keep(tmp_path / "speed.json", "6.12")
    crash = tuple(
        replace(figure("stock", "crash", to, 2.0, (1, 1, 1)), rewrites=14 if to == "on" else 0)
        for to in ("off", "on")
    )
    keeping.save(replace(run_of(), figures=crash), tmp_path / "speed.json")
    kept = gains.load(figures.keep(tmp_path / "speed.json", "6.12"))
    assert set(kept.figures) == {*run_of().figures, *crash}
    assert "crash kernel loaded" in gains.table([kept])
    assert "14 crash FDTs" in gains.table([kept])


def test_the_longer_measurement_stays() -> None:
    longer = replace(figure("patched", "plain", "on", 0.08, (1, 0, 1)), seconds=(0.08,) * 15)
    earlier = replace(run_of(), figures=(longer,))
    assert longer in gains.with_earlier(run_of(), earlier).figures
    assert gains.with_earlier(earlier, run_of()).of("patched", "plain", "on") == longer


def test_what_other_kernels_did_is_not_kept() -> None:
    later = replace(run_of(), releases={"stock": "6.12-stock", "patched": "6.12-better"}, figures=())
    kept = gains.with_earlier(later, run_of())
    assert {figure.kernel for figure in kept.figures} == {"stock"}
    assert gains.with_earlier(later, run_of(cores=8)) == later


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"costs": []}'])
def test_what_cannot_be_read_is_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "speed.json"
    bad.write_text(text)
    assert main(["keep", str(bad)]) == ExitCode.INPUT
    error = capsys.readouterr().err
    assert error.startswith("kernel-qualify: error: ")
    assert error.count("\n") == 1


def test_a_run_that_is_not_there_is_an_environments_fault(tmp_path: Path) -> None:
    assert main(["keep", str(tmp_path / "speed.json")]) == ExitCode.ENVIRONMENT


def test_a_kept_run_is_named_by_line_and_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(figures, "KEPT", tmp_path / "kept")
    keeping.save(run_of(), tmp_path / "speed.json")
    assert main(["keep", str(tmp_path / "speed.json"), "--line", "7.3"]) == ExitCode.OK
    assert capsys.readouterr().out == f"{tmp_path / 'kept/7.3-ppc64le-16.json'}\n"
    assert (tmp_path / "kept/7.3-ppc64le-16.json").exists()


def test_guests_that_were_run_in_another_way_are_told_apart_and_grow_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "KEPT", tmp_path / "kept")
    sizes = (2, 8)
    runs = [replace(run_of(cores), bare=True) for cores in sizes]
    runs += [replace(run_of(cores), bare=True, one_thread=True) for cores in sizes]
    runs.append(replace(run_of(patched=2.0), like="powernv10"))
    for number, run in enumerate([run_of(), *runs]):
        keeping.save(run, tmp_path / f"{number}.json")
        figures.keep(tmp_path / f"{number}.json", "6.12")
    names = {path.name for path in (tmp_path / "kept").glob("*.json")}
    bare, turns = "6.12-ppc64le-{}-bare.json", "6.12-ppc64le-{}-bare-one-thread.json"
    guests = {name.format(cpus) for name in (bare, turns) for cpus in (16, 64)}
    assert names == {"6.12-ppc64le-16.json", "6.12-ppc64le-16-powernv10.json", *guests}
    assert not gains.problems(runs[-1]), "targets are of LPARs"
    text = gains.table([run_of(), *runs])
    assert text.count("| ppc64le, 2 x 8, powernv10 |") == 3
    assert text.count("| ppc64le, 2 x 8, bare |") == text.count("| ppc64le, 2 x 8 |") == 3
    assert "Off on ppc64le guests, bare, stock: grows with the number of CPUs (16, 64)" in text
    assert "Off on ppc64le guests, bare, one thread, stock: grows with the number of CPUs (16, 64)" in text
    assert "Off on ppc64le guests, stock:" not in text


def test_growth_to_the_largest_guest_that_stock_was_measured_in_is_told_by_itself() -> None:
    runs = [run_of(cores, patched=seconds) for cores, seconds in ((2, 1.0), (16, 8.0), (64, 128.0))]
    text = gains.table(runs)
    compared = "patched: grows with the number of CPUs (16, 128) to the power of 1.0"
    assert f"{compared}, and (16, 128, 512) to the power of 1.4." in text
