/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_PREEMPT_H
#define SHIM_PREEMPT_H

#include <linux/types.h>

/* Whether this thread plays a handler of an NMI. */
extern __thread bool shim_in_nmi;

#define in_nmi() shim_in_nmi

#endif
