package torture

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Some keys are not for porcupine but for counting: from a key with a rate, no more may be granted than the rate allows, and
// a key with a large quota must have as much in use as clients were granted.
const (
	rate       = 200 // per second
	rateBurst  = 100
	rateLimit  = "GCRA 200/s BURST 100"
	pipeline   = 8
	maxMinutes = 128
)

// quotas are new each minute. The state of the LOG grows to 300 kB and is replicated in parts.
var quotas = [...]struct {
	limit string
	size  int
}{
	{"GCRA 1/h BURST 1000000", 1_000_000},
	{"LOG 60000/30d", 60_000},
}

type counts struct {
	began            time.Time
	lastReply        atomic.Int64 // since began
	granted, answers atomic.Int64
	taken, maybe     [maxMinutes][len(quotas)]atomic.Int64
}

func (k *counts) run(t *testing.T, c *client, gate *sync.RWMutex, stop <-chan struct{}) {
	byRate := line("RL.TAKE", "rate", rateLimit)
	for {
		select {
		case <-stop:
			return
		default:
		}
		gate.RLock()
		k.count(t, c, byRate, &k.granted, nil)
		minute := int(time.Since(k.began)/time.Minute) % maxMinutes
		for i, q := range quotas {
			k.count(t, c, line("RL.TAKE", quotaKey(minute, i), q.limit), &k.taken[minute][i], &k.maybe[minute][i])
		}
		gate.RUnlock()
	}
}

func (k *counts) count(t *testing.T, c *client, command string, granted, maybe *atomic.Int64) {
	all := make([]string, pipeline)
	for i := range all {
		all[i] = command
	}
	values, outcomes := c.call(all...)
	k.lastReply.Store(max(k.lastReply.Load(), int64(time.Since(k.began))))
	for i, o := range outcomes {
		switch {
		case o == answered:
			k.answers.Add(1)
			if values[i].Elems[0].Int == 0 {
				granted.Add(1)
			}
		case o == unknown && maybe != nil:
			maybe.Add(1)
		case o == violation:
			t.Errorf("%q is answered %q", command, values[i].Text)
		}
	}
}

// check compares the counts with what the cluster says at the end. epochs is how many there have been.
func (k *counts) check(t *testing.T, leader *node, epochs int) {
	elapsed := k.lastReply.Load()
	most := int64(rateBurst) + (elapsed+elapsed/1000+int64(epochs)*int64(250*time.Millisecond))*rate/int64(time.Second) + 1
	if k.granted.Load() > most {
		t.Errorf("%d were granted at %s within %v and %d epochs: at most %d may be", k.granted.Load(), rateLimit, time.Duration(elapsed), epochs, most)
	}
	for minute := range maxMinutes {
		for i, q := range quotas {
			taken, maybe := k.taken[minute][i].Load(), k.maybe[minute][i].Load()
			if taken+maybe == 0 {
				continue
			}
			v, err := leader.ask(strings.Fields(fmt.Sprintf("RL.PEEK %s %s", quotaKey(minute, i), q.limit))...)
			if err != nil {
				t.Errorf("the leader at the end: %v", err)
				return
			}
			n, err := ints(v)
			if err != nil || len(n) != 5 {
				t.Errorf("the leader at the end: %v, %v", v, err)
				return
			}
			used, back := int64(q.size-n[2]+n[0]-1), elapsed/int64(time.Hour)+1 // PEEK says what a TAKE would; and what has come back
			if used+back < taken || used > taken+maybe {
				t.Errorf("%d of %s are used; clients were granted %d, and do not know of %d", used, q.limit, taken, maybe)
			}
		}
	}
}

func quotaKey(minute, i int) string { return fmt.Sprintf("quota%d:%d", minute, i) }

func (k *counts) String() string {
	taken, maybe := int64(0), int64(0)
	for minute := range maxMinutes {
		for i := range quotas {
			taken, maybe = taken+k.taken[minute][i].Load(), maybe+k.maybe[minute][i].Load()
		}
	}
	return fmt.Sprintf("%d answers to who counts, %d granted by rate, %d taken of quotas and %d unknown", k.answers.Load(), k.granted.Load(), taken, maybe)
}
