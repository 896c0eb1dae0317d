package known

import "math"

// The scripts of redis_rate keep the theoretical arrival time of GCRA in floating point:
// seconds since 2017, written with 17 digits. The handlers compute as the scripts do.
// Version 8 has the script of redis-gcra, on which later ones are based.

var redisRate = [...]Script{
	{"f52a5b566060d79fd321d695df55bc918339c4aa", "go-redis/redis_rate", "allowN", "9.1.1 – 10.0.1", 1, 4, rateVersion{}.allowN},
	{"054143318f521948424aa25df61d7f7ba835a9d7", "go-redis/redis_rate", "allowAtMost", "9.1.1 – 10.0.1", 1, 4, rateVersion{}.allowAtMost},
	{"b51fcf1fec2622e401ecd1495ba719a525362891", "go-redis/redis_rate", "allowN", "9.1.0", 1, 4, rateVersion{stores: true}.allowN},
	{"a6aad3b47e739a75dad60abfc23778c5cf863397", "go-redis/redis_rate", "allowAtMost", "9.1.0", 1, 4, rateVersion{stores: true}.allowAtMost},
	{"ed56c8a55853f0875fb1b3ec6a5f0d599ae50fb7", "go-redis/redis_rate", "allowN", "9.0.0 – 9.0.2", 1, 4, rateVersion{stores: true, rounds: true}.allowN},
	{"879df209aa81c6045299275bd92eddc98dc3ba7d", "go-redis/redis_rate", "allowAtMost", "9.0.0 – 9.0.2", 1, 4, rateVersion{stores: true, rounds: true}.allowAtMost},
	{"c63c96596849c7e5dd745dda1f81821c2f36a85d", "go-redis/redis_rate", "gcra", "8.0.0", 1, 4, gcraVersion{rounds: true}.perform},
}

// rateVersion is what differs between the versions of redis_rate.
type rateVersion struct {
	stores bool // it stores a time that is over, which is an error
	rounds bool // it rounds what remains to an integer
}

// rateEpoch is the beginning of 2017.
const rateEpoch = 1483228800

// rate are the arguments of a script that computes GCRA, and the state of its key.
type rate struct {
	interval, offset, cost float64
	now, tat               float64 // tat is now if the key is absent
}

// seconds returns the time since an epoch, which is in seconds of Unix time.
func (r *Run) seconds(epoch int64) float64 {
	micros := r.Now / 1000
	return float64(micros/1e6-epoch) + float64(float64(micros%1e6)/1e6)
}

// rateOf reads burst, rate, period in seconds, with args = 4 also the cost, and the key, whose
// time is since the epoch.
func rateOf(r *Run, args int, epoch int64) (g rate, ok bool) {
	var a [4]float64
	if !r.plains(a[:args]) || a[1] == 0 {
		return g, false
	}
	g.now = r.seconds(epoch)
	g.interval = a[2] / a[1]
	g.offset = float64(g.interval * a[0])
	g.cost = a[3]
	g.tat, ok = r.number(r.Keys[0], g.now)
	return g, ok
}

// keep stores a new arrival time and replies what is allowed and remains.
func (v rateVersion) keep(r *Run, g *rate, tat, allowed, remaining float64) bool {
	reset := tat - g.now
	if reset > maxSeconds || reset <= 0 && v.stores {
		return false
	}
	if !rateReply(r, allowed, remaining, -1, reset) {
		return false
	}
	if reset > 0 {
		r.setNumber(r.Keys[0], tat, r.millis()+int64(math.Ceil(reset))*1000)
	}
	return true
}

// rateReply replies with two integers and two times in seconds.
func rateReply(r *Run, first, remaining, retry, reset float64) bool {
	a, ok := truncated(first)
	b, also := truncated(remaining)
	r.Array(4)
	r.Int(a)
	r.Int(b)
	r.tostring(retry)
	r.tostring(reset)
	return ok && also
}

// remaining returns how many requests a time is worth, rounded to an integer or not.
func (g *rate) remaining(left float64, rounds bool) float64 {
	if rounds {
		return math.Floor(left/g.interval + 0.5)
	}
	return left / g.interval
}

// allowN takes a cost or nothing.
func (v rateVersion) allowN(r *Run) bool {
	g, ok := rateOf(r, 4, rateEpoch)
	if !ok {
		return false
	}
	g.tat = math.Max(g.tat, g.now)
	tat := g.tat + float64(g.interval*g.cost)
	left := g.now - (tat - g.offset)
	remaining := g.remaining(left, v.rounds)
	if remaining < 0 {
		return rateReply(r, 0, 0, -left, g.tat-g.now)
	}
	return v.keep(r, &g, tat, g.cost, remaining)
}

// allowAtMost takes as much of a cost as there is, and at least 1.
func (v rateVersion) allowAtMost(r *Run) bool {
	g, ok := rateOf(r, 4, rateEpoch)
	if !ok {
		return false
	}
	g.tat = math.Max(g.tat, g.now)
	left := g.now - (g.tat - g.offset)
	remaining := g.remaining(left, v.rounds)
	if v.rounds && remaining == 0 || !v.rounds && remaining < 1 {
		return rateReply(r, 0, 0, g.interval-left, g.tat-g.now)
	}
	cost := g.cost
	if remaining < cost {
		cost, remaining = remaining, 0
	} else {
		remaining -= cost
	}
	return v.keep(r, &g, g.tat+float64(g.interval*cost), cost, remaining)
}
