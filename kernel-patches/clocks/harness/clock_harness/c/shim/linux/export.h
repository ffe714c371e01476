/* SPDX-License-Identifier: GPL-2.0-only */
/* kunit/visibility.h has what is exported here. */
