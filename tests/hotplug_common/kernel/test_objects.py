"""What a configuration compiles, counted from Makefiles, and what is said of time and space."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotplug_common.kernel import objects
from hotplug_common.kernel.objects import Objects, Rates, Spent

MAKEFILES = {
    "Kbuild": "obj-y += kernel/ drivers/\nobj-$(CONFIG_NET) += net/\n",
    "lib/Makefile": "lib-y += string.o\nobj-$(CONFIG_CRC) += crc.o\n",
    "kernel/Makefile": "obj-y := cpu.o sched/\nobj-$(CONFIG_SMP) += smp.o\nobj-$(CONFIG_GONE) += gone.o\n"
    "CFLAGS_cpu.o := $(call cc-option,-fx)\n",
    "kernel/sched/Makefile": "ifdef CONFIG_SMP\nobj-y += both.o\nendif\nboth-y := a.o b.o\n",
    "drivers/Makefile": "obj-$(CONFIG_SCSI) += scsi/\nobj-m += usb.o\n",
    # A folder that only modules lead into: what is built in there is not in the image.
    "drivers/scsi/Makefile": "obj-$(CONFIG_LPFC) += lpfc.o\nlpfc-objs := init.o \\\n\tsli.o\n"
    "lpfc-$(CONFIG_SMP) += mq.o\nobj-y += never.o\n",
    "net/Kbuild": "obj-y += core.o\n",
    "net/Makefile": "$(error Kbuild goes before Makefile)\n",
    "arch/x86/Kbuild": "obj-y += kernel/\n",
    "arch/x86/kernel/Makefile": "obj-y += entry.o\nnot-a-goal: ; false\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in MAKEFILES.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tree"


def test_objects_are_counted_as_kbuild_would_compile_them(tree: Path, tmp_path: Path) -> None:
    config = tmp_path / ".config"
    config.write_text(
        'CONFIG_SMP=y\nCONFIG_NET=y\nCONFIG_SCSI=m\nCONFIG_LPFC=m\nCONFIG_NAME="x"\n# CONFIG_CRC is not set\n'
    )
    found = objects.count(tree, config, "x86")
    assert found.builtin == {
        *(
            "kernel/cpu.o",
            "kernel/smp.o",
            "kernel/sched/a.o",
            "kernel/sched/b.o",
            "net/core.o",
            "lib/string.o",
        ),
        "arch/x86/kernel/entry.o",
    }
    assert found.modules == {
        "drivers/usb.o": {"drivers/usb.o"},
        "drivers/scsi/lpfc.o": {"drivers/scsi/init.o", "drivers/scsi/sli.o", "drivers/scsi/mq.o"},
    }
    assert "drivers/scsi/sli.c" in found.sources


def many(builtin: int, modular: int) -> Objects:
    names = frozenset(f"m/{number}.o" for number in range(modular))
    return Objects(frozenset(f"{number}.o" for number in range(builtin)), {"m.o": names})


def test_an_estimate_names_counts_time_space_and_where_its_rates_are_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objects.os, "cpu_count", lambda: 2)
    said = objects.estimate(many(2066, 9844), Rates(), 8)
    assert said.startswith(
        "2066 objects in the image, 9844 in 1 modules: about 99 min from clean on 2 idle CPUs, "
    )
    assert "4.2 GB (rates of a build of Debian's 6.12" in said
    assert "about 3.3 h from clean on 1 idle CPUs" in objects.estimate(many(2066, 9844), Rates(), 1)


def test_a_large_build_gives_the_rates_of_the_next_estimate(tmp_path: Path) -> None:
    rates = Rates.load(tmp_path)
    assert rates == Rates()
    few = rates.updated(Spent(100, 199), Spent(500, 400), "6.12-few")
    assert few == rates
    rates.updated(Spent(500, 1000), Spent(300, 400), "6.12-many").save(tmp_path)
    assert Rates.load(tmp_path) == Rates(0.5, 0.75, "6.12-many")
    (tmp_path / objects.RATES_FILE).write_text("{")
    assert Rates.load(tmp_path) == Rates()
