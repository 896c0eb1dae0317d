package torture

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/groups"
	"limitdb/resp"
)

// Some requests are for limits of several groups. Each client has keys of its own, whose limits never deny, and shares others: one of a rate, for which the
// clients are so many that one group often denies what the others have taken already, and quotas, which are used up again and again. A quota and
// the rate are never exceeded, what was granted is counted in every group, and what was denied is counted in none.

const (
	ownLimit   = "FIXED 1000000000/30d FIRST" // nothing comes back
	ownSize    = 1_000_000_000
	crossRate  = 400 // per second: about as many as are asked for
	crossBurst = 1
	crossQuota = 4
	crossers   = 8
)

// crossRules are rules of which one check has limits in several groups.
var crossRules = fmt.Sprintf(`across: [{name: own, key: [user], limit: %s}, {name: all, key: [of], limit: gcra %d/s burst %d}]`,
	strings.ToLower(ownLimit), crossRate, crossBurst)

// keyIn returns a key that begins with a prefix and is of a group.
func keyIn(prefix string, group int) string {
	for i := 0; ; i++ {
		key := fmt.Sprint(prefix, i)
		if groups.Of(resp.Slot([]byte(key)), groupCount) == group {
			return key
		}
	}
}

// crossings are what all clients together know of the limits that they share.
type crossings struct {
	rateKey   string
	granted   [2]atomic.Int64 // of the rate, by RL.TAKEALL and by RL.CHECK
	denied    atomic.Int64
	lastReply atomic.Int64 // since began
	began     time.Time

	mu     sync.Mutex // guards what follows
	quotas []int64    // granted of each

	surplus int64 // the most that check has found taken from a key, beside what was granted or is not known
}

func newCrossings() *crossings {
	return &crossings{rateKey: keyIn("across-rate-", 1), began: time.Now(), quotas: make([]int64, 1)}
}

// quota returns the number of the quota that is taken from now, after another one, if it is not -1, was used up.
func (k *crossings) quota(usedUp int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if usedUp == len(k.quotas)-1 {
		k.quotas = append(k.quotas, 0)
	}
	return len(k.quotas) - 1
}

// take counts one more grant of a quota, and returns how many there are.
func (k *crossings) take(quota int) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.quotas[quota]++
	return k.quotas[quota]
}

// quotaName returns the key of a quota. They are in all groups by turns.
func quotaName(n int) string { return keyIn(fmt.Sprintf("across-quota-%d-", n), 1+n%groupCount) }

func quotaOf() string { return fmt.Sprintf("FIXED %d/30d FIRST", crossQuota) }

// ownKey is a key that only one client takes from.
type ownKey struct {
	key            string // "" for the one of the client's checks
	granted, maybe int64
}

// crosser is a client of limits in several groups.
type crosser struct {
	*client
	t    *testing.T
	name string
	of   *crossings
	own  [5]ownKey // the first two with the rate, two with quotas, and the one of checks
}

func newCrosser(t *testing.T, c *client, number int, of *crossings) *crosser {
	x := &crosser{client: c, t: t, name: fmt.Sprint("across-", number, "-"), of: of}
	for i := range x.own[:4] {
		x.own[i].key = keyIn(fmt.Sprint(x.name, i, "-"), 1+(number+i+1)%groupCount)
	}
	return x
}

func (x *crosser) run(gate *sync.RWMutex, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		gate.RLock()
		x.cross()
		gate.RUnlock()
	}
}

// cross makes a request of each kind.
func (x *crosser) cross() {
	byRate := fmt.Sprintf("GCRA %d/s BURST %d", crossRate, crossBurst)
	if x.ask(line("RL.TAKEALL 3", x.own[0].key, x.of.rateKey, x.own[1].key, ownLimit, byRate, ownLimit), x.own[:2]) == 'g' {
		x.of.granted[0].Add(1)
	}
	n := x.of.quota(-1)
	switch x.ask(line("RL.TAKEALL 3", quotaName(n), x.own[2].key, x.own[3].key, quotaOf(), ownLimit, ownLimit), x.own[2:4]) {
	case 'g':
		if taken := x.of.take(n); taken > crossQuota {
			x.t.Errorf("%d of %s are granted: %d at most may be", taken, quotaName(n), crossQuota)
		}
	case 'd':
		x.of.quota(n)
	}
	if x.ask(line("RL.CHECK across 2 user", x.name, "of all"), x.own[4:]) == 'g' {
		x.of.granted[1].Add(1)
	}
}

// ask makes a request, and returns g if it is granted, d if it is denied, and 0 if that is not known or it was not decided.
func (x *crosser) ask(command string, own []ownKey) byte {
	values, outcomes := x.call(command)
	x.of.lastReply.Store(max(x.of.lastReply.Load(), int64(time.Since(x.of.began))))
	add, maybe, is := int64(0), int64(0), byte(0)
	switch v := values[0]; {
	case outcomes[0] == violation, outcomes[0] == answered && len(v.Elems) == 0:
		x.t.Errorf("%q is answered %v", command, v)
	case outcomes[0] == unknown:
		maybe = 1
	case outcomes[0] == answered && v.Elems[0].Int == 0:
		add, is = 1, 'g'
	case outcomes[0] == answered:
		is = 'd'
		x.of.denied.Add(1)
	}
	for i := range own {
		own[i].granted += add
		own[i].maybe += maybe
	}
	return is
}

// used returns how much is taken from a key of a client's own, as a node says, or false.
func (x *crosser) used(at *node, k *ownKey) (int64, bool) {
	if k.key != "" {
		v, err := at.askSoon(strings.Fields(line("RL.PEEK", k.key, ownLimit, "COST 0"))...)
		if err != nil || len(v.Elems) != 5 {
			return 0, false
		}
		return ownSize - v.Elems[2].Int, true
	}
	v, err := at.askSoon(strings.Fields(line("RL.CHECK across 2 user", x.name, "of all COST 0 PEEK EXPLAIN"))...)
	if err != nil || len(v.Elems) < 7 || len(v.Elems[6].Elems) != 2 || len(v.Elems[6].Elems[0].Elems) < 5 || len(v.Elems[6].Elems[0].Elems[4].Elems) < 3 {
		return 0, false
	}
	return ownSize - v.Elems[6].Elems[0].Elems[4].Elems[2].Int, true
}

// separations returns how many faults have ended nodes, or kept them from hearing one another.
func (c *cluster) separations() (n int64) {
	for _, kind := range []string{"kill", "kill-all", "restart", "full", "pause", "partition", "one-way-cut", "directory-parted", "member"} {
		n += int64(c.counts[kind])
	}
	return n
}

// check compares what the clients know with what a cluster that is healed says, once all that was taken in vain is given back. When nodes end or are
// separated, a request of a client may leave something taken that nobody has used.
func (k *crossings) check(c *cluster, all []*crosser) {
	left := c.separations()
	for _, x := range all {
		for i := range x.own {
			o, used := &x.own[i], int64(-1)
			c.await(fmt.Sprintf("what was taken in vain from %s%d is given back", x.name, i), func() bool {
				l := c.leader()
				if l == nil {
					return false
				}
				n, ok := x.used(l, o)
				if ok {
					used = n
				}
				return ok && used <= o.granted+o.maybe+left
			})
			k.surplus = max(k.surplus, used-o.granted-o.maybe)
			if used < o.granted {
				c.t.Errorf("%s%d: %d are used, and the client was granted %d", x.name, i, used, o.granted)
			}
			if used > o.granted+o.maybe+left {
				c.t.Errorf("%s%d: %d are used, and the client was granted %d and does not know of %d: %d may be left taken", x.name, i, used, o.granted, o.maybe, left)
			}
		}
	}
	elapsed := k.lastReply.Load()
	for i := range k.granted {
		epochs := int64(c.epochs("")) // of any group: the one of the rule's key is not known here
		if i == 0 {
			epochs = int64(c.epochs(" group=1 "))
		}
		most := crossBurst + (elapsed+elapsed/1000+epochs*int64(250*time.Millisecond))*crossRate/int64(time.Second) + 1
		if n := k.granted[i].Load(); n > most {
			c.t.Errorf("%d were granted at %d/s within %v and %d epochs: at most %d may be", n, crossRate, time.Duration(elapsed), epochs, most)
		}
	}
}

// late returns how many requests one group has denied after another had taken its part, as the nodes say since they started.
func (c *cluster) late() (n int) {
	for _, at := range c.members() {
		v, err := at.askSoon("INFO", "limiter")
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(v.Text, "decisions_across_groups_denied_late:")
		count, _, _ := strings.Cut(after, "\r\n")
		one, _ := strconv.Atoi(count)
		n += one
	}
	return n
}

func (k *crossings) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := int64(0)
	for _, n := range k.quotas {
		sum += n
	}
	return fmt.Sprintf("over several groups %d and %d granted by rate and %d of %d quotas, %d denied; %d taken in vain from a key", k.granted[0].Load(), k.granted[1].Load(), sum, len(k.quotas), k.denied.Load(), k.surplus)
}
