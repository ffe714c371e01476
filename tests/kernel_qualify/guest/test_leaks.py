"""What a guest counts before and after its switches, from the kernel's own files."""

from kernel_qualify.guest import leaks

SLABINFO = """slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables
dentry              5160   5187    192   21    1 : tunables    0    0    0 : slabdata    247    247      0
filp                 420    512    256   16    1 : tunables    0    0    0 : slabdata     32     32      0
"""
MEMINFO = """MemTotal:        2015636 kB
PageTables:          680 kB
VmallocUsed:        5200 kB
Percpu:            16384 kB
"""


def test_objects_in_use_and_those_of_a_slab_are_the_second_and_fifth_column() -> None:
    assert list(leaks.objects(SLABINFO)) == [("dentry", 5160, 21), ("filp", 420, 16)]


def test_memory_that_the_kernel_does_not_tell_is_left_out() -> None:
    assert dict(leaks.kilobytes(MEMINFO)) == {"Percpu": 16384, "PageTables": 680, "VmallocUsed": 5200}


def test_threads_of_all_cpus_are_one_kind_and_workers_none() -> None:
    names = ["cpuhp/0", "cpuhp/12", "ksoftirqd/1", "kworker/1:0-events", "kworker/u32:4", "init"]
    assert leaks.threads(names) == {"cpuhp/N": 2, "ksoftirqd/N": 1, "init": 1}


def test_a_mapping_that_only_waits_for_its_purge_is_none() -> None:
    text = "0x1-0x2 131072 __ioremap_caller+0x13c/0x17c ioremap\n0x3-0x4   131072 unpurged vm_area\n"
    assert leaks.mappings(text) == 1
