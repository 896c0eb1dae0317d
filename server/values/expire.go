package values

import (
	"limitdb/resp"
	"limitdb/server/spec"
)

// The expiry of keys. A limit's key expires when its limit is full again, and a lease's when the
// last lease ends: no command moves these.
func expireRows() []Row {
	option := spec.OneOf("condition", spec.Word("NX"), spec.Word("XX"), spec.Word("GT"), spec.Word("LT"))
	return []Row{
		onKey("EXPIRE", -3, spec.Write|spec.Fast, "generic", "Makes a key expire after some seconds.", func(c *Call, t *Txn) { expire(c, t, true, c.NowMillis()) }, spec.Integer("seconds"), option).Uses("RW update"),
		onKey("PEXPIRE", -3, spec.Write|spec.Fast, "generic", "Makes a key expire after some milliseconds.", func(c *Call, t *Txn) { expire(c, t, false, c.NowMillis()) }, spec.Integer("milliseconds"), option).Uses("RW update"),
		onKey("EXPIREAT", -3, spec.Write|spec.Fast, "generic", "Makes a key expire at a Unix time in seconds.", func(c *Call, t *Txn) { expire(c, t, true, 0) }, spec.Integer("unix-time-seconds"), option).Uses("RW update"),
		onKey("PEXPIREAT", -3, spec.Write|spec.Fast, "generic", "Makes a key expire at a Unix time in milliseconds.", func(c *Call, t *Txn) { expire(c, t, false, 0) }, spec.Integer("unix-time-milliseconds"), option).Uses("RW update"),
		onKey("PERSIST", 2, spec.Write|spec.Fast, "generic", "Makes a key never expire.", persist).Uses("RW update"),
		onKey("TTL", 2, spec.Readonly|spec.Fast, "generic", "Returns the seconds until a key expires or is as if never used; -1: never; -2: no such key.", ttl),
		onKey("PTTL", 2, spec.Readonly|spec.Fast, "generic", "Returns the milliseconds until a key expires or is as if never used; -1: never; -2: no such key.", pTTL),
		onKey("EXPIRETIME", 2, spec.Readonly|spec.Fast, "generic", "Returns the Unix time at which a key expires or is as if never used, in seconds; -1: never; -2: no such key.", expireTime),
		onKey("PEXPIRETIME", 2, spec.Readonly|spec.Fast, "generic", "Returns the Unix time at which a key expires or is as if never used, in milliseconds; -1: never; -2: no such key.", pExpireTime),
	}
}

// expireCondition is a set of EXPIRE's conditions.
type expireCondition uint8

const (
	expireNX expireCondition = 1 << iota
	expireXX
	expireGT
	expireLT
)

// parseExpireConditions parses the conditions. It returns the text of the error, or "".
func parseExpireConditions(words [][]byte) (o expireCondition, text string) {
	for _, w := range words {
		switch {
		case resp.EqualFold(w, "NX"):
			o |= expireNX
		case resp.EqualFold(w, "XX"):
			o |= expireXX
		case resp.EqualFold(w, "GT"):
			o |= expireGT
		case resp.EqualFold(w, "LT"):
			o |= expireLT
		default:
			return 0, "ERR Unsupported option " + resp.Excerpt(w)
		}
	}
	switch {
	case o&expireNX != 0 && o != expireNX:
		return 0, "ERR NX and XX, GT or LT options at the same time are not compatible"
	case o&expireGT != 0 && o&expireLT != 0:
		return 0, "ERR GT and LT options at the same time are not compatible"
	}
	return o, ""
}

// met reports whether a key that expires at before, 0 for never, may from now on expire at ms.
func (o expireCondition) met(before, ms int64) bool {
	switch {
	case o&expireNX != 0 && before != 0,
		o&expireXX != 0 && before == 0,
		o&expireGT != 0 && (before == 0 || ms <= before),
		o&expireLT != 0 && before != 0 && ms >= before:
		return false
	}
	return true
}

// expire sets the expiry of the command's key to a time after base, which is in ms of Unix time.
func expire(c *Call, t *Txn, seconds bool, base int64) {
	o, text := parseExpireConditions(c.Args[3:])
	if text != "" {
		c.Fail(text)
		return
	}
	n, ok := resp.ParseInt(c.Args[2])
	if !ok {
		c.Fail(spec.ErrNotInt)
		return
	}
	ms, ok := addTime(n, seconds, base)
	if !ok {
		c.failExpiry()
		return
	}
	it := c.Item(t, c.Args[1])
	switch {
	case !it.Exists():
		c.Int(0)
	case !c.movable(&it):
	case !o.met(it.Expires, ms):
		c.Int(0)
	case ms <= c.NowMillis():
		t.Remove(c.Args[1])
		c.Int(1)
	default:
		it.Expires = ms
		c.Change(t, c.Args[1], &it, nil)
		c.Int(1)
	}
}

// movable reports whether commands may set when a key expires, rename it or copy it. It replies
// with the error for a limit or a lease.
func (c *Call) movable(it *Item) bool {
	if it.Kind == 0 {
		return true
	}
	c.Fail(spec.ErrWrongType + ": it holds " + it.Kind.String() + ", which expires by itself and stays under its name; RL.RESET forgets it")
	return false
}

func persist(c *Call, t *Txn) {
	it := c.Item(t, c.Args[1])
	switch {
	case !c.movable(&it):
	case it.Expires == 0:
		c.Int(0)
	default:
		it.Expires = 0
		c.Change(t, c.Args[1], &it, nil)
		c.Int(1)
	}
}

func ttl(c *Call, t *Txn) {
	it := c.Item(t, c.Args[1])
	ms := c.TTL(&it)
	switch {
	case ms < 0:
		c.Int(ms)
	case it.Kind != 0:
		c.Int((ms + 999) / 1000) // rounded up: a limit never says 0 while it is not full
	default:
		c.Int((ms + 500) / 1000)
	}
}

func pTTL(c *Call, t *Txn) {
	it := c.Item(t, c.Args[1])
	c.Int(c.TTL(&it))
}

func expireTime(c *Call, t *Txn) {
	it := c.Item(t, c.Args[1])
	switch ms := expiresAt(&it); {
	case ms < 0:
		c.Int(ms)
	case it.Kind != 0:
		c.Int((ms + 999) / 1000)
	default:
		c.Int((ms + 500) / 1000)
	}
}

func pExpireTime(c *Call, t *Txn) {
	it := c.Item(t, c.Args[1])
	c.Int(expiresAt(&it))
}

// expiresAt returns when a key expires in ms of Unix time: -2 for no such key, -1 for never.
func expiresAt(it *Item) int64 {
	switch {
	case !it.Exists():
		return -2
	case it.Expires == 0:
		return -1
	}
	return it.Expires
}
