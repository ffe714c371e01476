"""Hotplug states in a kernel's source, and whether they are marked for bulk offlining."""

from __future__ import annotations

from pathlib import Path

import pytest

from lpar_lab import states

HEADER = """enum cpuhp_state {
	CPUHP_INVALID = -1,
	CPUHP_VIRT_NET_DEAD,
	CPUHP_AP_X86_STARTING,
	/* CPUHP_NOT_THIS, */
	CPUHP_TEARDOWN_CPU,
	CPUHP_AP_ONLINE_IDLE,
	CPUHP_AP_KVM_ONLINE,
	CPUHP_AP_PERF_ONLINE,
	CPUHP_AP_ONLINE_DYN,
	CPUHP_AP_ONLINE_DYN_END		= CPUHP_AP_ONLINE_DYN + 40,
	CPUHP_ONLINE,
};
"""
ONLINE = states.online_section(HEADER)
CORE = """static bool cpuhp_bulk_down_possible(const struct cpumask *cpus)
static struct cpuhp_step cpuhp_hp_states[] = {
	[CPUHP_TEARDOWN_CPU] = {
		.name			= "cpu:teardown",
		.teardown.single	= takedown_cpu,
	},
	[CPUHP_AP_KVM_ONLINE] = {
		.name			= "kvm:online",
		.teardown.single	= NULL,
	},
	[CPUHP_AP_PERF_ONLINE] = {
		.name			= "perf:online",
		.teardown.single	= perf_event_exit_cpu,
		.bulk_down		= true,
	},
	[CPUHP_AP_ONLINE_IDLE] = {
		.name			= "idle:online",
		.teardown.single	= idle_down,
	},
};
"""


def found(text: str) -> list[tuple[str, bool]]:
    return [(one.name, one.marked) for one in states.registered(text, "x.c", ONLINE)]


def test_the_online_section_is_what_comes_between_its_ends() -> None:
    assert set(ONLINE) == {
        *("CPUHP_AP_ONLINE_IDLE", "CPUHP_AP_KVM_ONLINE", "CPUHP_AP_PERF_ONLINE", "CPUHP_AP_ONLINE_DYN"),
        "CPUHP_AP_ONLINE_DYN_END",
    }


def test_states_of_the_core_are_in_its_table() -> None:
    listed = [(one.name, one.line, one.marked) for one in states.core_states(CORE, ONLINE)]
    assert listed == [("perf:online", 11, True), ("idle:online", 16, False)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # What the patches do to single callers, shortened from the kernel's source.
        (
            'r = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "powerpc/topology:online",\n'
            "\t\t      register_cpu_online, unregister_cpu_online);\n"
            "if (!WARN_ON(r < 0))\n\tcpuhp_allow_bulk_down(r);\n",
            [("powerpc/topology:online", True)],
        ),
        (
            'ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "cpufreq:online", up, down);\n'
            "if (ret < 0)\n\tgoto err;\nhp_online = ret;\ncpuhp_allow_bulk_down(hp_online);\n",
            [("cpufreq:online", True)],
        ),
        (
            'ret = cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "virtio/net:online", up, down);\n'
            "virtionet_online = ret;\n"
            'ret = cpuhp_setup_state_multi(CPUHP_VIRT_NET_DEAD, "virtio/net:dead", NULL, dead);\n'
            "cpuhp_allow_bulk_down(virtionet_online);\n",
            [("virtio/net:online", True)],
        ),
        (
            'if (mm)\n\tret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "a:online", up, down);\nelse\n'
            '\tret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "b:online", up, down);\n'
            "cpuhp_allow_bulk_down(ret);\n",
            [("a:online", True), ("b:online", True)],
        ),
        (
            'ret = cpuhp_setup_state(CPUHP_AP_KVM_ONLINE, "kvm:online", up, down);\n'
            "if (!ret)\n\tcpuhp_allow_bulk_down(CPUHP_AP_KVM_ONLINE);\n",
            [("kvm:online", True)],
        ),
        # And what they do not.
        ('return cpuhp_setup_state(CPUHP_AP_KVM_ONLINE, "kvm:online", up, down);\n', [("kvm:online", False)]),
        (
            'ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "lost:online", up, down);\nret = 0;\n'
            "cpuhp_allow_bulk_down(ret);\n",
            [("lost:online", False)],
        ),
        (
            'ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "one:online", up, down);\n}\n'
            "void f(void)\n{\ncpuhp_allow_bulk_down(ret);\n",
            [("one:online", False)],
        ),
        # No teardown; another section; a comment.
        ('cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "up:online", up, NULL);\n', []),
        ('cpuhp_setup_state(CPUHP_VIRT_NET_DEAD, "x:dead", NULL, dead);\n', []),
        ('/* cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "old:online", up, down); */\n', []),
        ('__cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "x", true, up, down, false);\n', []),
    ],
)
def test_a_state_is_marked_where_what_its_call_returned_is(
    text: str, expected: list[tuple[str, bool]]
) -> None:
    assert found(text) == expected


def test_a_source_is_scanned_with_the_patched_files_in_front(tmp_path: Path) -> None:
    plain, patched = tmp_path / "tree", tmp_path / "patched"
    lpfc = 'rc = cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN,\n"lpfc/sli4:online", up, down);\n'
    files = {
        "kernel/cpu.c": "before\n",
        "include/linux/cpuhotplug.h": HEADER,
        "drivers/scsi/lpfc/lpfc_init.c": lpfc,
        "drivers/gone.c": lpfc,
        "arch/powerpc/x.c": lpfc.replace("lpfc/sli4", "powerpc/x"),
        "arch/s390/x.c": lpfc,
        "tools/x.c": lpfc,
    }
    for name, text in files.items():
        (plain / name).parent.mkdir(parents=True, exist_ok=True)
        (plain / name).write_text(text)
    assert states.scan(plain, patched, "powerpc") is None
    (patched / "kernel").mkdir(parents=True)
    (patched / "kernel/cpu.c").write_text(CORE)
    (patched / "drivers").mkdir()
    (patched / "drivers/gone.c").write_text("nothing\n")
    listed = states.scan(plain, patched, "powerpc")
    assert listed is not None
    names = ["idle:online", "powerpc/x:online", "lpfc/sli4:online"]
    assert [(one.name, one.multi) for one in states.unmarked(listed, None)] == [
        (names[0], False),
        (names[1], True),
        (names[2], True),
    ]
    built = frozenset({"drivers/scsi/lpfc/lpfc_init.c"})
    (one,) = states.unmarked(listed, built)
    assert (one.file, one.line, one.teardown) == ("drivers/scsi/lpfc/lpfc_init.c", 1, "down")
