package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"limitdb/limit"
)

// policy describes, in a response, a limit that applies.
type policy struct {
	name             string
	quota            int64
	window           int64 // seconds, rounded up; 0 for none
	remaining, reset int64 // reset is in ms
}

// mostInteger is the largest integer of Structured Fields (RFC 9651).
const mostInteger = 999_999_999_999_999

// decimal writes an integer that is 0 or more.
func decimal(n int64) string { return strconv.FormatInt(min(n, mostInteger), 10) }

// window returns the time, in ms, in which no more than what is left can be used: until the limit grants, if it denies,
// so that Retry-After is not earlier, and else until all of it is available again.
func (d *Decision) window() int64 {
	if d.Limited && d.Wait >= 0 {
		return d.Wait
	}
	return d.Reset
}

// policyOf returns the policy of a limit that has decided.
func policyOf(name string, l *limit.Limit, d *Decision) policy {
	return policy{name: name, quota: l.Max, window: seconds(limit.Milliseconds(l.Period)), remaining: d.Remaining, reset: d.window()}
}

// seconds rounds a time in milliseconds up to seconds.
func seconds(ms int64) int64 {
	if ms <= 0 {
		return 0
	}
	return (ms-1)/1000 + 1
}

// setHeaders writes the header fields of draft-ietf-httpapi-ratelimit-headers-11, and Retry-After if the
// request is denied and can be granted later. With x it writes the older X-RateLimit fields as well.
func setHeaders(h http.Header, all []policy, d *Decision, x bool) {
	var policies, states []string
	for _, p := range all {
		name := sfString(p.name)
		text := name + ";q=" + decimal(p.quota)
		if p.window > 0 {
			text += ";w=" + decimal(p.window)
		}
		policies = append(policies, text)
		states = append(states, name+";r="+decimal(p.remaining)+";t="+decimal(seconds(p.reset)))
	}
	if len(all) > 0 {
		h.Set("RateLimit-Policy", strings.Join(policies, ", "))
		h.Set("RateLimit", strings.Join(states, ", "))
	}
	if d.Limited && d.Wait >= 0 {
		h.Set("Retry-After", strconv.FormatInt(max(1, seconds(d.Wait)), 10))
	}
	if x && d.Limit >= 0 {
		h.Set("X-RateLimit-Limit", strconv.FormatInt(d.Limit, 10))
		h.Set("X-RateLimit-Remaining", strconv.FormatInt(d.Remaining, 10))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(seconds(d.Reset), 10))
	}
}

// sfString returns a string of Structured Fields (RFC 9651), which has printable ASCII only.
func sfString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			b.WriteByte('?')
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
