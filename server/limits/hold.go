package limits

import (
	"bytes"

	"limitdb/engine"
	"limitdb/hold"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/denials"
	"limitdb/server/handler"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// holdRows are the commands of holds: an estimate is taken now, and settled once the cost is known.
func holdRows() []row {
	const user = "tokens:acme"
	id, whenOver := heldWords()[0], heldWords()[1]
	held := onKey("RL.HOLD", user+" FIXED 100000/d COST 4000 TTL 1m ID request-1", -8, spec.Write|spec.Blocking|spec.Quorum|spec.Decides, "O(1)",
		"Takes an estimate, to be settled by RL.COMMIT or RL.CANCEL.", holdKey,
		request.Words(request.CostWord(), spec.Argument{Name: "ttl", Kind: "string", Token: "TTL"}, id, whenOver, request.WaitWord())...)
	held.Prepare = prepareHold
	return []row{
		held,
		onKey("RL.COMMIT", user+" ID request-1 COST 2950", -4, spec.Write|spec.Quorum|spec.Decides, "O(1)",
			"Settles a hold: gives back what was too much, or takes what was too little.", commit, id, request.CostWord()),
		onKey("RL.CANCEL", user+" ID request-1", 4, spec.Write|spec.Quorum|spec.Decides, "O(1)", "Gives a hold back; returns how much.", cancel, id),
		onKey("RL.HOLDS", user, -2, spec.Readonly|spec.Decides, "O(n) for n ids of the key", "Lists what is known of the ids of a key.", holds,
			spec.Argument{Name: "count", Kind: "integer", Token: "COUNT", Optional: true}),
	}
}

// held is a parsed RL.HOLD.
type held struct {
	request.HoldArgs
	key [1][]byte
	d   limit.Decision
}

func prepareHold(c *call) (handler.Prepared, string) {
	h := &held{key: [1][]byte{c.Args[1]}}
	if text := request.ParseHold(&c.Zones, c.Args[2:], int64(c.Settings.HoldMaxTTL.Get()), &h.HoldArgs); text != "" {
		return nil, text
	}
	return h, ""
}

// Keys implements handler.Prepared.
func (h *held) Keys() [][]byte { return h.key[:] }

// Keep implements handler.Prepared. The engine copies the key of a request that waits, and reads the id again when it is granted.
func (h *held) Keep() handler.Prepared {
	h.ID = bytes.Clone(h.ID)
	return h
}

// Free implements handler.Prepared.
func (h *held) Free() {}

// Waits implements handler.Prepared.
func (h *held) Waits() int64 {
	if h.Given&request.OwnWait == 0 {
		return -1
	}
	return h.MaxWait
}

// Ask implements handler.Asks.
func (h *held) Ask() (key []byte, w *engine.Waiter) {
	return h.key[0], &engine.Waiter{Request: h.request()}
}

func (h *held) request() engine.Request {
	return engine.Request{Limit: h.Limit, Cost: h.Cost, Hold: &h.Hold}
}

// Size implements handler.Asks.
func (h *held) Size() int64 { return 0 }

// Told implements handler.Asks.
func (h *held) Told(c *call, key []byte, w *engine.Waiter) {
	d, _, err := w.Result()
	h.tell(c, c.Keyspace(), key, &d, err)
}

func holdKey(c *call, t *txn) {
	h := c.Prepared.(*held)
	var d limit.Decision
	r := h.request()
	_, err := t.Take(h.key[0], &r, &d)
	if err = t.Note(err); t.Err == nil {
		h.tell(c, t, h.key[0], &d, err)
	}
}

// tell replies with the decision on the key, or with the error.
func (h *held) tell(c *call, keys handler.Keyspace, key []byte, d *limit.Decision, err error) {
	if !failed(c, keys, err, key, h.Limit.Algorithm.Kind()) {
		h.key[0], h.d = key, *d // which may be a copy that the engine has made
		note(c, key, d, h)
		Millis(c, d)
	}
}

// Happen implements handler.Effect.
func (h *held) Happen(c *call) { tell(c, h.key[0], &h.Limit, h.Cost, denials.UsedUp, &h.d) }

// settled runs settle on the hold of an id, and replies with what tell says of it.
func settled(c *call, t *txn, id []byte, cancels bool, settle func(s *engine.Settlement) error, tell func(s *engine.Settlement)) {
	text := request.CheckHoldID(id)
	if text != "" {
		c.Fail(text)
		return
	}
	var s engine.Settlement
	if err := t.Note(settle(&s)); t.Err == nil && !failed(c, t, err, c.Args[1], s.Limit.Algorithm.Kind()) {
		NoteSettled(c, c.Args[1], id, cancels, "", &s)
		tell(&s)
	}
}

func commit(c *call, t *txn) {
	var id []byte
	a := request.Args{Cost: -1}
	text := request.Options(c.Args[2:], "RL.COMMIT", func(name string, word []byte) string {
		if name == "COST" {
			return a.SetCost(word)
		}
		id = word
		return ""
	}, "ID", "COST")
	if text == "" && id == nil {
		text = "ERR syntax error: RL.COMMIT needs ID id"
	}
	if text != "" {
		c.Fail(text)
		return
	}
	settled(c, t, id, false, func(s *engine.Settlement) error { return engine.Settle(t.Txn, c.Args[1], id, a.Cost, s) }, func(s *engine.Settlement) {
		c.Array(5)
		FiveSettled(c, s)
	})
}

func cancel(c *call, t *txn) {
	if !resp.EqualFold(c.Args[2], "ID") {
		c.Fail("ERR syntax error: ID id is expected, not " + resp.Quote(c.Args[2]))
		return
	}
	settled(c, t, c.Args[3], true, func(s *engine.Settlement) error { return engine.GiveUp(t.Txn, c.Args[1], c.Args[3], s) }, func(s *engine.Settlement) {
		c.Int(max(0, -s.Charged))
	})
}

// statusNames are the names of what has become of a hold whose time is not over; "over" is one that was kept.
func statusName(s hold.Status, live bool) string {
	switch {
	case s == hold.Kept && !live:
		return "over"
	case s == hold.Returned:
		return "returned"
	case s == hold.Committed:
		return "committed"
	case s == hold.Cancelled:
		return "cancelled"
	case s == hold.Once:
		return "once"
	}
	return "held"
}

// holdWork is how many holds take the time of one decision.
const holdWork = 16

// holds lists what is known of the ids of a key: each with what has become of it, the amount that is taken or was
// charged at last, and the time until it is over or forgotten.
func holds(c *call, t *txn) {
	most := int64(1000)
	text := request.Options(c.Args[2:], "RL.HOLDS", func(_ string, word []byte) string {
		var ok bool
		if most, ok = resp.ParseInt(word); !ok || most < 1 {
			return "ERR COUNT must be a positive integer: " + resp.Quote(word)
		}
		return ""
	}, "COUNT")
	if text != "" {
		c.Fail(text)
		return
	}
	var found []byte
	n := int64(0)
	err := engine.Holds(t.Txn, c.Args[1], func(h *engine.Held) bool {
		if n == most {
			return false
		}
		n++
		live, left := h.Live(t.Now()), h.Forgotten()
		amount := h.Amount
		if h.Settled() {
			amount = h.Back
		}
		if live {
			left = h.Until
		}
		found = resp.AppendArray(found, 5)
		found = resp.AppendBulk(found, h.ID)
		found = resp.AppendBulkString(found, statusName(h.Status, live))
		found = resp.AppendInt(found, amount)
		found = resp.AppendInt(found, limit.Milliseconds(left-t.Now()))
		var text []byte
		if h.Limit.Algorithm != 0 {
			text, _ = h.Limit.AppendText(nil)
		}
		found = resp.AppendBulk(found, text)
		return true
	})
	c.Worked(n / holdWork)
	if err = t.Note(err); t.Err == nil && !failed(c, t, err, c.Args[1], 0) {
		c.Array(int(n))
		c.Out = append(c.Out, found...)
	}
}
