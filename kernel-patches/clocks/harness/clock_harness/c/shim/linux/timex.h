/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_TIMEX_H
#define SHIM_TIMEX_H

#include <linux/types.h>

typedef u64 cycles_t;

#if defined(__x86_64__)
#define get_cycles() ((cycles_t)__builtin_ia32_rdtsc())
#else
/* One a nanosecond. */
cycles_t get_cycles(void);
#endif

#endif
