package history

import (
	"slices"

	"limitdb/internal/stats"
	"limitdb/resp"
	"limitdb/server/handler"
	"limitdb/server/request"
	"limitdb/server/spec"
)

type (
	call = handler.Call
	row  = handler.Row[call]
)

// Rows returns RL.HISTORY, which shows the last minutes, or the last day.
func (h *History) Rows() []row {
	show := handler.Rows[call]("server", "O(n) for n seconds or minutes", spec.Lead|spec.Loading)(
		"RL.HISTORY", -1, 0, "Returns what the node that decides has decided in each of the last 300 seconds, or the last 1440 minutes, and how long that took.", h.show,
		spec.Argument{Name: "unix-time-milliseconds", Kind: "integer", Token: "SINCE", Optional: true},
		spec.Argument{Name: "unit", Kind: "oneof", Token: "BY", Optional: true, Args: []spec.Argument{spec.Word("SECOND"), spec.Word("MINUTE")}})
	return []row{show}
}

func (h *History) show(c *call) {
	since, byMinute := int64(0), false
	text := request.Options(c.Args[1:], "RL.HISTORY", func(name string, value []byte) string {
		if name == "BY" {
			byMinute = resp.EqualFold(value, "MINUTE")
			if !byMinute && !resp.EqualFold(value, "SECOND") {
				return "ERR BY must be SECOND or MINUTE: " + resp.Quote(value)
			}
			return ""
		}
		n, ok := resp.ParseInt(value)
		if !ok || n < 0 {
			return "ERR SINCE must be a Unix time in milliseconds: " + resp.Quote(value)
		}
		since = n
		return ""
	}, "SINCE", "BY")
	if text != "" {
		c.Fail(text)
		return
	}
	node := ""
	if h.Node != nil {
		node = h.Node()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all, times, last := h.after(since)
	if byMinute {
		all = h.minutes.after(since)
	}
	checks := slices.DeleteFunc(h.checked(), func(of Checks) bool { return c.HiddenNamespace(of.Namespace) })
	c.Fields("node", node, "time", last.at/1e6, "allowed", last.Allowed, "limited", last.Limited, "shadow", last.Shadow,
		"expired", last.Expired, "evicted", last.Evicted,
		"holds_taken", last.HoldsTaken, "holds_settled", last.HoldsSettled, "holds_over", last.HoldsOver, "holds_returned", last.HoldsReturned, "blocks", last.Blocks,
		"maxmemory", last.MaxBytes, "maxclients", last.MaxClients,
		"p50_nsec", times.Spread(0.5), "p99_nsec", times.Spread(0.99),
		"samples", func() { replySeconds(c, all) }, "checks", func() { replyChecks(c, checks) })
}

// replySeconds replies with a list of integers for each second or minute.
func replySeconds(c *call, all []second) {
	c.Array(len(all))
	for i := range all {
		s := &all[i]
		row := [...]int64{
			s.at, s.took, int64(s.allowed), int64(s.limited), int64(s.shadow), s.times.Spread(0.5), s.times.Spread(0.99), s.times.Spread(0.999),
			s.now.Keys, s.now.Bytes, s.now.Clients, s.now.Waiting,
		}
		c.Array(len(row))
		for _, n := range row {
			c.Int(n)
		}
	}
}

// replyChecks replies, for each namespace, with its name, the number of its checks, and their times.
func replyChecks(c *call, all []Checks) {
	c.Array(len(all))
	for i := range all {
		var times *stats.Histogram = &all[i].Times
		c.Array(4)
		c.Text(all[i].Namespace)
		c.Int(int64(times.Count()))
		c.Int(times.Spread(0.5))
		c.Int(times.Spread(0.99))
	}
}
