/*
 * Lease, fence and intent of one run with one effectful tool call, taken by two runners.
 *
 * The database's row lock makes each statement of the store one atomic step; a runner may pause or die between any two.
 * Safety:   no write of a stale token is accepted (invariant 2), the effect happens at most once (invariant 4), and a
 *           run ends once (invariant 7).
 * Liveness: the run ends, though leases run out and runners die.
 *
 * Mutants, each of which must be refuted:
 *   -DNO_FENCE   a write looks at the status only, not at the token
 *   -DNO_INTENT  a runner executes before the row that says so is committed
 *   -DRERUN      a successor executes again what it finds executing
 */
#define RUNNERS 2
#define EXPIRIES 2
#define DEATHS 2

mtype = { queued, running, terminal };
mtype = { proposed, executing, succeeded, unknown };

/* The row of the run and of its call. */
mtype status = queued;
mtype call = proposed;
byte token = 0;
bool leased = false;
byte terminals = 0;

/* The world, which no fence guards. */
byte effects = 0;

byte expiries = 0;
byte deaths = 0;

/* The holder of the lease is dead. */
bool orphaned = false;

#ifdef NO_FENCE
#define HOLDS (status != terminal)
#else
#define HOLDS (status != terminal && token == my)
#endif

/* What every accepted write must satisfy: the writer is the one whose lease was taken last. */
#define WRITTEN assert(my == token)

active [RUNNERS] proctype runner()
{
  byte my = 0;
idle:
  my = 0;
  if
  :: status == terminal -> goto done
  :: atomic { status != terminal && !leased -> token++; leased = true; my = token; status = running }
  fi;
  /* Resume: what a predecessor left executing. */
  if
#ifdef RERUN
  :: atomic { HOLDS && call == executing -> WRITTEN; call = proposed }
#else
  :: atomic { HOLDS && call == executing -> WRITTEN; call = unknown }
#endif
  :: atomic { HOLDS && call != executing -> skip }
  :: atomic { !HOLDS -> goto idle }
  fi;
  if
  :: call == proposed -> skip
  :: call != proposed -> goto finish
  fi;
#ifdef NO_INTENT
  effects++;
  assert(effects <= 1);
#endif
  if
  :: atomic { HOLDS && call == proposed -> WRITTEN; call = executing }
  :: atomic { !(HOLDS && call == proposed) -> goto idle }
  fi;
#ifndef NO_INTENT
  /* A pause here is what lets a late effect happen after a successor took over: it marked the call unknown. */
  effects++;
  assert(effects <= 1);
#endif
  if
  :: atomic { deaths < DEATHS -> deaths++; orphaned = orphaned || (leased && token == my); goto idle }
  :: atomic { HOLDS && call == executing -> WRITTEN; call = succeeded }
  :: atomic { !(HOLDS && call == executing) -> goto idle }
  fi;
finish:
  if
  :: atomic { deaths < DEATHS -> deaths++; orphaned = orphaned || (leased && token == my); goto idle }
  :: atomic { HOLDS -> WRITTEN; status = terminal; leased = false; terminals++; assert(terminals == 1) }
  :: atomic { !HOLDS -> goto idle }
  fi;
  goto idle;
done:
  /* A call whose effect happened is never shown as if it had not: succeeded, or told to be unknown. */
  assert(effects == 0 || call == succeeded || call == unknown);
  assert(call != executing)
}

/* The database's clock: any lease can run out while its runner lives, the one of a dead runner does for certain. */
active proctype clock()
{
end:
  do
  :: atomic { leased && status != terminal && expiries < EXPIRIES -> expiries++; leased = false }
  :: atomic { leased && status != terminal && orphaned -> orphaned = false; leased = false }
  :: status == terminal -> break
  od
}

ltl ends { <> (status == terminal) }
