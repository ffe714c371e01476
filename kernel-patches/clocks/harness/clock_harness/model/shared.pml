/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A slow counter that CPUs share, read in one of three ways, every interleaving of them:
 *
 *	COMBINED	combined_counter_read() of the kernel patches, step by step
 *	UPSTREAM	read_hpet() of Linux 4.9 to 6.12
 *	IMPATIENT	the same, but who has waited long enough returns what it reads itself
 *
 * Any of the calls may be one in an NMI, unless NO_NMI is set. A CPU that does not run needs no words of its own:
 * any process may stand still for as long as the others run.
 *
 * Checked, by assertions:
 *	order	a call returns nothing earlier than what any call had returned when it started
 *	bound	a call ends after at most BOUND steps of its own that wait for others or try again
 */
#ifndef CPUS
#define CPUS 3
#endif
#ifndef CALLS
#define CALLS 2
#endif
#ifndef SPINS
#define SPINS 1
#endif
#define MAX_READERS 3

/* The time, which here goes on whenever the counter is read: equal values are in order anyway. */
byte now = 0;
/* The latest time that a call has returned. */
byte latest = 0;

/* The shared word. */
byte value = 0;
byte generation = 0;
byte readers = 0;	/* COMBINED */
bool locked = false;	/* the others */

#ifdef NO_BOUND
#define STEP skip
#else
#define STEP steps++
#endif

inline sample(into) {
	d_step { now++; into = now }
}

#ifdef COMBINED
/* At most SPINS looks at each of READERS, and one failed cmpxchg for each of its changes. */
#define BOUND (MAX_READERS * (SPINS + 2) + MAX_READERS + 2)

inline read_counter() {
	d_step { start = generation; seen = readers; before = latest; }
	if
	:: nmi -> skip
	:: else ->
		spins = 0;
		do
		/* `seen`, `other` and `seen_value`: what the word was when it was last looked at. */
		:: other ->
			atomic { result = seen_value; goto returned }
		:: !other && (seen == 0 || spins == SPINS) ->
			if
			:: seen == MAX_READERS -> break
			:: else ->
				d_step {
					STEP;
					if
					:: generation == start && readers == seen -> readers++; seen++; announced = true
					:: else ->
						seen = readers; other = (generation != start); seen_value = value;
						spins = 0
					fi
				}
				if
				:: announced -> break
				:: else
				fi
			fi
		:: !other && seen != 0 && spins < SPINS ->
			d_step {
				STEP;
				spins = (readers == seen && generation == start -> spins + 1 : 0);
				seen = readers; other = (generation != start); seen_value = value
			}
		od
	fi;
	sample(mine);
	/* Held up, or not: then read again. */
	if
	:: sample(mine)
	:: skip
	fi;
	do
	:: other ->
		atomic { result = seen_value; goto returned }
	:: else ->
		d_step {
			STEP;
			if
			:: generation == start && readers == seen ->
				generation++; readers = 0; value = mine; published = true
			:: else ->
				seen = readers; other = (generation != start); seen_value = value
			fi
		};
		if
		:: published -> result = mine; goto returned
		:: else
		fi
	od
}
#else
#define BOUND (2 * SPINS + 2)

inline read_counter() {
	d_step { seen_value = value; other = locked; before = latest; }
	if
	:: nmi -> sample(result); goto returned
	:: else
	fi;
	if
	:: !other ->
		d_step {
			if
			:: !locked -> locked = true; announced = true
			:: else
			fi
		}
	:: else
	fi;
	if
	:: announced ->
		sample(mine);
		value = mine;
		locked = false;
		result = mine;
		goto returned
	:: else
	fi;
	do
	:: d_step {
		STEP;
		result = value; other = locked
	   };
	   if
	   :: result != seen_value || !other -> goto returned
#ifdef IMPATIENT
	   :: result == seen_value && other -> sample(result); goto returned
#endif
	   :: else
	   fi
	od
}
#endif

active [CPUS] proctype cpu() {
	byte start, seen, seen_value, spins, mine, result, before;
	byte steps;
	bool other, announced, published, nmi;
	byte calls = 0;

	do
	:: calls < CALLS ->
#ifndef NO_NMI
		if
		:: nmi = true
		:: skip
		fi;
#endif
		read_counter();
returned:	skip;
		d_step {
#ifndef NO_ORDER
			assert(result >= before);
#endif
#ifndef NO_BOUND
			assert(steps <= BOUND);
#endif
			latest = (result > latest -> result : latest);
			calls++;
			start = 0; seen = 0; seen_value = 0; spins = 0; mine = 0; result = 0; before = 0; steps = 0;
			other = false; announced = false; published = false; nmi = false
		}
	:: else -> break
	od
}
