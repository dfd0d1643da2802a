/*
 * A run waits for a decision while people decide, cancel, and interrupt (invariants 5 and 7).
 *
 * Safety:   the call is executed only when it was approved, at most once, never after the run's end; one decision and one
 *           end count.
 * Liveness: the run ends.
 *
 * Mutants, each of which must be refuted:
 *   -DNO_STATUS_CHECK    a decision is taken whatever the run is
 *   -DNO_DECISION_CHECK  a second, different decision is taken
 *   -DNO_FENCE           the resuming runner writes though a cancel fenced it
 */
mtype = { waiting, queued, running, ended };
mtype = { open, approved, denied };

mtype run_status = waiting;
mtype decision = open;
byte token = 0;
byte decisions = 0;
byte executions = 0;
byte ends = 0;

active [2] proctype approver()
{
  mtype mine;
  if
  :: mine = approved
  :: mine = denied
  fi;
  atomic {
    if
#if defined(NO_STATUS_CHECK)
    :: decision == open ->
#elif defined(NO_DECISION_CHECK)
    :: run_status == waiting || run_status == queued ->
#else
    :: run_status == waiting && decision == open ->
#endif
       assert(run_status != ended);
       decision = mine;
       decisions++;
       assert(decisions == 1);
       run_status = queued
    :: else -> skip
    fi
  }
}

/* A cancel, or a newer message that interrupts: takes the lease, then ends the run. */
active proctype canceller()
{
  if
  :: atomic { run_status != ended -> token++; run_status = ended; ends++; assert(ends == 1) }
  :: true -> skip
  fi
}

/* APPROVAL_TTL denies what is open. */
active proctype expiry()
{
  if
  :: atomic { run_status == waiting && decision == open -> decision = denied; decisions++; run_status = queued }
  :: run_status != waiting -> skip
  fi
}

#ifdef NO_FENCE
#define HOLDS true
#else
#define HOLDS (run_status == running && token == my)
#endif

active proctype runner()
{
  byte my;
  if
  :: atomic { run_status == queued -> token++; my = token; run_status = running }
  :: run_status == ended -> goto done
  fi;
  if
  :: decision == approved ->
     if
     :: atomic { HOLDS -> assert(run_status != ended); executions++; assert(executions == 1) }
     :: atomic { !HOLDS -> goto done }
     fi
  :: decision == denied -> skip
  fi;
  if
  :: atomic { HOLDS -> run_status = ended; ends++; assert(ends == 1) }
  :: !HOLDS -> skip
  fi;
done:
  assert(executions == 0 || decision == approved)
}

ltl ends_once { <> (run_status == ended) }
