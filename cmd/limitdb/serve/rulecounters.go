package serve

import (
	"encoding/json"
	"time"

	"limitdb/internal/stats"
	"limitdb/rules"
)

// The counters of the rules are kept with the data, so that they survive a restart, and a new leader continues them. It
// is kept now and then, not with each decision, so a kill loses the counts since the last time.

// countersEvery is how often the counters are kept.
const countersEvery = time.Minute

// keepCounters keeps the counters as JSON, if they are not too many.
func (p *process) keepCounters() {
	totals := p.server.Rules().Totals()
	if len(totals) == 0 && p.kept.counters() == nil {
		return
	}
	text, err := json.Marshal(totals)
	if err != nil || len(text) > rules.MaxText {
		p.log.Warn("the counters of the rules were not stored", "bytes", len(text), "err", err)
		return
	}
	p.kept.keepCounters(text)
}

// countersLoaded makes the rules in force continue the counters that were kept.
func (p *process) countersLoaded() {
	text := p.kept.counters()
	if text == nil {
		return
	}
	var totals map[string]stats.RuleTotals
	if err := json.Unmarshal(text, &totals); err != nil {
		p.log.Error("the counters of the rules that were kept with the data are damaged", "err", err)
		return
	}
	p.server.Rules().Continue(totals)
}
