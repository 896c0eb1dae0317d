package server

// noted gives a row its notes.
func noted(notes string, c command) command {
	c.notes = notes
	return c
}

// What the reference says about a command beyond its summary, in Markdown.

const takeNotes = `
A limit is written ` + "`ALGORITHM limit period [options]`" + `: so many a period, for most algorithms with ` + "`BURST n`" + `, how many at
once (as many as the limit, if not said). [The algorithms and their options](../README.md#algorithms). The period is in milliseconds or has a unit: ` + "`500ms 10s 1m 1h 1d 1w`" + `. Limit and period may be one word:
` + "`100/m`, `5/10s`, `1000/d`" + `. Limit 0 denies everything. Options come in any order. The limit is given at every call, so it can
change at any call; the key's state stays. ` + "`CALENDAR unit`" + ` in place of the period, as in ` + "`FIXED 1000 CALENDAR day TZ Europe/Berlin`" + `, makes
the windows of ` + "`FIXED`" + ` units of the calendar: second, minute, hour, day, week (from Monday), month, quarter or year, in UTC or in
a time zone, spelled as in the IANA database.

The reply is five integers, times in milliseconds rounded up:

| | meaning |
|---|---|
| limited | 0: go ahead, 1: denied |
| limit | the most that can be taken at once |
| remaining | what is left now |
| wait | −1: nothing to wait for, or it can never be granted; denied: ask again after this long; granted (by ` + "`QUEUE`" + `): go ahead after this long |
| reset | until the key is as if never used |

` + "`COST`" + ` is 1 if not said; 0 asks without taking. After the wait, with no other caller, the same request is granted; it is not
granted any sooner. A denial changes nothing; with ` + "`COUNTDENIED`" + `, where an algorithm has it, it counts as if it had been granted.

` + "```" + `
> RL.TAKE user123 GCRA 100/m BURST 20
1) (integer) 0
2) (integer) 20
3) (integer) 19
4) (integer) -1
5) (integer) 600
` + "```" + `

` + "`PARTIAL`" + ` takes what there is, up to COST, and adds a sixth integer: how many were granted. Nothing at all is a denial, whose wait is
the time until there is one again.

` + "```" + `
> RL.TAKE user123 GCRA 100/m BURST 20 COST 30 PARTIAL
1) (integer) 0
2) (integer) 20
3) (integer) 0
4) (integer) -1
5) (integer) 12000
6) (integer) 19
` + "```" + `
`

const reserveNotes = `
For work that is heavy now and then: where [RL.TAKE](#rltake) denies what is not there yet, RL.RESERVE grants it, whatever its size, and the
next ones wait for it. A request waits only for what those before it owe. Limits of ` + "`GCRA`, `TOKEN`, `WARMUP` and `QUEUE`" + ` can be
reserved; what a ` + "`QUEUE`" + ` has no place for is denied here, too.

Arguments and reply are those of [RL.TAKE](#rltake), but for the wait: with limited 0, go ahead after so many milliseconds (−1: at
once); the caller is to do the waiting. ` + "`MAXWAIT`" + `, in milliseconds or with a unit, is the longest wait to accept: if it would be longer,
the request is denied, nothing changes, and the wait tells when to ask again. Without it, any wait is accepted.

` + "```" + `
> RL.RESERVE export:acme GCRA 10/s COST 25
1) (integer) 0
2) (integer) 10
3) (integer) 0
4) (integer) -1
5) (integer) 2500
> RL.RESERVE export:acme GCRA 10/s
1) (integer) 0
2) (integer) 10
3) (integer) 0
4) (integer) 1500
5) (integer) 2600
> RL.RESERVE export:acme GCRA 10/s MAXWAIT 1s
1) (integer) 1
2) (integer) 10
3) (integer) 0
4) (integer) 600
5) (integer) 2600
` + "```" + `
`

const takeAllNotes = `
For a caller under several limits at once: of the user, of the network address, of the whole service. The keys come first, at most
128 and no two the same, then as many limits in the same order, each written as for [RL.TAKE](#rltake), with a ` + "`COST`" + ` of its own.
All are decided in one atomic step. If one denies, nothing is taken anywhere; ` + "`COUNTDENIED`" + ` then counts nothing either.

The reply is limited (0 or 1), the index from 0 of the limit that denies with the longest wait or −1, and for each limit the five
integers of RL.TAKE. If all are granted, they tell what is left. If not, those of the limits that would have granted tell what
there is, with limited 0. After the longest wait, with no other caller, the same request is granted; a limit that can never
grant, with a wait of −1, has the longest of all.

` + "```" + `
> RL.TAKEALL 2 ip:203.0.113.7 user:42 GCRA 5/s GCRA 100/m BURST 20 COST 15
1) (integer) 0
2) (integer) -1
3) 1) (integer) 0
   2) (integer) 5
   3) (integer) 4
   4) (integer) -1
   5) (integer) 200
4) 1) (integer) 0
   2) (integer) 20
   3) (integer) 5
   4) (integer) -1
   5) (integer) 9000
> RL.TAKEALL 2 ip:203.0.113.7 user:42 GCRA 5/s GCRA 100/m BURST 20 COST 15
1) (integer) 1
2) (integer) 1
3) 1) (integer) 0
   2) (integer) 5
   3) (integer) 4
   4) (integer) -1
   5) (integer) 200
4) 1) (integer) 1
   2) (integer) 20
   3) (integer) 5
   4) (integer) 6000
   5) (integer) 9000
` + "```" + `
`

const topNotes = `
The reply is an array of pairs, a key and its count, the highest count first: how often the key was denied (` + "`BY LIMITED`" + `, if not
said) or decided on at all (` + "`BY REQUESTS`" + `), whatever the cost. Peeks and refunds do not count; of a denied
[RL.TAKEALL](#rltakeall), only the limits that deny. ` + "`COUNT`" + ` is 10 if not said, and 1000 at the most.

A count tells of now: it is what came in this minute, half of what came in the minute before, a quarter of the one before that,
and so on. The minutes are the clock's. Every key is there that makes up a noticeable part of the traffic; only the most frequent ones are followed,
12 for each of the ` + "`shards`" + `, in memory of a fixed size. A count is never too high, and too low by little: by a twelfth of what its
shard has had at most, and for a key that stands out by much less. Above 256 decisions a minute in a shard, which is about 1000 a second with 256
shards, one decision of 128 is looked at, drawn at random, and counts for 128; the counts are then estimates.

` + "`NS`" + ` asks for the keys of one namespace: what stands in a key before its first ` + "`:`" + `. Keys without one are in the namespace "". A key
of more than 82 bytes is shown by its first 82 bytes, three dots, and eight digits that tell it from other keys that begin so.
FLUSHALL forgets all counts; RL.RESET of a key does not.

` + "```" + `
> RL.TAKE api:acme GCRA 1/m
1) (integer) 0
2) (integer) 1
3) (integer) 0
4) (integer) -1
5) (integer) 60000
> RL.TAKE api:acme GCRA 1/m
1) (integer) 1
2) (integer) 1
3) (integer) 0
4) (integer) 60000
5) (integer) 60000
> RL.TOP
1) 1) "api:acme"
   2) (integer) 1
> RL.TOP BY REQUESTS COUNT 5 NS api
1) 1) "api:acme"
   2) (integer) 2
> RL.TOP NS web
(empty array)
` + "```" + `
`

const peekNotes = `
Arguments and reply are those of [RL.TAKE](#rltake).
`

const refundNotes = `
Arguments and reply are those of [RL.TAKE](#rltake), where limited is 0. A key that is full again is forgotten.
`

const infoNotes = `
| | meaning |
|---|---|
| algorithm | as ` + "`TYPE`" + ` tells it |
| state | the Unix time, in nanoseconds, from which the key is as if never used: of a bucket, when it will be full again; of a window, when it ends; of leases, when the last does |
| level | what is used up now: of ` + "`GCRA`, `TOKEN`, `LEAKY`, `QUEUE`, `WARMUP`" + ` as the nanoseconds until nothing is; of ` + "`FIXED`, `SLIDING`, `SEGMENTED`, `LOG`" + ` what is counted; of leases what is in flight |
| resets_in | the milliseconds until then, rounded up |
| memory | the bytes of the key's record and its place in the index |

` + "```" + `
> RL.TAKE login:acme FIXED 5/h COST 2
1) (integer) 0
2) (integer) 5
3) (integer) 3
4) (integer) -1
5) (integer) 2000000
> RL.INFO login:acme
 1) "algorithm"
 2) "fixed"
 3) "state"
 4) (integer) 1600002000000000000
 5) "level"
 6) (integer) 2
 7) "resets_in"
 8) (integer) 2000000
 9) "memory"
10) (integer) 28
` + "```" + `
`

const cellNotes = `
The reply is five integers, times in whole seconds rounded up: limited (0 or 1), limit (max_burst + 1), remaining, the
seconds after which to ask again (−1: granted, or can never be granted), the seconds until the key is as if never used.

` + "```" + `
> CL.THROTTLE user123 15 30 60
1) (integer) 0
2) (integer) 16
3) (integer) 15
4) (integer) -1
5) (integer) 2
` + "```" + `

Arguments, replies and the texts of errors are redis-cell's. These differ on purpose:

- Seconds are rounded up from a nanosecond on, so that a limited caller is never told to ask again after 0 seconds.
- A negative quantity gives back, and stops at full. (redis-cell replies with an error and loses the key's expiry.)
- Numbers too large to be computed exactly are an error. (redis-cell wraps.)
- Quantity 0 writes nothing.
- What remains is exact also where more than a million are allowed a second.
- Any bytes can be a key, and a number that is not UTF-8 is an error. (redis-cell ends the server.)
- A negative burst, count or period is an error.

A key that ` + "`CL.THROTTLE`" + ` has made can be asked for with ` + "`RL.TAKE … GCRA`" + ` and with ` + "`GCRA`" + `, and the other way round.
`

const gcraNotes = `
The period is in seconds and may have a fraction. ` + "`TOKENS`" + ` is 1 if not said, and may be called ` + "`NUM_REQUESTS`" + `. The reply is that of
[CL.THROTTLE](#clthrottle).
`

const publishNotes = `
Libraries subscribe to channels in order to hear of failovers; that works, and nothing ever arrives. One client may have 1024
subscriptions with names of 64 kB together.
`

const clockNotes = `
| field | microseconds |
|---|---|
| time | the Unix time that decisions are made by |
| behind | by how much the machine's clock is ahead of that; negative where it is behind |
| moved | by how much ADOPT has moved the time of decisions now |

A step of the machine's clock reaches no limit: decisions go by a clock of their own, which moves towards the machine's by half a millisecond each
second. After a suspend, or after a clock has been set that was hours off, that takes days, and windows of the calendar end late meanwhile.
ADOPT takes the machine's time at once. It goes forwards only: what is given back by then is given back, and those who wait are looked at within a
quarter of a second. A machine's clock that is behind is not adopted, for decisions never go back. INFO has the same as ` + "`clock_behind_usec`" + `, and
/metrics as ` + "`limitdb_clock_offset_seconds`" + `.
`

const debugNotes = `
Other connections go on meanwhile. Seconds may have a fraction and are 3600 at the most.
`

const waitNotes = `
Redis waits until the timeout for replicas that may yet come; here none can, so there is nothing to wait for.
`

const trackingNotes = `
A decision changes its key, and limitdb does not remember who has read which key: it sends no invalidations, so a client must not cache.
Plain ` + "`CLIENT TRACKING ON`, `OPTOUT` and `BCAST`" + ` are errors that say so. ` + "`OPTIN`" + `, which some libraries ask for on connecting, is accepted: then a
client caches only what ` + "`CLIENT CACHING YES`" + ` announces, and is told at once, behind the reply, that its keys have changed: by a push in RESP3,
and to the client of ` + "`REDIRECT`" + `, if one is given, as Redis does. The errors for bad arguments are those of Redis.
`
