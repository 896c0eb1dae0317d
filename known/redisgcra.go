package known

import "math"

// redis-gcra, a Ruby gem by rwz: GCRA in floating point, as redis_rate keeps it.

var redisGCRA = [...]Script{
	{"a9981050630e3925a2c740c80f07a1d0e24e78fb", "rwz/redis-gcra", "perform", "0.4.2 on", 1, 4, gcraVersion{rounds: true}.perform},
	{"87d3712ed6eb1ea48f2afdba5473ef21b3ddb03c", "rwz/redis-gcra", "perform", "0.4.1", 1, 4, gcraVersion{rounds: true, strict: true}.perform},
	{"7f098c7a5a829f0b66bbfc3601a83fd2c5a8e174", "rwz/redis-gcra", "perform", "0.4.0", 1, 4, gcraVersion{strict: true}.perform},
	{"4628336da5ca85d07cc6b1964e2a7468f2d9febb", "rwz/redis-gcra", "perform", "0.2 – 0.3", 1, 4, gcraVersion{strict: true, unix: true}.perform},
	{"d9221875db05e13f52cb59c413f98b1f4f55bec0", "rwz/redis-gcra", "inspect", "main", 1, 3, gcraVersion{rounds: true}.inspect},
	{"9dea6282b5030c1dcb7d3a2a13f22f4591591895", "rwz/redis-gcra", "inspect", "0.4.2 – 0.5.0", 1, 3, gcraVersion{rounds: true}.inspect},
	{"eec5cb1afecb11ab103c09edf26092d6f0f04fc4", "rwz/redis-gcra", "inspect", "0.4.0 – 0.4.1", 1, 3, gcraVersion{}.inspect},
}

// gcraVersion is what differs between the versions of redis-gcra.
type gcraVersion struct {
	rounds bool // it rounds what remains to an integer, others cut it
	strict bool // it denies what comes too early, although a rounded request remains
	unix   bool // it keeps Unix time
}

// perform takes a cost or nothing.
func (v gcraVersion) perform(r *Run) bool {
	epoch := int64(rateEpoch)
	if v.unix {
		epoch = 0
	}
	g, ok := rateOf(r, 4, epoch)
	if !ok {
		return false
	}
	tat := math.Max(g.tat, g.now) + float64(g.interval*g.cost)
	left := g.now - (tat - g.offset)
	remaining := math.Floor(g.remaining(left, v.rounds))
	if v.strict && left < 0 || !v.strict && remaining < 0 {
		return rateReply(r, 1, 0, left*-1, g.tat-g.now)
	}
	reset := tat - g.now
	if reset <= 0 || reset > maxSeconds || !rateReply(r, 0, remaining, -1, reset) {
		return false
	}
	r.setNumber(r.Keys[0], tat, r.millis()+int64(math.Ceil(reset))*1000)
	return true
}

// inspect replies as perform would, and takes nothing.
func (v gcraVersion) inspect(r *Run) bool {
	g, ok := rateOf(r, 3, rateEpoch)
	if !ok {
		return false
	}
	left := g.now - (math.Max(g.tat, g.now) - g.offset)
	remaining := math.Floor(g.remaining(left, v.rounds))
	reset := g.tat - g.now
	if reset == 0 {
		reset = -1
	}
	if remaining == 0 || v.rounds && remaining < 1 {
		return rateReply(r, 1, 0, g.interval-left, reset)
	}
	return rateReply(r, 0, remaining, -1, reset)
}
