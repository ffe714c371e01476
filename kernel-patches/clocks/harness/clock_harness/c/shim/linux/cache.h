/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_CACHE_H
#define SHIM_CACHE_H

#define ____cacheline_aligned_in_smp __attribute__((__aligned__(64)))
#define __cacheline_aligned __attribute__((__aligned__(64)))

#endif
