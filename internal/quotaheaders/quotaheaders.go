// Package quotaheaders writes the header fields in which a response describes limits: those of draft-ietf-httpapi-ratelimit-headers.
package quotaheaders

import (
	"strconv"
	"strings"
)

// Policy describes a limit that applies, and what is left of it. Times are in seconds.
type Policy struct {
	Name             string
	Quota            int64
	Window           int64 // 0 for none
	Remaining, Reset int64
}

// mostInteger is the largest integer of Structured Fields (RFC 9651).
const mostInteger = 999_999_999_999_999

// decimal writes an integer that is 0 or more.
func decimal(n int64) string { return strconv.FormatInt(min(n, mostInteger), 10) }

// Draft3 calls add for the fields of draft 3, which have numbers alone: RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset.
func Draft3(p Policy, add func(name, value string)) {
	add("RateLimit-Limit", decimal(p.Quota))
	add("RateLimit-Remaining", decimal(p.Remaining))
	add("RateLimit-Reset", decimal(p.Reset))
}

// Draft11 calls add for the fields of draft 11, RateLimit-Policy and RateLimit. Without policies there are none.
func Draft11(all []Policy, add func(name, value string)) {
	if len(all) == 0 {
		return
	}
	var policies, states []string
	for _, p := range all {
		name := quoted(p.Name)
		text := name + ";q=" + decimal(p.Quota)
		if p.Window > 0 {
			text += ";w=" + decimal(p.Window)
		}
		policies = append(policies, text)
		states = append(states, name+";r="+decimal(p.Remaining)+";t="+decimal(p.Reset))
	}
	add("RateLimit-Policy", strings.Join(policies, ", "))
	add("RateLimit", strings.Join(states, ", "))
}

// quoted returns a string of Structured Fields, which has printable ASCII only.
func quoted(s string) string {
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
