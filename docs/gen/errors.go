package gen

import (
	"fmt"
	"strings"

	"limitdb/limit"
	"limitdb/simulate"
)

// Errors says how far the decisions of an estimate are from those of the exact log.
type Errors struct {
	Limit    limit.Limit
	Requests int
	// Over is how many requests were admitted that LOG denies, and Under the reverse. Each limit goes on from
	// its own decisions.
	Over, Under int
	// Blind is how many were decided differently with COUNTDENIED. All limits then count the same requests,
	// so that only the estimate differs.
	Blind int
	// Excess is by how much the most in any window exceeded the limit.
	Excess int64
}

// Measure replays traffic through estimates, each a limit in text form, and through LOG with the same rate.
// It also returns how many requests LOG denies.
func Measure(traffic Traffic, rate string, estimates []string) (errors []Errors, denied int, err error) {
	var limits []limit.Limit
	for _, text := range append([]string{"LOG " + rate}, estimates...) {
		for _, option := range []string{"", " COUNTDENIED"} {
			l, err := limit.Parse(text + option)
			if err != nil {
				return nil, 0, err
			}
			limits = append(limits, l)
		}
	}
	r, err := simulate.NewReplay(limits)
	if err != nil {
		return nil, 0, err
	}
	errors = make([]Errors, len(estimates))
	for i := range traffic.Requests {
		d := r.Add(&traffic.Requests[i])
		exact, exactBlind := d[0].Limited, d[1].Limited
		if exact {
			denied++
		}
		for n := range errors {
			mine, blind := d[2*n+2].Limited, d[2*n+3].Limited
			switch {
			case mine && !exact:
				errors[n].Under++
			case !mine && exact:
				errors[n].Over++
			}
			if blind != exactBlind {
				errors[n].Blind++
			}
		}
	}
	outcomes := r.Result().Limits
	for n := range errors {
		l := limits[2*n+2]
		errors[n].Limit, errors[n].Requests = l, len(traffic.Requests)
		errors[n].Excess = max(0, int64(outcomes[2*n+2].Peak)-l.Max)
	}
	return errors, denied, nil
}

// The limit of the table of errors.
const errorRate = "100/m"

// estimates returns the algorithms that remember less than LOG. FIXED is included for comparison.
func estimates() []string {
	return []string{
		"SLIDING " + errorRate, "SEGMENTED " + errorRate + " SEGMENTS 6", "SEGMENTED " + errorRate + " SEGMENTS 60",
		"FIXED " + errorRate,
	}
}

// ErrorTable measures all traffic, and returns a table in Markdown followed by a description of each kind of
// traffic.
func ErrorTable() (string, error) {
	var b, notes strings.Builder
	b.WriteString("| traffic | algorithm | decided otherwise | admitted too many | denied too many | worst window | otherwise, COUNTDENIED |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, t := range Traffics() {
		errors, denied, err := Measure(t, errorRate, estimates())
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&notes, "- **%s**: %s. %s requests, of which LOG denies %s.\n",
			t.Name, t.About, grouped(len(t.Requests)), percent(denied, len(t.Requests)))
		for n, e := range errors {
			name := ""
			if n == 0 {
				name = "**" + t.Name + "**"
			}
			algorithm := e.Limit.Algorithm.String()
			if e.Limit.Segments > 0 {
				algorithm += fmt.Sprintf(", %d segments", e.Limit.Segments)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", name, algorithm, percent(e.Over+e.Under, e.Requests),
				percent(e.Over, e.Requests), percent(e.Under, e.Requests), excess(e.Excess, e.Limit.Max), percent(e.Blind, e.Requests))
		}
	}
	return b.String() + "\n" + notes.String(), nil
}

// excess prints how far a window exceeded the limit.
func excess(by, limit int64) string {
	if by == 0 {
		return "as the limit"
	}
	return fmt.Sprintf("+%d %%", (by*100+limit-1)/limit)
}

// percent prints a share with as many decimals as it needs. It uses integers, so that every machine prints
// the same.
func percent(part, whole int) string {
	millis := (part*100_000 + whole/2) / whole // thousandths of a percent
	switch {
	case part == 0:
		return "0"
	case millis == 0:
		return "<0.001 %"
	case millis < 1000:
		return fmt.Sprintf("0.%03d %%", millis)
	}
	tenths := (millis + 50) / 100
	return fmt.Sprintf("%d.%d %%", tenths/10, tenths%10)
}

// grouped prints n in groups of three digits.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s %03d", grouped(n/1000), n%1000)
}
