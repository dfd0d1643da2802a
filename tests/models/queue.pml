/*
 * Queued rows, a queue that may lose every doorbell, and the reconciler that rings again (invariant 1).
 *
 * Safety:   a doorbell rung too often is harmless: each run is executed by one lease.
 * Liveness: every accepted run ends, though the queue forgets.
 *
 * Mutants, each of which must be refuted:
 *   -DNO_RECONCILER  nobody rings again
 *   -DTRUST_QUEUE    a doorbell is taken for the permission to execute
 */
#define RUNS 2
#define LOSSES 2
#define REPEATS 2

mtype = { queued, running, ended };
mtype row[RUNS] = queued;
byte executions[RUNS];
byte losses = 0;
byte repeats = 0;
chan doorbells = [3] of { byte };

#define BOTH_ENDED (row[0] == ended && row[1] == ended)

active proctype gateway()
{
  byte which = 0;
  do
  :: which < RUNS ->
     if
     :: nfull(doorbells) -> doorbells ! which
     :: losses < LOSSES -> losses++
     fi;
     which++
  :: which == RUNS -> break
  od
}

/* FLUSHALL, a failover, a kill without an append-only file. */
active proctype loss()
{
  byte gone;
end:
  do
  :: atomic { losses < LOSSES && nempty(doorbells) -> doorbells ? gone; losses++; gone = 0 }
  :: losses == LOSSES || BOTH_ENDED -> break
  od
}

#ifndef NO_RECONCILER
active proctype reconciler()
{
end:
  do
  :: atomic { row[0] == queued && empty(doorbells) -> doorbells ! 0 }
  :: atomic { row[1] == queued && empty(doorbells) -> doorbells ! 1 }
  :: atomic { row[0] != ended && nfull(doorbells) && repeats < REPEATS -> repeats++; doorbells ! 0 }
  :: BOTH_ENDED -> break
  od
}
#endif

active [2] proctype runner()
{
  byte which;
end:
  do
  :: doorbells ? which ->
     if
#ifdef TRUST_QUEUE
     :: atomic { row[which] = running }
#else
     :: atomic { row[which] == queued -> row[which] = running }
     :: atomic { row[which] != queued -> goto end }
#endif
     fi;
     executions[which]++;
     assert(executions[which] == 1);
     row[which] = ended
  :: BOTH_ENDED && empty(doorbells) -> break
  od
}

ltl ends { <> BOTH_ENDED }
