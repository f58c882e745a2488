/* One job, two workers and a janitor, on a network that loses answers, repeats requests and delivers them late.
 *
 * A worker speaks to the store by ticks: a report of the attempt that it ended, if any, and a wish for work. It
 * resends a tick that was not answered, under the same number, and gives up no report before it was answered.
 * A lease may expire at any moment, so a worker may be paused or slow for as long as it likes without saying so.
 * A crash forgets all that a worker knows; whoever comes after it has another name.
 *
 * GUARD, on a report:  3 the token is the current one (what Holdfast does)
 *                      0 the job exists   1 it is leased   2 this worker holds it
 * RENEW, on a heartbeat: 0 only a lease that has not ended (what Holdfast does)   1 one that has ended comes back
 */
#ifndef GUARD
#define GUARD 3
#endif
#ifndef RENEW
#define RENEW 0
#endif

#ifndef EXPIRIES
#define EXPIRIES 1     /* of leases whose holder lives */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOSSES
#define LOSSES 1       /* of requests and answers */
#endif

#define WORKERS 2
#define NAMES   4      /* of workers: each, and who comes after its crash */
#define TOKENS  (2 + EXPIRIES + CRASHES + LOSSES)      /* no more claims can follow from so many faults */
#define NOBODY  9

mtype = { waiting, leased, done };
mtype = { open, success, lost };

mtype state = waiting;
byte token = 0;               /* of the last claim */
byte holder = NOBODY;
byte stamp = 0;               /* the tick that claimed it */
bool ended = false;           /* the lease, by the store's clock */
bool known = true;            /* to its holder, which renews it; a lease that nobody renews ends */
mtype attempt[TOKENS];        /* how each ended, by token */
byte by[TOKENS];              /* whose it was */

byte successes = 0;           /* reports that the store took as the end of the job */
byte expiries = 0;
byte crashes = 0;
byte losses = 0;
bool gone[NAMES];             /* workers that crashed */

#if GUARD == 0
#define may_report (true)
#elif GUARD == 1
#define may_report (state == leased)
#elif GUARD == 2
#define may_report (state == leased && holder == me)
#else
#define may_report (state == leased && holder == me && token == mine)
#endif

/* The store's end of a tick, in one commit: the report is taken or refused; then work is given, or not. */
inline serve(me, number, mine, again, taken, got)
{
    d_step {
        taken = false;
        got = 0;
        if
        :: mine != 0 ->
            if
            :: attempt[mine] == success && by[mine] == me -> taken = true        /* a repeat */
            :: else ->
                if
                :: may_report ->
                    assert(mine == token);                      /* nothing is recorded without the current token */
                    assert(attempt[mine] == open);              /* and an attempt ends once */
                    attempt[mine] = success;
                    state = done; holder = NOBODY; ended = false;
                    successes++;
                    assert(successes == 1);                     /* at most one accepted completion */
                    taken = true
                :: else
                fi
            fi
        :: else
        fi;
        if
        :: again && state == leased && holder == me && stamp == number -> got = token
        :: else ->
            if
            :: state == waiting ->
                token++;
                assert(token < TOKENS);
                state = leased; holder = me; stamp = number; ended = false; known = true;
                attempt[token] = open; by[token] = me;
                got = token
            :: else
            fi
        fi
    }
}

inline renew(me, mine, kept)
{
    d_step {
        if
        :: state == leased && token == mine && holder == me && !ended -> kept = true
#if RENEW == 1
        :: state == leased && token == mine && holder == me && ended -> ended = false; kept = true
        :: state == waiting && token == mine && by[mine] == me ->
            state = leased; holder = me; ended = false; kept = true
#endif
        :: else -> kept = false
        fi
    }
}

/* An earlier copy of a tick arrives after all; nobody waits for its answer, so what it claims is not renewed. */
inline overtake()
{
    atomic {
        serve(me, copy_number, copy_mine, false, taken, got);
        late = false;
        if
        :: got != 0 -> known = false
        :: else
        fi;
        taken = false; got = 0; copy_mine = 0; copy_number = 0
    }
}

active [WORKERS] proctype Worker()
{
    byte me = _pid, number = 0, mine = 0, got = 0, copy_mine = 0, copy_number = 0, beats = 0;
    bool again, taken, kept, late = false;

next:
    number++;
    again = false;
send:
    if
    :: state == done && mine == 0 -> goto rest        /* nothing to report, and nothing to do */
    :: else
    fi;
    if
    :: atomic { losses < LOSSES -> losses++; again = true };   /* the request is lost, or waits in the network */
        if
        :: !late -> late = true; copy_mine = mine; copy_number = number
        :: true
        fi;
        goto send
    :: atomic { losses < LOSSES -> losses++;           /* the answer is lost */
            serve(me, number, mine, again, taken, got); again = true; taken = false; got = 0 };
        goto send
    :: serve(me, number, mine, again, taken, got)
    fi;
    assert(!taken || attempt[mine] == success);        /* what was answered as taken is recorded */
    d_step { mine = got; got = 0; taken = false; again = false };          /* a refused report is final */
    if
    :: mine == 0 -> goto idle
    :: else
    fi;
busy:
    if
    :: atomic { crashes < CRASHES && me + WORKERS < NAMES -> crashes++; gone[me] = true;
            me = me + WORKERS; number = 0; mine = 0; late = false; beats = 0 };
        goto next
    :: late -> overtake(); goto busy
    :: beats < 2 -> beats++;                            /* handlers end */
        renew(me, mine, kept);
        if
        :: kept -> kept = false
        :: else -> mine = 0; beats = 0; goto next      /* told that the lease is lost: the attempt is given up */
        fi;
        goto busy
    :: beats = 0; goto next
    fi;
idle:
    if
    :: state == waiting -> goto next                   /* a wake-up, or the next poll */
    :: late -> overtake(); goto idle
    :: state == done -> goto rest
    fi;
rest:
    skip
}

/* Time passes: always for a lease that nobody renews, and now and then for one whose holder is only slow. */
active proctype Clock()
{
end:
    do
    :: d_step { state == leased && !ended && (gone[holder] || !known) -> ended = true }
    :: d_step { state == leased && !ended && !gone[holder] && known && expiries < EXPIRIES -> expiries++; ended = true }
    od
}

/* Takes back what has expired: looks, decides, and writes if it is still so. */
active proctype Janitor()
{
    byte seen;
end:
    do
    :: atomic { state == leased && ended -> seen = token };
        d_step {
            if
            :: state == leased && ended && token == seen ->
                assert(attempt[seen] == open);
                attempt[seen] = lost;
                state = waiting; holder = NOBODY; ended = false
            :: else
            fi
        }
    od
}

ltl finished { <> (state == done) }
