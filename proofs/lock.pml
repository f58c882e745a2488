/* A lock, three who want it, and a resource that they write to while they hold it.
 *
 * A lease of the lock may expire at any moment; its holder goes on until it notices. Every grant has a token, and the
 * resource remembers the highest that it has seen.
 *
 * FENCE:  1 the resource refuses a token below that (what docs/locks.md asks of resources)   0 it takes every write
 * RENEW:  0 only a lease that has not ended is prolonged (what Holdfast does)   1 one that has ended comes back
 * TOKENS: 1 of all locks of a namespace, for ever (what Holdfast does)   0 counted anew when a lock was free
 */
#ifndef FENCE
#define FENCE 1
#endif
#ifndef RENEW
#define RENEW 0
#endif
#ifndef TOKENS
#define TOKENS 1
#endif

#define CLIENTS  3
#define EXPIRIES 3
#define NOBODY   9

byte owner = NOBODY, token = 0;      /* of the lock: who holds it, and under what */
byte last = 0;                       /* the last token that was given */
byte grants = 0;
byte seen = 0, writer = 0;           /* of the resource: the highest token, and the grant that wrote last */
byte expiries = 0;

active [CLIENTS] proctype Client()
{
    byte me = _pid, mine = 0, grant = 0, beats = 0;
    bool kept = false;

    d_step {                                            /* acquire */
        owner == NOBODY ->
#if TOKENS == 1
        last++;
#else
        last = 1;
#endif
        token = last; owner = me; mine = token;
        grants++; grant = grants
    };
    do
    :: atomic {                                         /* write */
#if FENCE == 1
            if
            :: mine >= seen -> seen = mine; assert(grant >= writer); writer = grant
            :: else                                     /* refused */
            fi
#else
            assert(grant >= writer);                    /* nobody writes after the one who came after it */
            writer = grant
#endif
        }
    :: beats < 1 -> beats++;                            /* renew */
        atomic {
            if
            :: owner == me && token == mine -> kept = true
#if RENEW == 1
            :: owner == NOBODY -> owner = me; token = mine; kept = true
#endif
            :: else -> kept = false
            fi;
            assert(!kept || mine == last)               /* who is told that it holds the lock holds the newest grant */
        };
        if
        :: kept -> kept = false
        :: else -> break
        fi
    :: break
    od;
    atomic {                                            /* release: only what is one's own */
        if
        :: owner == me && token == mine -> owner = NOBODY
        :: else
        fi
    }
}

active proctype Clock()
{
end:
    do
    :: d_step { owner != NOBODY && expiries < EXPIRIES -> expiries++; owner = NOBODY }
    od
}

ltl all_had_it { <> (grants == CLIENTS) }
