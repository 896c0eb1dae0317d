package request

import (
	"limitdb/limit"
	"limitdb/resp"
)

// LeaseArgs are the arguments after the key of RL.LEASE. The id is a slice of the arguments.
type LeaseArgs struct {
	limit.Lease
	Wait int64 // ns, negative if not given
}

// ParseLease parses the limit, the ttl and the options, which may be in any order. It returns the
// text of the error, or "".
func ParseLease(words [][]byte, a *LeaseArgs) (text string) {
	a.Lease, a.Wait = limit.Lease{Weight: 1}, -1
	var ok bool
	if a.Limit, ok = resp.ParseInt(words[0]); !ok || a.Limit < 0 {
		return "ERR " + limit.ErrMax.Error() + ": " + resp.Quote(words[0])
	}
	if a.TTL, text = ParseTTL(words[1]); text != "" {
		return text
	}
	if text = Options(words[2:], "RL.LEASE", a.set, "ID", "WEIGHT", "WAIT"); text == "" && a.ID == nil {
		text = "ERR syntax error: RL.LEASE needs ID token"
	}
	return text
}

func (a *LeaseArgs) set(name string, word []byte) (text string) {
	switch name {
	case "ID":
		a.ID = word
		return CheckLeaseID(word)
	case "WEIGHT":
		var ok bool
		if a.Weight, ok = resp.ParseInt(word); !ok || a.Weight < 1 {
			return "ERR " + limit.ErrWeight.Error() + ": " + resp.Quote(word)
		}
	case "WAIT":
		var err error
		if a.Wait, err = limit.ParseTime(word); err != nil {
			return "ERR " + name + ": " + err.Error()
		}
	}
	return ""
}

// ParseTTL parses a positive duration.
func ParseTTL(word []byte) (ns int64, text string) {
	ns, err := limit.ParseTime(word)
	switch {
	case err != nil:
		return 0, "ERR ttl: " + err.Error()
	case ns == 0:
		return 0, "ERR " + limit.ErrTTL.Error() + ": " + resp.Quote(word)
	}
	return ns, ""
}

// CheckLeaseID returns the text of the error if word cannot be the ID of a lease, or "".
func CheckLeaseID(word []byte) (text string) {
	if len(word) < 1 || len(word) > limit.MaxLeaseID {
		return "ERR " + limit.ErrLeaseID.Error() + ": " + resp.Quote(word)
	}
	return ""
}
