package torture

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A history is what several clients saw of a few keys, whose limits give nothing back for years: TAKE, PEEK, REFUND, RESET of one key, and TAKEALL of
// two. Porcupine checks that there is an order in which one server could have answered all of it.
const (
	keysOf       = 3
	burst        = 40
	historyLimit = "GCRA 1/30d BURST 40"
	historyOps   = 1000
	// mostUnknown bounds the commands of a history whose outcome is not known: each is concurrent with all that follows.
	mostUnknown = 8
)

type input struct {
	op   byte // T, P, F, R; A for TAKEALL
	key  [2]int
	cost [2]int
}

type output struct {
	unknown bool
	granted bool
	left    [2]int
}

type state [keysOf]int // used

func (s state) step(in input) (output, state) {
	k, c := in.key[0], in.cost[0]
	out := output{granted: true}
	switch in.op {
	case 'T':
		if out.granted = s[k]+c <= burst; out.granted {
			s[k] += c
		}
	case 'F':
		s[k] = max(0, s[k]-c)
	case 'R':
		out.granted = s[k] > 0 // the key was there
		s[k] = 0
	case 'A':
		if out.granted = s[k]+c <= burst && s[in.key[1]]+in.cost[1] <= burst; out.granted {
			s[k] += c
			s[in.key[1]] += in.cost[1]
		}
		out.left[1] = burst - s[in.key[1]]
	}
	switch in.op {
	case 'R':
	case 'P': // what a TAKE of 1 would say
		peeked := s
		out, _ = peeked.step(input{op: 'T', key: in.key, cost: [2]int{1, 0}})
	default:
		out.left[0] = burst - s[k]
	}
	return out, s
}

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, out any) (bool, any) {
		want, next := s.(state).step(in.(input))
		got := out.(output)
		if got.unknown {
			return true, next
		}
		return want == got, next
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%c%+v → %+v", in.(input).op, in, out) },
}

// history is filled by all clients at once.
type history struct {
	mu      sync.Mutex
	number  int
	ops     []porcupine.Operation
	unknown int
	open    int // clients that use it
	over    bool
	notDone []string // what was answered that nothing was done
}

// histories hands out the current history, and checks those that are over.
type histories struct {
	t        *testing.T
	began    time.Time
	patience time.Duration
	first    int // the number of the first history

	mu                             sync.Mutex
	current                        *history
	made                           int
	checks                         sync.WaitGroup
	checking                       chan struct{}
	operations, checked, undecided int
}

func newHistories(t *testing.T, patience time.Duration) *histories {
	return &histories{t: t, began: time.Now(), patience: patience, checking: make(chan struct{}, 1)}
}

func (h *histories) enter() *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == nil {
		h.made++
		h.current = &history{number: h.first + h.made}
	}
	h.current.mu.Lock()
	h.current.open++
	h.current.mu.Unlock()
	return h.current
}

// leave ends a client's use, and the history if it is long enough.
func (h *histories) leave(y *history, end bool) {
	y.mu.Lock()
	y.open--
	if len(y.ops) >= historyOps || y.unknown >= mostUnknown || end {
		y.over = true
	}
	check := y.over && y.open == 0
	over := y.over
	y.mu.Unlock()
	h.mu.Lock()
	if over && h.current == y {
		h.current = nil
	}
	h.mu.Unlock()
	if check {
		h.checks.Go(func() { h.check(y) })
	}
}

func (h *histories) check(y *history) {
	h.checking <- struct{}{}
	defer func() { <-h.checking }()
	result := porcupine.CheckOperationsTimeout(model, y.ops, h.patience)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations += len(y.ops)
	h.checked++
	switch result {
	case porcupine.Illegal:
		h.t.Errorf("history %d of %d operations, %d of them unknown, is what no single server would have answered", y.number, len(y.ops), y.unknown)
		for _, text := range y.notDone {
			h.t.Logf("nothing done: %s", text)
		}
		for _, o := range h.inexplicable(y.ops) {
			h.t.Logf("%d: %d-%d %s", o.ClientId, o.Call, o.Return, model.DescribeOperation(o.Input, o.Output))
		}
	case porcupine.Unknown:
		h.undecided++
	}
}

// inexplicable returns the last operations of the shortest beginning of a history that no single server would have answered: those that were answered
// by its end, the last ones, and those that were under way.
func (h *histories) inexplicable(ops []porcupine.Operation) (last []porcupine.Operation) {
	ends := make([]int64, 0, len(ops))
	for _, o := range ops {
		ends = append(ends, o.Return)
	}
	slices.Sort(ends)
	until := func(end int64) (part []porcupine.Operation) {
		for _, o := range ops {
			if o.Return > end && o.Call <= end {
				out := o.Output.(output)
				out.unknown = true
				o.Output, o.Return = out, math.MaxInt64
			}
			if o.Call <= end {
				part = append(part, o)
			}
		}
		return part
	}
	at := sort.Search(len(ends), func(i int) bool {
		return porcupine.CheckOperationsTimeout(model, until(ends[i]), h.patience) == porcupine.Illegal
	})
	if at == len(ends) {
		return nil
	}
	last = until(ends[at])
	slices.SortFunc(last, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	return last[max(0, len(last)-40):]
}

// run has a client add operations until stop is closed, and pauses while the gate is held.
func (h *histories) run(c *client, number int, gate *sync.RWMutex, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		gate.RLock()
		y := h.enter()
		h.operate(c, number, y)
		h.leave(y, false)
		gate.RUnlock()
	}
}

func (h *histories) operate(c *client, number int, y *history) {
	in := draw(c.rand)
	call := time.Since(h.began).Nanoseconds()
	values, outcomes := c.call(in.command(y.number))
	ret := time.Since(h.began).Nanoseconds()
	out := output{}
	switch outcomes[0] {
	case notDone:
		y.mu.Lock()
		y.notDone = append(y.notDone, fmt.Sprintf("%d: %d-%d %c%+v: %s", number, call, ret, in.op, in, values[0].Text))
		y.mu.Unlock()
		return
	case violation:
		h.t.Errorf("%q is answered %q", in.command(y.number), values[0].Text)
		return
	case unknown:
		out.unknown, ret = true, math.MaxInt64
	case answered:
		var err error
		if out, err = in.parse(values[0]); err != nil {
			h.t.Errorf("%q: %v", in.command(y.number), err)
			return
		}
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if out.unknown {
		if in.op == 'P' {
			return
		}
		y.unknown++
	}
	y.ops = append(y.ops, porcupine.Operation{ClientId: number, Input: in, Call: call, Output: out, Return: ret})
}

func draw(r *rand.Rand) input {
	in := input{key: [2]int{r.IntN(keysOf), 0}, cost: [2]int{1 + r.IntN(3), 1 + r.IntN(3)}}
	in.key[1] = (in.key[0] + 1 + r.IntN(keysOf-1)) % keysOf
	switch n := r.IntN(100); {
	case n < 45:
		in.op = 'T'
	case n < 60:
		in.op = 'P'
	case n < 75:
		in.op = 'F'
	case n < 77:
		in.op = 'R'
	default:
		in.op = 'A'
	}
	return in
}
