/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_TIME64_H
#define SHIM_TIME64_H

#define NSEC_PER_USEC 1000L

#endif
