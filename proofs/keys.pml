/* Three who enqueue under one key, on a network that loses answers: each sends until it is answered.
 *
 * INSERT: 1 the store refuses a second job with the key, in the write itself (what Holdfast does)
 *         0 the caller looks whether there is one, and inserts if there is none
 */
#ifndef INSERT
#define INSERT 1
#endif

#define CALLERS 3
#define LOSSES  3

byte jobs = 0, holder = 0;
byte losses = 0;

active [CALLERS] proctype Caller()
{
    byte answer = 0;
    bool found;

send:
#if INSERT == 1
    atomic {
        if
        :: holder == 0 -> jobs++; holder = jobs
        :: else
        fi;
        answer = holder
    };
#else
    found = (holder != 0);
    atomic {
        if
        :: !found -> jobs++; holder = jobs
        :: else
        fi;
        answer = holder
    };
#endif
    assert(jobs == 1);                       /* one job for the key */
    if
    :: atomic { losses < LOSSES -> losses++; answer = 0 }; goto send
    :: true
    fi;
    assert(answer == 1)                      /* and each of them is told of that one */
}
