package crossing

import (
	"limitdb/engine"
	"limitdb/groups/across"
	"limitdb/limit"
	"limitdb/rules"
	"limitdb/server/group"
	"limitdb/server/handler"
)

// listPrefix begins the keys of the lists of parts that have leases: what giveBack finds them by. No namespace has an empty name, so they are no
// lists of checks that hold.
const listPrefix = rules.Prefix + "!\x00"

// part is what is asked of one group.
type part struct {
	g    *group.Group
	each handler.Each
	rows []int // the indexes of the part's limits
	r    engine.Together
	hold engine.Hold
	hard [][]byte // the keys whose limits can deny
}

// add adds a limit, or a lease unless that is nil.
func (p *part) add(key []byte, l *limit.Limit, cost int64, soft bool, lease *limit.Lease) {
	p.r.Keys, p.r.Limits, p.r.Costs = append(p.r.Keys, key), append(p.r.Limits, *l), append(p.r.Costs, cost)
	p.r.Soft, p.r.Leases = append(p.r.Soft, soft), append(p.r.Leases, lease)
	note := []byte{0} // that of a lease is empty
	if lease != nil {
		note = nil
	} else if !soft {
		p.hard = append(p.hard, key)
	}
	p.hold.Notes = append(p.hold.Notes, note)
}

// named gives the part its id, and room for the answers.
func (p *part) named(id []byte) {
	n := len(p.r.Keys)
	p.hold.ID, p.hold.TTL = id, across.TTL
	p.r.Decisions, p.r.Blocks = make([]limit.Decision, n), make([]engine.BlockOutcome, n)
	for _, l := range p.r.Leases {
		if l != nil {
			p.hold.List = append([]byte(listPrefix), id...)
		}
	}
}

// answer is what a group has answered to a call.
type answer struct {
	across.Answer
	blocks []engine.BlockOutcome
	at     int   // the limit of the part that an error is about; -1: none
	sum    int64 // how many leases were given back
}

// carriesOut has the engine of the part's group carry out a call. The answer has what is in the part.
func (p *part) carriesOut(call across.Call) answer {
	switch {
	case call == across.GiveBack:
		return failed(p.giveBack(), -1)
	case p.each.How != handler.All:
		return p.does()
	case call == across.Look:
		p.r.Peek, p.r.Hold, p.r.Free = true, nil, make([]limit.Decision, len(p.r.Keys))
	default:
		p.r.Peek, p.r.Hold, p.r.Free = false, &p.hold, nil
	}
	at := -1
	err := p.step(p.r.Declares(), func(t *engine.Txn) (err error) {
		clear(p.r.Blocks)
		at, err = t.Together(&p.r)
		return err
	})
	a := failed(err, at)
	if err == nil {
		if a.Rows, a.Free, a.blocks = p.r.Decisions, p.r.Free, p.r.Blocks; at >= 0 {
			a.Outcome, a.Free = across.Denied, nil
		}
	}
	return a
}

// does has the group do its part by itself.
func (p *part) does() answer {
	at, n := -1, int64(0)
	err := p.step(p.r.Declares(), func(t *engine.Txn) (err error) {
		clear(p.r.Blocks)
		at, n, err = p.each.Do(t, &p.r)
		return err
	})
	a := failed(err, at)
	if a.sum = n; err == nil {
		if a.Rows, a.Free, a.blocks = p.r.Decisions, p.r.Free, p.r.Blocks; at >= 0 {
			a.Outcome = across.Denied
		}
	}
	return a
}

// failed returns the answer for an error about a limit, or for none.
func failed(err error, at int) answer {
	a := answer{at: -1}
	switch err {
	case nil:
		a.Outcome = across.Granted
	case engine.ErrClosed:
		a.Outcome = across.Leaderless
	default:
		a.Outcome, a.Err, a.at = across.Failed, err, at
	}
	return a
}

// step does something in the group's engine.
func (p *part) step(keys [][]byte, fn func(t *engine.Txn) error) error {
	return p.g.Engine.Load().UpdateAt(0, p.g.Now(), keys, fn)
}

// giveBack gives back what the part has taken, or has a take that comes later refused.
func (p *part) giveBack() error {
	keys := p.hard
	if p.hold.List != nil {
		keys = p.r.Declares()
	}
	return p.step(keys, func(t *engine.Txn) (err error) {
		if p.hold.List != nil {
			_, err = engine.GiveUpList(t, p.hold.List, p.hold.ID)
		} else {
			_, err = engine.GiveUpAll(t, keys, p.hold.ID, make([]engine.Settlement, len(keys)))
		}
		return err
	})
}
