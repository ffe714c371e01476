/* SPDX-License-Identifier: GPL-2.0-only */
/* As strong as the kernel's: what returns a value is ordered in full, an acquire is one. */
#ifndef SHIM_ATOMIC_H
#define SHIM_ATOMIC_H

#include <linux/types.h>

#define ATOMIC64_INIT(value) { (value) }

static __always_inline s64 atomic64_read(const atomic64_t *v)
{
	return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);
}

static __always_inline s64 atomic64_read_acquire(const atomic64_t *v)
{
	return __atomic_load_n(&v->counter, __ATOMIC_ACQUIRE);
}

static __always_inline bool atomic64_try_cmpxchg(atomic64_t *v, s64 *old, s64 next)
{
	return __atomic_compare_exchange_n(&v->counter, old, next, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

#define raw_atomic64_read atomic64_read
#define raw_atomic64_try_cmpxchg atomic64_try_cmpxchg

#endif
