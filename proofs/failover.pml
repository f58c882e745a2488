/* A job on a store with a replica: now and then the replica takes over, and the last writes are gone, the counter too.
 *
 * Workers outside keep what they were told. The clocks of the two machines may differ by less than a failover takes.
 *
 * CLOCKED: 1 a token is the greater of the last one plus one and the clock (what Holdfast does)   0 the last one plus one
 * PACE:    1 between two claims of one job the clock moves on, as microseconds do   0 claims may outrun the clock
 */
#ifndef CLOCKED
#define CLOCKED 1
#endif
#ifndef PACE
#define PACE 1
#endif

#define WORKERS   3
#define FAILOVERS 2
#define CLOCK_END 9

byte now = 1;
bool moved = true;                   /* the clock, since the last claim */
bool leased = false; byte token = 0; bool done = false;               /* on the primary */
bool r_leased = false; byte r_token = 0; bool r_done = false;         /* on the replica */
byte failovers = 0;
bool given[CLOCK_END * 3];           /* tokens that any worker was ever told */

active [WORKERS] proctype Worker()
{
    byte mine = 0;

end:
    atomic {
        !leased && !done && (moved || !PACE) ->
#if CLOCKED == 1
        if
        :: token + 1 > now -> token++
        :: else -> token = now
        fi;
#else
        token++;
#endif
        leased = true; mine = token; moved = false;
        assert(!given[mine]);                           /* no token is given twice, whatever was forgotten */
        given[mine] = true
    };
    if
    :: d_step { leased && token == mine && !done -> done = true; leased = false }       /* its report is taken */
    :: true                                                            /* it crashes, or reports too late */
    fi
}

active proctype Store()
{
end:
    do
    :: d_step { now < CLOCK_END -> now++; moved = true }
    :: d_step { leased -> leased = false }                             /* the lease expires */
    :: d_step { r_leased != leased || r_token != token || r_done != done ->
            r_leased = leased; r_token = token; r_done = done }        /* the replica catches up */
    :: d_step { failovers < FAILOVERS && now < CLOCK_END ->
            failovers++; now++; moved = true;
            leased = r_leased; token = r_token; done = r_done }
    od
}
