/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_SCHED_CLOCK_H
#define SHIM_SCHED_CLOCK_H

#include <linux/types.h>

u64 sched_clock(void);

#endif
