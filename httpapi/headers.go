package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"limitdb/limit"
)

// policy is what a response says of the limit that decided.
type policy struct {
	name   string
	quota  int64
	window int64 // seconds, rounded up; 0 for none
}

// policyOf returns the policy of a limit.
func policyOf(name string, l *limit.Limit) policy {
	return policy{name: name, quota: l.Max, window: seconds(limit.Milliseconds(l.Period))}
}

// seconds rounds a time in milliseconds up to seconds.
func seconds(ms int64) int64 {
	if ms <= 0 {
		return 0
	}
	return (ms-1)/1000 + 1
}

// set writes the header fields of draft-ietf-httpapi-ratelimit-headers-11, and Retry-After if the request is
// denied and can be granted later. With x it writes the older X-RateLimit fields as well.
func (p policy) set(h http.Header, d *Decision, x bool) {
	name := sfString(p.name)
	text := name + ";q=" + strconv.FormatInt(p.quota, 10)
	if p.window > 0 {
		text += ";w=" + strconv.FormatInt(p.window, 10)
	}
	h.Set("RateLimit-Policy", text)
	remaining, reset := strconv.FormatInt(d.Remaining, 10), strconv.FormatInt(seconds(d.Reset), 10)
	h.Set("RateLimit", name+";r="+remaining+";t="+reset)
	if d.Limited && d.Wait >= 0 {
		h.Set("Retry-After", strconv.FormatInt(max(1, seconds(d.Wait)), 10))
	}
	if x {
		h.Set("X-RateLimit-Limit", strconv.FormatInt(d.Limit, 10))
		h.Set("X-RateLimit-Remaining", remaining)
		h.Set("X-RateLimit-Reset", reset)
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
