/* SPDX-License-Identifier: GPL-2.0-only */
/* The ways to read a counter that are compared. */
#ifndef ALGORITHMS_H
#define ALGORITHMS_H

#include <linux/types.h>

/* A counter of 32 bits or fewer that all CPUs share: device_read(). */
u64 read_plain(void);
u64 read_hpet(void);
u64 read_combined(void);

/* A counter of 64 bits on each CPU: device_cycles(). */
u64 read_retry(void);
u64 read_winner(void);
u64 read_pvclock_stock(void);
u64 read_pvclock(void);

#endif
