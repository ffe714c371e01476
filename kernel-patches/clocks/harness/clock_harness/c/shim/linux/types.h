/* SPDX-License-Identifier: GPL-2.0-only */
/* What kernel code finds in a kernel, for user space: types and what every header there brings along. */
#ifndef SHIM_TYPES_H
#define SHIM_TYPES_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef int64_t s64;
typedef uint64_t u64;

typedef struct {
	s64 counter;
} atomic64_t;

#ifndef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#endif
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))

#endif
