"""The command line: every help has examples that parse, options are checked, and `all` passes options on."""

import argparse
import json
import shlex
from pathlib import Path
from unittest.mock import Mock

import pytest

import lpar_lab.cli
from hotplug_common.kernel import artifact, origin
from hotplug_host.errors import ExitCode, ToolError
from kernel_qualify import cli, options
from kernel_qualify.commands import everything, inject, speed, stress
from kernel_qualify.proving import Order

EVERY = [(command.NAME, command.proofs) for command in cli.COMMANDS]
NAMES = ["all", "patches", "keep", *(name for name, _ in EVERY)]


def parse(*words: str) -> argparse.Namespace:
    return cli.build_parser().parse_args(words)


def subparsers() -> dict[str, argparse.ArgumentParser]:
    parser = cli.build_parser()
    (actions,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(actions.choices)


def test_every_subcommand_is_looked_at() -> None:
    assert sorted(subparsers()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_help_has_examples_that_parse(name: str) -> None:
    text = subparsers()[name].format_help()
    examples = [line for line in text.splitlines() if line.startswith("  kernel-qualify ")]
    assert examples
    for line in examples:
        words = shlex.split(line)[1:]
        assert words[0] == name
        assert parse(*words).command == name


@pytest.mark.parametrize("name", NAMES)
def test_help_ends_well(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == ExitCode.OK
    assert f"usage: kernel-qualify {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        "speed --line 9.9",
        "speed --variant stock",
        "stress --variant nothing",
        "stress --switches 0",
        "stress --fragment nothing",
        "stress --variant stock --kernel artifact.json",
        "inject --every -1",
        "rcutorture --minutes nan",
        "rcutorture --hotplug none",
        "speed --stock-modes quick",
        "speed --stock-modes plain,none",
        "speed --stock-modes ''",
        "speed --one-thread",
        "speed --stock-modes none --patched-modes none",
        "speed --boots 0",
        "speed --threads 3",
        "stress --arch x86_64 --threads 8",
        "stress --arch x86_64 --like powernv10",
        "inject --like powernv9 --threads 8",
        "matrix --configuration nothing",
        "clock-costs --per-host-cpu 3",
        "clock-early --sleeps 1,x",
        "clock-early --timer sundial",
        "latencies --boots 0",
        "rcu-variants --arch x86_64",
        "patches --topic nothing",
        "patches --patch clocks-9999",
        "figures",
        "",
    ],
)
def test_a_wrong_command_line_is_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(shlex.split(line)) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kernel-qualify: error: ")
    assert captured.err.count("\n") == 1


def test_a_guest_has_as_many_threads_as_its_architecture_can() -> None:
    assert options.order(parse("stress")).threads == 8
    assert options.order(parse("stress", "--arch", "x86_64")).threads == 2
    assert options.order(parse("stress", "--threads", "4", "--cores", "3")) == Order("ppc64le", "6.12", 3, 4)


def kernel(folder: Path, arch: str) -> Path:
    """The artifact.json of a kernel that was built."""
    (folder / "vmlinux").touch()
    source = artifact.SourceRef("linux-source-6.12", "1", "0" * 64)
    image = folder / "vmlinux"
    made = artifact.Artifact(
        *(
            arch,
            "6.12",
            "patched",
            "6.12.1-patched",
            image,
            "0" * 64,
            folder / "config",
            source,
            [],
            [],
            "2026-11-20T08:00:00Z",
        )
    )
    made.file.write_text(made.to_json())
    return made.file


def test_a_kernel_that_is_built_goes_before_variant_and_fragments(tmp_path: Path) -> None:
    file = kernel(tmp_path, "ppc64le")
    order = options.order(parse("stress", "--kernel", str(file), "--fragment", "kasan"))
    assert order.kernel == file
    assert "--kernel" in order.up(["debug"])
    assert not {"--variant", "kasan", "debug"} & set(order.up(["debug"]))


def test_a_kernel_of_another_architecture_is_refused(tmp_path: Path) -> None:
    file = kernel(tmp_path, "x86_64")
    with pytest.raises(ToolError, match="is no kernel for ppc64le") as caught:
        options.order(parse("stress", "--kernel", str(file)))
    assert caught.value.code == ExitCode.USAGE


def test_a_file_that_is_no_kernel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "artifact.json").write_text(json.dumps({"schema": "other"}))
    with pytest.raises(ToolError) as caught:
        options.order(parse("stress", "--kernel", str(tmp_path)))
    assert caught.value.code == ExitCode.INPUT


@pytest.mark.parametrize("order", [Order("ppc64le", "7.3", 2, 8, ("kasan",)), Order("x86_64", "6.12", 1, 1)])
def test_the_lab_understands_what_it_is_told(order: Order) -> None:
    lab = lpar_lab.cli.parser()
    up = lab.parse_args(["up", "proving", *order.up(["debug"])])
    assert (up.arch, up.cores, up.threads, up.variant) == (order.arch, order.cores, order.threads, "patched")
    build = lab.parse_args(["build-kernel", *order.lineage, *order.built(), "--print-artifact"])
    assert build.arch == order.arch
    assert order.kasan is ("kasan" in str(vars(build)))
    assert order.line in vars(build).values()


def test_a_distributions_configuration_is_built_with_what_a_guest_boots_from(tmp_path: Path) -> None:
    config = tmp_path / "debian.config"
    order = options.order(parse("speed", "--config-from", str(config)))
    build = lpar_lab.cli.parser().parse_args(["build-kernel", *order.lineage, *order.built()])
    assert (build.config_from, build.variant) == (str(config), "patched")
    assert {"VIRTIO_BLK=y", "EXT4_FS=y", "FUNCTION_PROFILER=y"} <= set(build.enable)
    assert origin.read_modules(build.trim_to)[0] == ["virtio_blk", "virtio_net"]
    config.write_text("CONFIG_SMP=y\n")
    before = options.facts(parse("speed"))
    assert options.facts(parse("speed", "--config-from", str(config))) != before


def test_modes_are_read_by_commas() -> None:
    assert speed.modes("plain,crash") == ("plain", "crash")
    assert speed.modes("none") == ()


def test_all_has_every_proof_once() -> None:
    proofs = everything.chosen(parse("all"), EVERY, parse)
    names = [proof.name for proof in proofs]
    assert len(set(names)) == len(names)
    assert {name.partition("/")[0] for name in names} == {name for name, _ in EVERY}
    assert {"rcutorture/rcutorture", "rcutorture/smt", "clock-costs/4", "clock-early/hpet"} <= set(names)
    assert {"clock-debug/x86_64", "matrix/coverage", "matrix/baits", "matrix/arm64-all"} <= set(names)
    assert all(proof.line == "6.12" for proof in proofs)


def test_faults_need_a_guest_with_room_for_three_chunks_and_a_partition() -> None:
    (proof,) = inject.proofs(parse("inject", "--like", "powernv9"))
    with pytest.raises(ToolError, match="2 cores x 4 threads are too few CPUs") as caught:
        proof.find(None)  # type: ignore[arg-type]
    assert caught.value.code is ExitCode.USAGE


def test_all_passes_options_on_to_those_that_have_them() -> None:
    words = ("all", "--line", "7.3", "--arch", "x86_64", "--cores", "4", "--fragment", "kasan")
    by_name = {proof.name: proof for proof in everything.chosen(parse(*words), EVERY, parse)}
    assert all(proof.line == "7.3" for proof in by_name.values())
    assert by_name["stress"].facts["arch"] == "x86_64"
    assert by_name["stress"].facts["cores"] == 4
    assert by_name["stress"].facts["fragment"] == ["kasan"]
    assert "cores" not in by_name["clock-order"].facts
    assert "matrix/arm64" in by_name


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("rcutorture --hotplug smt", ["rcutorture/smt"]),
        ("clock-costs --per-host-cpu 1 --per-host-cpu 8", ["clock-costs/1", "clock-costs/8"]),
        ("clock-debug --arch ppc64le", ["clock-debug/ppc64le"]),
        ("clock-early --timer lapic", ["clock-early/lapic"]),
        ("matrix --configuration ppc64le-no-smp", ["matrix/ppc64le-no-smp"]),
    ],
)
def test_parts_of_a_subcommand_are_chosen(line: str, names: list[str]) -> None:
    name, *_ = words = shlex.split(line)
    assert [proof.name for proof in dict(EVERY)[name](parse(*words))] == names


def test_a_part_passes_with_the_same_inputs_whether_it_is_named_or_not() -> None:
    (named,) = dict(EVERY)["rcutorture"](parse("rcutorture", "--hotplug", "smt"))
    _, smt = dict(EVERY)["rcutorture"](parse("rcutorture"))
    assert named.facts == smt.facts


def test_words_for_the_command_line_reach_the_guest() -> None:
    (proof,) = stress.proofs(parse("stress", "--append", "threadirqs rcutree.use_softirq=0"))
    ground = Mock()
    ground.guest.return_value.script.side_effect = ToolError("the guest booted")
    with pytest.raises(ToolError, match="the guest booted"):
        proof.find(ground)
    ground.guest.return_value.boot.assert_called_once_with(
        "debug", "validation", append="threadirqs rcutree.use_softirq=0"
    )
    assert proof.facts["append"] == "threadirqs rcutree.use_softirq=0"
