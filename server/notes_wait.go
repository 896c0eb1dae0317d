package server

// What the reference says about waiting and leases, in Markdown.

const takeWaitNotes = `
` + "`WAIT t`" + `, in milliseconds or with a unit, holds the reply until the request is granted, at most so long; then it is the denial. Who waits
for a key is granted in the order of asking, each as soon as its own limit and cost allow. What can never be granted is
denied at once; what cannot be granted within t, if nobody gives anything back, waits all the same, for somebody may. While others
wait for the key, a request does not overtake them: without ` + "`WAIT`" + ` it is denied, with the time until they are gone as its wait,
however much there is; this holds for every command that takes from the key, and [RL.PEEK](#rlpeek) says so. A cost of 0, refunds
and resets go through, and those who wait get at once what that makes free.

A request of ` + "`QUEUE`" + ` has its turn from the moment it asks. With ` + "`WAIT`" + ` the reply is held until then, with a wait of −1; if the turn
would be later than t, the denial comes at once.

Replies to earlier commands of a pipeline are sent before the wait, later ones follow it; other connections do not notice. A
client that disconnects, or has finished sending, gives up its place; that is seen late only if it has sent more than
` + "`client-query-buffer-limit`" + ` behind the waiting command. (The turn of a ` + "`QUEUE`" + ` can go to somebody else only if nobody has
asked since.) [CLIENT UNBLOCK](#client-unblock) ends a wait. ` + "`CLIENT LIST`" + ` marks who waits with ` + "`b`" + `; ` + "`INFO limiter`" + ` counts them. A server that
stops replies with the denial.
`

const leaseNotes = `
At most limit are in flight at a time: each lease counts its ` + "`WEIGHT`" + `, 1 if not said, from now until it is given back with
[RL.RELEASE](#rlrelease) or its ttl is over, so that a holder that dies holds up nobody for longer than that. Limit and ttl are given
at every call and can change; ttl is in milliseconds or has a unit. ` + "`ID`" + ` names the holder, in 1 to 255 bytes. The same ID again renews its lease, and may change
its weight; it does not count twice, and is never denied if it wants no more than it holds. A key can have 8192 leases.

The reply is five integers, as of [RL.TAKE](#rltake): limited, limit, what is left of it, the wait after which enough leases have ended if
none is given back or renewed (−1: nothing to wait for, or a weight above the limit), and the time until the last has ended.

` + "`WAIT t`" + ` is that of RL.TAKE. Renewing overtakes nobody and does not wait.

` + "```" + `
> RL.LEASE export:acme 2 30s ID job-1
1) (integer) 0
2) (integer) 2
3) (integer) 1
4) (integer) -1
5) (integer) 30000
> RL.LEASE export:acme 2 10s ID job-2 WEIGHT 2
1) (integer) 1
2) (integer) 2
3) (integer) 1
4) (integer) 30000
5) (integer) 30000
> RL.LEASE export:acme 2 10s ID job-2
1) (integer) 0
2) (integer) 2
3) (integer) 0
4) (integer) -1
5) (integer) 30000
> RL.RELEASE export:acme ID job-1
(integer) 1
` + "```" + `
`

const renewNotes = `
The lease ends ttl from now, whatever was left of it. An ID that holds no lease of the key is a ` + "`NOLEASE`" + ` error: its time may have been
over, and somebody else may be in its place.
`

const releaseNotes = `
What is free now goes to those who wait for it. An ID that holds no lease of the key is a ` + "`NOLEASE`" + ` error, and changes nothing.
`

const holdersNotes = `
The reply is an array with an ID, a weight and the milliseconds left, rounded up, for each lease.

` + "```" + `
> RL.LEASE export:acme 5 30s ID job-1 WEIGHT 3
1) (integer) 0
2) (integer) 5
3) (integer) 2
4) (integer) -1
5) (integer) 30000
> RL.HOLDERS export:acme
1) 1) "job-1"
   2) (integer) 3
   3) (integer) 30000
` + "```" + `
`

const unblockNotes = `
The other connection's command is answered as if its time was over; with ` + "`ERROR`" + `, with an ` + "`UNBLOCKED`" + ` error.
`
