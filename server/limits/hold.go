package limits

import (
	"limitdb/engine"
	"limitdb/hold"
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/request"
	"limitdb/server/spec"
)

// holdRows are the commands of holds: an estimate is taken now, and settled once the cost is known.
func holdRows() []row {
	const user = "tokens:acme"
	id, whenOver := heldWords()[0], heldWords()[1]
	return []row{
		decides("RL.HOLD", user+" FIXED 100000/d COST 4000 TTL 1m ID request-1", -8, spec.Write|spec.Blocking|spec.Quorum,
			"Takes an estimate, to be settled by RL.COMMIT or RL.CANCEL.", request.PlanHold,
			request.Words(request.CostWord(), spec.Argument{Name: "ttl", Kind: "string", Token: "TTL"}, id, whenOver, request.WaitWord())...),
		decides("RL.COMMIT", user+" ID request-1 COST 2950", -4, spec.Write|spec.Quorum,
			"Settles a hold: gives back what was too much, or takes what was too little.", request.PlanCommit, id, request.CostWord()),
		decides("RL.CANCEL", user+" ID request-1", 4, spec.Write|spec.Quorum, "Gives a hold back; returns how much.", request.PlanCancel, id),
		onKey("RL.HOLDS", user, -2, spec.Readonly|spec.Decides, "O(n) for n ids of the key", "Lists what is known of the ids of a key.", holds,
			spec.Argument{Name: "count", Kind: "integer", Token: "COUNT", Optional: true}),
	}
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
