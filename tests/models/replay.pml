/*
 * A client's stream: subscribe, replay from the database, go on live, while a writer commits and publishes.
 *
 * A published message can be lost (a writer dies between commit and publish, a bus restarts) or come while the replay
 * runs. Safety: the client gets 1, 2, 3 … each once, none that is not committed (invariant 3).
 * Liveness: it gets all, because a missed message is found by a gap or by the poll of last_seq.
 *
 * Mutants, each of which must be refuted:
 *   -DNO_DEDUPLICATION  a message is given on though the replay had it already
 *   -DNO_GAP_READ       a message after a gap is given on at once
 *   -DNO_POLL           nobody asks for last_seq, so a lost last message is never missed
 *   -DPUBLISH_FIRST     a message is published before its transaction commits
 */
#define LAST 3
#define LOSSES 2

byte committed = 0;
byte got = 0;
byte losses = 0;
bool subscribed = false;
chan bus = [LAST] of { byte };

inline publish(n)
{
  if
  :: !subscribed -> skip
  :: subscribed -> bus ! n
  :: atomic { losses < LOSSES -> losses++ }
  fi
}

inline deliver(n)
{
  d_step {
    assert(n == got + 1);
    assert(n <= committed);
    got = n
  }
}

active proctype writer()
{
  byte next = 1;
  do
  :: next <= LAST ->
#ifdef PUBLISH_FIRST
     publish(next);
     committed = next;
#else
     committed = next;
     publish(next);
#endif
     next++
  :: next > LAST -> break
  od
}

active proctype client()
{
  byte upto, message;
  subscribed = true;
replay:
  upto = committed;
  do
  :: got < upto -> deliver(got + 1)
  :: got >= upto -> break
  od;
end:
  do
  :: atomic { bus ? message ->
       if
#ifndef NO_DEDUPLICATION
       :: message <= got -> skip
#else
       :: message <= got -> deliver(message)
#endif
       :: message == got + 1 -> deliver(message)
#ifndef NO_GAP_READ
       :: message > got + 1 -> goto replay
#else
       :: message > got + 1 -> deliver(message)
#endif
       fi;
       message = 0 }
#ifndef NO_POLL
  :: atomic { empty(bus) && committed > got -> goto replay }
#endif
  :: got == LAST -> break
  od
}

ltl all { <> (got == LAST) }
