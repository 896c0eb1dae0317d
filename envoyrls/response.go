package envoyrls

import (
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"limitdb/internal/quotaheaders"
)

// A response is written without its package, which costs 4 ms and 10 MB at the start of every process that has it.

// errReply is the failure for a reply that is no answer to the command.
var errReply = failed(codeInternal, "the reply to RL.ENVOY cannot be read")

// answer is the status of a descriptor.
type answer struct {
	over      bool
	limited   bool   // the next three say by what
	requests  uint32 // for each unit
	unit      byte   // in RateLimit.Unit
	name      []byte
	remaining uint32
	reset     int64 // s; less than 0: there is none
}

// appendResponse appends the response for a reply to the command, with the headers that are asked for.
func appendResponse(out, reply []byte, headers Headers) ([]byte, *failure) {
	if len(reply) > 0 && reply[0] == '-' {
		text, _, _ := strings.Cut(string(reply[1:]), "\r\n")
		return nil, statusOf(text)
	}
	in := replyReader{rest: reply}
	pair, over, n := in.array(), in.int() != 0, in.array()
	var all []answer
	out = appendVarint(out, 1, codeOf(over))
	for range n {
		a := in.answer()
		out = a.append(out)
		if headers != NoHeaders {
			all = append(all, a)
		}
	}
	if in.bad || pair != 2 || len(in.rest) > 0 {
		return nil, errReply
	}
	headers.of(over, all, func(name, value string) {
		out = protowire.AppendTag(out, 3, protowire.BytesType)
		out = protowire.AppendVarint(out, uint64(2+protowire.SizeBytes(len(name))+protowire.SizeBytes(len(value))))
		out = appendString(appendString(out, 1, name), 2, value)
	})
	return out, nil
}

func appendVarint(b []byte, num protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), n)
}

func appendString(b []byte, num protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), text)
}

// codeOf returns OK or OVER_LIMIT of RateLimitResponse.Code.
func codeOf(over bool) uint64 {
	if over {
		return 2
	}
	return 1
}

// answer reads the answer for a descriptor.
func (r *replyReader) answer() (a answer) {
	if r.array() != 6 {
		r.fail()
	}
	a.over = r.int() != 0
	requests, unit, name := r.int(), r.text(), r.text()
	if requests >= 0 {
		a.limited, a.requests, a.unit, a.name = true, upTo32(requests), unitOf(unit), name
	}
	a.remaining, a.reset = upTo32(r.int()), r.int()
	return a
}

// append appends the answer as a field of the response.
func (a *answer) append(out []byte) []byte {
	var room, inner [96]byte
	b := appendVarint(room[:0], 1, codeOf(a.over))
	if a.limited {
		limit := inner[:0]
		if a.requests > 0 {
			limit = appendVarint(limit, 1, uint64(a.requests))
		}
		if a.unit > 0 {
			limit = appendVarint(limit, 2, uint64(a.unit))
		}
		if len(a.name) > 0 {
			limit = protowire.AppendBytes(protowire.AppendTag(limit, 3, protowire.BytesType), a.name)
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), limit)
	}
	if a.remaining > 0 {
		b = appendVarint(b, 3, uint64(a.remaining))
	}
	if a.reset >= 0 {
		reset := inner[:0] // the limit is written
		if a.reset > 0 {
			reset = appendVarint(reset, 1, uint64(a.reset))
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, 4, protowire.BytesType), reset)
	}
	return protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), b)
}

// upTo32 returns n, or the largest number of the field.
func upTo32(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// unitOf returns the number of a unit in RateLimit.Unit, 0 if it has none.
func unitOf(name []byte) byte {
	for i, u := range responseUnits {
		if u.name == string(name) {
			return byte(i)
		}
	}
	return 0
}

// responseUnits are the units of limits with their lengths in seconds, by their numbers in RateLimit.Unit.
var responseUnits = [...]struct {
	name    string
	seconds int64
}{{"UNKNOWN", 0}, {"SECOND", 1}, {"MINUTE", 60}, {"HOUR", 3600}, {"DAY", 86400}, {"MONTH", 30 * 86400}, {"YEAR", 365 * 86400}, {"WEEK", 7 * 86400}}

// statusOf returns the failure for an error reply. Where nothing could be decided it is UNAVAILABLE, so that Envoy's failure_mode_deny
// decides.
func statusOf(text string) *failure {
	word, message, _ := strings.Cut(text, " ")
	as := codeNotNow
	switch {
	case word == "NOAUTH", word == "WRONGPASS":
		as = codeUnknown
	case word == "NOPERM":
		as = codeDenied
	case word == "WRONGTYPE":
		as = codeState
	case word == "ERR" && strings.HasPrefix(message, "internal error"):
		as = codeInternal
	case word == "ERR" && !strings.Contains(message, "shutting down"):
		as = codeArgument
	}
	return failed(as, text)
}

// Headers says which fields a response asks Envoy to add to what the caller gets.
type Headers uint8

// The values of Headers.
const (
	NoHeaders Headers = iota
	Draft3            // RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset
	Draft11           // RateLimit-Policy and RateLimit
)

// of calls add for the header fields of a response: of draft 3, those of the limit that decides, and of draft 11, those of all.
func (h Headers) of(over bool, answers []answer, add func(name, value string)) {
	var all []quotaheaders.Policy
	least := -1
	for _, a := range answers {
		if !a.limited {
			continue
		}
		p := quotaheaders.Policy{
			Name: string(a.name), Quota: int64(a.requests), Window: responseUnits[a.unit].seconds, Remaining: int64(a.remaining), Reset: max(0, a.reset),
		}
		if p.Name == "" {
			p.Name = "default"
		}
		all = append(all, p)
		if least < 0 || a.over || !over && p.Remaining < all[least].Remaining {
			least = len(all) - 1
		}
	}
	switch {
	case least < 0:
	case h == Draft3:
		quotaheaders.Draft3(all[least], add)
	case h == Draft11:
		quotaheaders.Draft11(all, add)
	}
}
