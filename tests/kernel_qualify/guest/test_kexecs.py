"""The command line that carries how many jumps are left."""

from hypothesis import given
from hypothesis import strategies as st

from kernel_qualify.guest import kexecs

LINE = 'root=/dev/vda qualify.kexecs={} disable_radix=off init=/bin/sh -- -c "mount; python3 x.pyz kexecs"'


@given(st.integers(min_value=1, max_value=10**6))
def test_each_kernel_has_one_jump_less_and_all_else_the_same(left: int) -> None:
    following = kexecs.next_command_line(LINE.format(left))
    assert following == LINE.format(left - 1)
    assert kexecs.jumps_left(following) == left - 1


def test_a_command_line_without_jumps_leaves_none() -> None:
    assert kexecs.jumps_left("root=/dev/vda quiet") == 0
