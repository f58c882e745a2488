/* Three transactions that each append an event, the first two of one aggregate; they commit in any order, or roll back.
 * Two consumers of one group, of which the holder of the group's lock reads, handles an event, and commits how far it is
 * together with what the handler wrote. The lock may expire at any moment, and answers may be lost.
 *
 * CURSOR: 1 who reads gives positions to what is committed (what Holdfast does)   0 the number drawn at the append is read by
 * HEAD:   1 positions are given under the lock of their counter (what Holdfast does)   0 the counter is read, then written
 * OFFSET: 1 it moves on only from where the handler began, under the lock's term (what Holdfast does)   0 it is overwritten
 */
#ifndef CURSOR
#define CURSOR 1
#endif
#ifndef HEAD
#define HEAD 1
#endif
#ifndef OFFSET
#define OFFSET 1
#endif

#ifndef EXPIRIES
#define EXPIRIES 2
#endif

#define EVENTS    3
#define CONSUMERS 2
#define LOSSES    1
#define aggregate(e) (e / 2)

mtype = { absent, appended, committed, gone };

mtype is[EVENTS] = absent;
byte number[EVENTS];           /* drawn at the append */
byte position[EVENTS];         /* given later; 0 none */
byte earlier[EVENTS];          /* events that were committed before this one was appended, a bit each */
byte handled[EVENTS];
byte drawn = 0, head = 0;
byte ended = 0;                /* transactions */
byte offset = 0;
byte term = 0;
bool held = false;
byte expiries = 0, losses = 0;

#define ready(e)   (is[e] == committed)
#define all_done   (ended == EVENTS && (!ready(0) || handled[0]) && (!ready(1) || handled[1]) && (!ready(2) || handled[2]))

active [EVENTS] proctype Writer()
{
    byte e = _pid;

    d_step {
        drawn++; number[e] = drawn; is[e] = appended;
        earlier[e] = ready(0) + 2 * ready(1) + 4 * ready(2)
    };
    if
    :: d_step { is[e] = committed; ended++ }
    :: d_step { is[e] = gone; ended++ }
    fi
}

#define is_next(f, e) (!ready(f) || position[f] != 0 || number[f] >= number[e])

/* Gives the next position to the event, in the order of numbers. */
inline place(e)
{
    atomic {
        (ready(e) && position[e] == 0 && is_next(0, e) && is_next(1, e) && is_next(2, e)) ->
#if HEAD == 1
        head++;
        position[e] = head
    };
#else
        top = head
    };
    atomic {
        if
        :: position[e] == 0 -> position[e] = top + 1; head = top + 1
        :: else
        fi
    };
#endif
    assert(position[0] != position[1] || position[0] == 0);
    assert(position[1] != position[2] || position[1] == 0);
    assert(position[0] != position[2] || position[0] == 0)
}

#if CURSOR == 1
#define follows(e) (position[e] == offset + 1)
#define mark(e)    position[e]
#else
#define follows(e) (ready(e) && number[e] > offset \
    && (!ready(0) || number[0] <= offset || number[0] >= number[e]) \
    && (!ready(1) || number[1] <= offset || number[1] >= number[e]) \
    && (!ready(2) || number[2] <= offset || number[2] >= number[e]))
#define mark(e)    number[e]
#endif

#if OFFSET == 1
#define may_commit (held && term == mine && offset == from)
#else
#define may_commit (true)
#endif

#define is_first(e, f) (!(earlier[e] & (1 << f)) || aggregate(f) != aggregate(e) || handled[f])

inline commit(e)
{
    atomic {
        if
        :: may_commit ->
            assert(ready(e));                                           /* what rolled back is never told */
            handled[e]++;
            assert(handled[e] == 1);                                    /* effects exactly once */
            assert(is_first(e, 0) && is_first(e, 1) && is_first(e, 2)); /* in order for each aggregate */
            offset = mark(e)
        :: else
        fi
    }
}

active [CONSUMERS] proctype Consumer()
{
    byte mine = 0, from = 0, e = 0, top = 0;

end:
    do
    :: all_done -> break
    :: atomic { !held && !all_done -> term++; mine = term; held = true }
#if CURSOR == 1
    :: place(0)
    :: place(1)
    :: place(2)
#endif
    :: mine != 0 ->
        if
        :: atomic { follows(0) -> e = 0; from = offset }
        :: atomic { follows(1) -> e = 1; from = offset }
        :: atomic { follows(2) -> e = 2; from = offset }
        :: atomic { !follows(0) && !follows(1) && !follows(2) -> goto next }
        fi;
again:
        if
        :: atomic { losses < LOSSES -> losses++ }; commit(e); goto again       /* the answer is lost */
        :: commit(e)
        fi;
next:
        atomic {
            e = 0; from = 0;
            if
            :: !held || term != mine -> mine = 0
            :: else
            fi
        }
    od
}

active proctype Clock()
{
end:
    do
    :: atomic { held && expiries < EXPIRIES -> expiries++; held = false }
    od
}

ltl all_told { <> all_done }
