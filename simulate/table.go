package simulate

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteTable writes the result as a table for people.
func (r *Result) WriteTable(w io.Writer) error {
	r = r.merged()
	var b strings.Builder
	b.WriteString(r.summary())
	b.WriteString("\n\n")
	writeColumns(&b, r.rows())
	for _, o := range r.Limits {
		if o.Errors > 0 {
			fmt.Fprintf(&b, "\n%s could not decide %s, the first because: %s\n", o.Limit, plural(o.Errors, "request"), o.Error)
		}
	}
	b.WriteByte('\n')
	for _, text := range append(r.verdicts("The lists of --html and --json"), r.advice()) {
		if text != "" {
			b.WriteString(text + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// summary describes the trace in one or two lines.
func (r *Result) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s", plural(r.Requests, "request"), plural(uint64(r.Callers), "caller"))
	if r.Requests > 0 {
		fmt.Fprintf(&b, " in %s, from %s", duration(less(r.Last.UnixNano(), r.First.UnixNano())), r.First.Format(time.RFC3339))
	}
	if !r.plain {
		fmt.Fprintf(&b, ", cost %s", thousands(r.Cost))
	}
	if r.Anonymous > 0 {
		fmt.Fprintf(&b, "\n%s without a caller left out", plural(uint64(r.Anonymous), "request"))
	}
	if r.Bad > 0 {
		fmt.Fprintf(&b, "\n%s of %s left out", plural(uint64(r.Bad), "bad line"), thousands(uint64(r.Lines)))
	}
	if r.Late > 0 {
		fmt.Fprintf(&b, "\n%s out of order, by up to %s, moved to the time before them", plural(r.Late, "line"), duration(r.LateBy))
	}
	return b.String()
}

// rows returns the table. The first row is its head. Columns that would be empty are left out.
func (r *Result) rows() [][]string {
	var never, delay bool
	for _, o := range r.Limits {
		never = never || o.Never > 0
		delay = delay || o.Delay.Count > 0
	}
	head := []string{"limit", "denied", "", "callers affected", "", "median wait", "worst wait"}
	if never {
		head = append(head, "never")
	}
	if delay {
		head = append(head, "delayed", "median", "worst")
	}
	if !r.plain {
		head = append(head, "denied cost", "")
	}
	holds := len(r.Limits) > 0 && r.Limits[0].Holds != nil
	if holds {
		head = append(head, "held", "returned", "over", "expired")
	}
	head = append(head, "peak", "in any")
	rows := [][]string{head}
	for _, o := range r.Limits {
		row := []string{
			o.Limit, thousands(o.Denied), percent(o.DeniedShare), thousands(o.Callers), percent(o.CallersShare),
			wait(o.Wait.Count, o.Wait.Median), wait(o.Wait.Count, o.Wait.Worst),
		}
		if never {
			row = append(row, thousands(o.Never))
		}
		if delay {
			row = append(row, thousands(o.Delay.Count), wait(o.Delay.Count, o.Delay.Median), wait(o.Delay.Count, o.Delay.Worst))
		}
		if !r.plain {
			row = append(row, thousands(o.DeniedCost), percent(share(o.DeniedCost, r.Cost)))
		}
		if h := o.Holds; holds {
			row = append(row, thousands(h.Estimated), thousands(h.Returned), thousands(h.Over), thousands(h.Expired))
		}
		rows = append(rows, append(row, thousands(o.Peak), duration(o.Window)))
	}
	return rows
}

// writeColumns aligns the first column to the left, and the others to the right.
func writeColumns(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString(cell + pad)
			} else {
				b.WriteString("  " + pad + cell)
			}
		}
		b.WriteByte('\n')
	}
}

// wait prints a duration, or nothing if count is 0.
func wait(count uint64, ns int64) string {
	if count == 0 {
		return "-"
	}
	return duration(ns)
}

// duration prints ns rounded up: to three digits below a minute, and otherwise in two suitable units.
func duration(ns int64) string {
	const minute, hour, day = 60 * second, 3600 * second, 86_400 * second
	if ns >= 100 && ns < minute {
		e, m := digits(ns)
		for ns = m; e > 0; e-- {
			ns *= 10
		}
	}
	switch {
	case ns < second:
		return small(ns)
	case ns < minute:
		return decimals(ns, second) + " s"
	case ns < hour:
		return two(ns, minute, "min", second, "s")
	case ns < day:
		return two(ns, hour, "h", minute, "min")
	}
	return two(ns, day, "d", hour, "h")
}

// small prints a duration below a second.
func small(ns int64) string {
	switch {
	case ns < 1e3:
		return strconv.FormatInt(ns, 10) + " ns"
	case ns < 1e6:
		return decimals(ns, 1e3) + " µs"
	}
	return decimals(ns, 1e6) + " ms"
}

// decimals prints ns, which has three digits, in a unit.
func decimals(ns, unit int64) string {
	places := 2
	for n := ns / unit; n >= 10 && places > 0; n /= 10 {
		places--
	}
	scale := int64(1)
	for range places {
		scale *= 10
	}
	part := unit / scale
	n := ns / part
	s := strconv.FormatInt(n/scale, 10)
	if n %= scale; n > 0 {
		s += "." + strings.TrimRight(fmt.Sprintf("%0*d", places, n), "0")
	}
	return s
}

// two prints ns in two units, rounded up.
func two(ns, big int64, bigName string, part int64, partName string) string {
	n := ns / part
	if n*part < ns {
		n++
	}
	whole, rest := n/(big/part), n%(big/part)
	s := fmt.Sprintf("%d %s", whole, bigName)
	if rest > 0 {
		s += fmt.Sprintf(" %d %s", rest, partName)
	}
	return s
}

// percent prints a share with two digits, and never rounds a positive share to zero.
func percent(share float64) string {
	p := 100 * share
	switch {
	case p == 0:
		return "0 %"
	case p < 0.001:
		return "<0.001 %"
	case p < 0.1:
		return strconv.FormatFloat(p, 'f', 3, 64) + " %"
	case p < 10:
		return strconv.FormatFloat(p, 'f', 2, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + " %"
}

// thousands prints n in groups of three digits.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}
