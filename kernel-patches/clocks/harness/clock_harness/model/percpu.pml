/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters that each CPU has of its own, kept from going backwards by a last value that CPUs share,
 * in one of four ways, every interleaving of them:
 *
 *	RETRY	reads again as long as another CPU is faster
 *	WINNER	who loses returns what the winner has published
 *	PVCLOCK	reads once, tries again as long as what it lost to is earlier (Linux 6.12)
 *	ADVANCE	pvclock_advance() of the kernel patches
 *
 * Any process may stand still for as long as the others run. The clocks differ by up to SKEW.
 *
 * Checked, by assertions:
 *	order	a call returns nothing earlier than what any call had returned when it started
 *	fresh	what a call returns is at most FRESH earlier than what it has read itself
 *	bound	a call tries at most BOUND times to publish
 *	alone	a CPU that has no other returns what it has read itself, with ALONE
 */
#ifndef CPUS
#define CPUS 3
#endif
#ifndef CALLS
#define CALLS 2
#endif
#ifndef BOUND
#ifdef ADVANCE
/* The first try may fail because of what was published before the vCPU has read its own time. */
#define BOUND (CPUS + 1)
#else
#define BOUND CPUS
#endif
#endif
#define SKEW 1
#define FRESH 1

byte now = 0;
/* The latest time that a call has returned. */
byte latest = 0;
/* The shared word. */
byte last_value = 0;

inline sample(into) {
	d_step { now++; into = now + skew }
}

/* `last` is what cmpxchg says there was. */
inline publish() {
	d_step {
		tries++;
		if
		:: last_value == last -> last_value = mine; own = mine; published = true
		:: else -> last = last_value
		fi
	};
#ifndef NO_BOUND
	assert(tries <= BOUND);
#endif
	if
	:: published -> result = mine; goto returned
	:: else
	fi
}

inline give_up_if(condition) {
	if
	:: condition -> result = last; goto returned
	:: else
	fi
}

#if defined(RETRY)
inline read_counter() {
	before = latest;
	do
	:: last = last_value;
	   sample(mine);
	   give_up_if(mine <= last);
	   publish()
	od
}
#elif defined(WINNER)
inline read_counter() {
	d_step { before = latest; last = last_value };
	sample(mine);
	give_up_if(mine <= last);
	publish();
	give_up_if(true)
}
#elif defined(PVCLOCK)
inline read_counter() {
	before = latest;
	sample(mine);
	last = last_value;
	do
	:: give_up_if(mine <= last);
	   publish()
	od
}
#elif defined(ADVANCE)
inline read_counter() {
	before = latest;
	last = last_value;
	taken = (last != own);
	sample(mine);
	do
	:: give_up_if(mine <= last || (taken && mine - last <= FRESH));
	   publish();
	   taken = true
	od
}
#endif

active [CPUS] proctype cpu() {
	byte skew, last, mine, result, before, tries;
	byte own = 0;	/* what this CPU has published last */
	bool published, taken;
	byte calls = 0;

	if
	:: skew = 0
	:: skew = SKEW
	fi;
	do
	:: calls < CALLS ->
		read_counter();
returned:	skip;
		d_step {
#ifndef NO_ORDER
			assert(result >= before);
#endif
#ifndef NO_FRESH
			assert(result + FRESH >= mine);
#endif
#ifdef ALONE
			assert(result == mine);
#endif
			latest = (result > latest -> result : latest);
			calls++;
			last = 0; mine = 0; result = 0; before = 0; tries = 0; published = false;
			taken = false
		}
	:: else -> break
	od
}
