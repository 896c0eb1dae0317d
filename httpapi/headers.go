package httpapi

import (
	"net/http"
	"strconv"

	"limitdb/internal/quotaheaders"
	"limitdb/limit"
)

// policy describes, in a response, a limit that applies.
type policy = quotaheaders.Policy

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
	return policy{Name: name, Quota: l.Max, Window: seconds(limit.Milliseconds(l.Period)), Remaining: d.Remaining, Reset: seconds(d.window())}
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
	quotaheaders.Draft11(all, h.Set)
	if d.Limited && d.Wait >= 0 {
		h.Set("Retry-After", strconv.FormatInt(max(1, seconds(d.Wait)), 10))
	}
	if x && d.Limit >= 0 {
		h.Set("X-RateLimit-Limit", strconv.FormatInt(d.Limit, 10))
		h.Set("X-RateLimit-Remaining", strconv.FormatInt(d.Remaining, 10))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(seconds(d.Reset), 10))
	}
}
