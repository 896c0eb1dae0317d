package torture

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"limitdb/resp"
)

// Some keys have estimates that are held and settled, and requests that count once. Each command has an id, so its client sends it again until
// it is answered, and at times once more. Under the limits of these keys nothing comes back by itself, so in the end exactly what each id
// was charged is in use: no hold is lost, and none is settled, given back or counted twice.

// heldLimits are the limits of these keys, by turns.
var heldLimits = [...]struct {
	limit string
	size  int64
	each  int // ids on one key
}{
	{"FIXED 1000000000/30d FIRST", 1_000_000_000, 400},
	{"LOG 60000/30d", 60_000, 100},
	{"SLIDING 1000000000/30d", 1_000_000_000, 400},
}

// settledKnown is for how long an id is surely known after it was settled. The server knows it for 30 s.
const settledKnown = 25 * time.Second

// heldFor is for how long a hold may be looked for. Its TTL is an hour, the longest, and ends during a longer run.
const heldFor = 50 * time.Minute

// heldKey is what a client knows of a key.
type heldKey struct {
	began       time.Time
	name, limit string
	size        int64
	used        int64
	open        map[string]int64 // the holds that stay
}

// asker is a client whose commands have ids: it sends each until it is answered.
type asker struct {
	*client
	t     *testing.T
	again int // how many answers were lost
}

// holder is a client with keys of its own.
type holder struct {
	asker
	number int
	ids    int
	keys   []*heldKey
	all    *atomic.Int64 // ids of all clients
}

func (h *holder) run(gate *sync.RWMutex, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		gate.RLock()
		h.live()
		gate.RUnlock()
	}
}

// do sends a command until it is answered. first is when it was first sent.
func (a *asker) do(command string) (v resp.Value, first time.Time) {
	first = time.Now()
	for time.Since(first) < patience {
		values, outcomes := a.call(command)
		switch v = values[0]; {
		case outcomes[0] == answered, outcomes[0] == violation: // an error is an answer, too
			return v, first
		case outcomes[0] == unknown:
			a.again++
		}
	}
	a.t.Errorf("%q is never answered", command)
	return v, first
}

// sure sends a command whose answer must begin with some words, and at times sends it once more.
func (a *asker) sure(command, want string) bool {
	for range 1 + a.rand.IntN(2) {
		if v, _ := a.do(command); !strings.HasPrefix(shown(v), want) {
			a.t.Errorf("%q is answered %s, not %s", command, shown(v), want)
			return false
		}
	}
	return true
}

// shown writes a reply as text: its integers, or its text.
func shown(v resp.Value) string {
	if v.Err() != nil || v.Kind != '*' {
		return strings.TrimSpace(fmt.Sprint(v.Text, " ", v.Int))
	}
	var words []string
	for _, e := range v.Elems {
		words = append(words, fmt.Sprint(e.Int))
	}
	return strings.Join(words, " ")
}

// key returns the key for the next id.
func (h *holder) key() *heldKey {
	if len(h.keys) == 0 || h.ids%heldLimits[(len(h.keys)-1)%len(heldLimits)].each == 0 {
		of := &heldLimits[len(h.keys)%len(heldLimits)]
		h.keys = append(h.keys, &heldKey{began: time.Now(), name: fmt.Sprintf("held%d:%d", h.number, len(h.keys)), limit: of.limit, size: of.size, open: map[string]int64{}})
		h.ids = 0
	}
	h.ids++
	h.all.Add(1)
	return h.keys[len(h.keys)-1]
}

// live makes an id, and ends it in one of many ways.
func (h *holder) live() {
	k := h.key()
	id, cost := fmt.Sprint("i", h.ids), int64(1+h.rand.IntN(9))
	held := line("RL.HOLD", k.name, k.limit, "COST", fmt.Sprint(cost), "TTL 1h ID", id, "ONEXPIRE", []string{"keep", "return"}[h.rand.IntN(2)])
	switch how := h.rand.IntN(8); how {
	case 0: // counted once
		if h.sure(line("RL.TAKE", k.name, k.limit, "COST", fmt.Sprint(cost), "ONCE", id, "FOR 1h"), "0 ") {
			k.used += cost
		}
	case 1: // cancelled before it comes
		v, first := h.do(line("RL.CANCEL", k.name, "ID", id))
		if shown(v) != "0" {
			h.t.Errorf("a cancel of what was never held is answered %s", shown(v))
		}
		if v, _ = h.do(held); strings.HasPrefix(shown(v), "CANCELLED ") {
			return
		}
		if !strings.HasPrefix(shown(v), "0 ") || time.Since(first) < settledKnown {
			h.t.Errorf("%q, which was cancelled before, is answered %s", held, shown(v))
		}
		k.used += cost // the cancel was forgotten
		k.open[id] = cost
	case 2: // left
		if h.sure(held, "0 ") {
			k.used += cost
			k.open[id] = cost
		}
	default:
		if h.sure(held, "0 ") {
			h.settle(k, id, cost, how)
		}
	}
}

// settle commits or cancels a hold, and does so again, at another cost.
func (h *holder) settle(k *heldKey, id string, cost int64, how int) {
	actual := int64(h.rand.IntN(15))
	command := line("RL.COMMIT", k.name, "ID", id, "COST", fmt.Sprint(actual))
	want := fmt.Sprint(actual-cost, " 0 ")
	if how == 3 {
		actual, command, want = 0, line("RL.CANCEL", k.name, "ID", id), fmt.Sprint(cost)
	}
	k.used += actual
	v, first := h.do(command)
	known := func() bool { return time.Since(first) < settledKnown }
	if got := shown(v); !strings.HasPrefix(got, want) && known() {
		h.t.Errorf("%q of %d is answered %s, not %s", command, cost, got, want)
	}
	if again := h.rand.IntN(20); again < 10 && known() {
		v, _ = h.do(line("RL.COMMIT", k.name, "ID", id, "COST", fmt.Sprint(again)))
		if got, want := shown(v), fmt.Sprint(actual-cost, " 0 "); !strings.HasPrefix(got, want) && known() {
			h.t.Errorf("a second commit of %s of %s is answered %s, not %s", id, k.name, got, want)
		}
	}
}

// check compares what is in use and held in the end with what the client knows, of keys whose holds are not over by then.
func (h *holder) check(leader *node) {
	for _, k := range h.keys {
		if time.Since(k.began) > heldFor {
			continue
		}
		v, err := leader.ask(strings.Fields(fmt.Sprintf("RL.PEEK %s %s COST 0", k.name, k.limit))...)
		if err != nil {
			h.t.Errorf("the leader at the end: %v", err)
			return
		}
		n, err := ints(v)
		if err != nil || len(n) != 5 {
			h.t.Errorf("the leader at the end: %v, %v", v, err)
			return
		}
		if used := k.size - int64(n[2]); used != k.used {
			h.t.Errorf("%d of %s are used, and clients know of %d", used, k.name, k.used)
		}
		if v, err = leader.ask("RL.HOLDS", k.name, "COUNT", "100000"); err != nil {
			h.t.Errorf("the leader at the end: %v", err)
			return
		}
		held := map[string]int64{}
		for _, e := range v.Elems {
			if e.Elems[1].Text == "held" {
				held[e.Elems[0].Text] = e.Elems[2].Int
			}
		}
		for id, cost := range k.open {
			if held[id] != cost {
				h.t.Errorf("the hold %s of %s is %d, not %d", id, k.name, held[id], cost)
			}
			delete(held, id)
		}
		if len(held) > 0 {
			h.t.Errorf("%s holds what clients have settled, or never held: %v", k.name, held)
		}
	}
}
