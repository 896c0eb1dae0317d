package request

import (
	"limitdb/limit"
	"limitdb/resp"
)

// LeaseArgs are the arguments after the key of RL.LEASE. The id is a slice of the arguments.
type LeaseArgs struct {
	limit.Lease
	Wait  int64 // ns, negative if not given
	Given leaseOptions
}

// leaseOptions is a set of RL.LEASE's options.
type leaseOptions uint8

const (
	LeaseID leaseOptions = 1 << iota
	leaseWeight
	LeaseWait
)

func leaseOption(word []byte) (o leaseOptions, name string) {
	switch {
	case resp.EqualFold(word, "ID"):
		return LeaseID, "ID"
	case resp.EqualFold(word, "WEIGHT"):
		return leaseWeight, "WEIGHT"
	case resp.EqualFold(word, "WAIT"):
		return LeaseWait, "WAIT"
	}
	return 0, ""
}

// ParseLease parses the limit, the ttl and the options, which may be in any order. It returns the
// text of the error, or "".
func ParseLease(words [][]byte, a *LeaseArgs) (text string) {
	a.Lease, a.Wait, a.Given = limit.Lease{Weight: 1}, -1, 0
	var ok bool
	if a.Limit, ok = resp.ParseInt(words[0]); !ok || a.Limit < 0 {
		return "ERR " + limit.ErrMax.Error() + ": " + resp.Quote(words[0])
	}
	if a.TTL, text = ParseTTL(words[1]); text != "" {
		return text
	}
	for words = words[2:]; len(words) > 0; words = words[2:] {
		o, name := leaseOption(words[0])
		switch {
		case o == 0:
			return "ERR unknown option " + resp.Quote(words[0]) + " for RL.LEASE"
		case o&a.Given != 0:
			return "ERR syntax error: " + name + " is given twice"
		case len(words) < 2:
			return "ERR syntax error: " + name + " without its value"
		}
		a.Given |= o
		if text = a.set(o, name, words[1]); text != "" {
			return text
		}
	}
	if a.Given&LeaseID == 0 {
		return "ERR syntax error: RL.LEASE needs ID token"
	}
	return ""
}

func (a *LeaseArgs) set(o leaseOptions, name string, word []byte) (text string) {
	switch o {
	case LeaseID:
		a.ID = word
		return CheckLeaseID(word)
	case leaseWeight:
		var ok bool
		if a.Weight, ok = resp.ParseInt(word); !ok || a.Weight < 1 {
			return "ERR " + limit.ErrWeight.Error() + ": " + resp.Quote(word)
		}
	case LeaseWait:
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
