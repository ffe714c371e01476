/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_BITS_H
#define SHIM_BITS_H

#define BIT_ULL(n) (1ULL << (n))
#define GENMASK_ULL(high, low) ((~0ULL >> (63 - (high))) & (~0ULL << (low)))

#endif
