/*
 * A plugin is replaced while calls go on: start the new generation, switch, drain the old one, kill it.
 *
 * Safety:   no call goes to a dead generation, none is lost.
 * Liveness: the old generation ends.
 *
 * Mutants, each of which must be refuted:
 *   -DNO_DRAIN      the old generation is killed with calls in flight
 *   -DSWITCH_FIRST  calls are sent to the new generation before it is ready
 */
#define CALLS 3

bool ready[2];
bool dead[2];
byte inflight[2];
byte current = 0;
byte answered = 0;

init { ready[0] = true; atomic { run reload(); run call(); run call(); run call() } }

proctype call()
{
  byte mine;
  atomic { mine = current; assert(ready[mine] && !dead[mine]); inflight[mine]++ };
  /* The plugin works. */
  atomic { assert(!dead[mine]); inflight[mine]--; answered++ }
}

proctype reload()
{
#ifdef SWITCH_FIRST
  current = 1;
  ready[1] = true;
#else
  ready[1] = true;
  current = 1;
#endif
#ifdef NO_DRAIN
  dead[0] = true
#else
  atomic { inflight[0] == 0 -> dead[0] = true }
#endif
}

ltl drained { <> (dead[0] && answered == CALLS) }
