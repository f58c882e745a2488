/* A schedule with three due times, two candidates for leader, and a network that loses answers and delivers late.
 *
 * Whoever holds the leader's lock fires what is due: it reads which due time is next, and asks the store to add its
 * job and to go on to the next one, in one write. The lock may expire at any moment, without its holder noticing.
 * A firing that was not answered is sent again, and the copy that was not answered may arrive at any time later.
 *
 * GUARD, on a firing: 3 under the current term, of a due time that is still next (what Holdfast does)
 *                     0 none: look, then insert   1 the term alone   2 the due time alone
 */
#ifndef GUARD
#define GUARD 3
#endif
#ifndef EXPIRIES
#define EXPIRIES 3
#endif
#ifndef LOSSES
#define LOSSES 2
#endif

#define CANDIDATES 2
#define DUES       3
#define NOBODY     9

byte term = 0, leader = NOBODY;
bool held = false;
byte front = 0;                 /* the due time that was not fired yet */
byte fired[DUES];
byte expiries = 0, losses = 0;

#if GUARD == 0
#define may_fire (true)
#elif GUARD == 1
#define may_fire (held && term == mine)
#elif GUARD == 2
#define may_fire (front == due)
#else
#define may_fire (held && term == mine && front == due)
#endif

inline fire(mine, due)
{
    d_step {
        if
        :: may_fire ->
            assert(due < DUES);
            assert(mine == term);            /* a leader that was paused and followed cannot write */
            fired[due]++;
            assert(fired[due] == 1);         /* one firing for each due time */
            front = due + 1
        :: else
        fi
    }
}

active [CANDIDATES] proctype Candidate()
{
    byte me = _pid, mine = 0, due = 0, late_term = 0, late_due = 0;
    bool late = false;

    do
    :: front == DUES -> break
    :: d_step { !held && front < DUES -> term++; mine = term; leader = me; held = true }
    :: mine != 0 && front < DUES ->
        due = front;                          /* what it reads may be old when it writes */
        if
        :: due == DUES
        :: else ->
again:
            if
            :: atomic { losses < LOSSES -> losses++ };                    /* lost, or under way for long */
                if
                :: !late -> d_step { late = true; late_term = mine; late_due = due }
                :: true
                fi;
                goto again
            :: atomic { losses < LOSSES -> losses++; fire(mine, due) };   /* the answer is lost */
                goto again
            :: atomic {
                    fire(mine, due);
                    if
                    :: !held || term != mine -> mine = 0                  /* it is told */
                    :: else
                    fi
                }
            fi
        fi;
        due = 0
    :: late -> atomic { fire(late_term, late_due); late = false; late_term = 0; late_due = 0 }
    :: d_step { mine != 0 && (!held || term != mine) -> mine = 0 }        /* it notices, sooner or later */
    od
}

active proctype Clock()
{
end:
    do
    :: d_step { held && expiries < EXPIRIES -> expiries++; held = false; leader = NOBODY }
    od
}

ltl all_fired { <> (front == DUES) }
