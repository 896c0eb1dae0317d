package envoyrls

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// A request is read from its bytes straight into the words of the command. Its strings are not copied, and a message of a few megabytes that
// has millions of empty entries takes no more memory than it has bytes.

// The bounds of one request, beside the bytes of the message.
const (
	// maxDescriptors is the most descriptors, as of RL.ENVOY.
	maxDescriptors = 1024
	// maxWords is the most words of the command.
	maxWords = 65536
)

var (
	errDomain      = errors.New("the domain is empty")
	errNone        = errors.New("there is no descriptor")
	errDescriptors = fmt.Errorf("a request has at most %d descriptors", maxDescriptors)
	errWords       = fmt.Errorf("the request has too many entries: the command for it may have %d words", maxWords)
	errBroken      = errors.New("the message is no RateLimitRequest")
)

// field calls do for each field of a message: with the number of a varint, or with the bytes of what has a length. Fields of other types are skipped.
func fields(b []byte, do func(num protowire.Number, n uint64, bytes []byte) error) error {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errBroken
		}
		b = b[n:]
		var value uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(b)
		default:
			if n = protowire.ConsumeFieldValue(num, kind, b); n >= 0 {
				b = b[n:]
				continue
			}
		}
		if n < 0 {
			return errBroken
		}
		b = b[n:]
		if err := do(num, value, bytes); err != nil {
			return err
		}
	}
	return nil
}

// command returns the words of RL.ENVOY for a RateLimitRequest.
func command(message []byte) (words [][]byte, err error) {
	var domain []byte
	hits, n := uint64(1), 0
	err = fields(message, func(num protowire.Number, value uint64, b []byte) error {
		switch {
		case num == 1 && b != nil:
			domain = b
		case num == 2 && b != nil:
			n++
		case num == 3 && b == nil:
			hits = max(1, uint64(uint32(value)))
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(domain) == 0:
		return nil, errDomain
	case n == 0:
		return nil, errNone
	case n > maxDescriptors:
		return nil, errDescriptors
	}
	words = make([][]byte, 0, 4+4*n)
	words = append(words, []byte("RL.ENVOY"), domain, decimal(uint64(n)))
	err = fields(message, func(num protowire.Number, _ uint64, b []byte) error {
		if num == 2 && b != nil {
			words, err = appendDescriptor(words, b, hits)
		}
		return err
	})
	return words, err
}

func decimal(n uint64) []byte { return strconv.AppendUint(nil, n, 10) }

// appendDescriptor appends the words of a descriptor. hits are those of one that has none of its own.
func appendDescriptor(words [][]byte, message []byte, hits uint64) ([][]byte, error) {
	at, refund := len(words), false
	var own, count []byte // the limit and the hits; what comes in parts is the parts together
	owns, counts := false, false
	words = append(words, nil)
	err := fields(message, func(num protowire.Number, value uint64, b []byte) (err error) {
		switch {
		case num == 1 && b != nil:
			words, err = appendEntry(words, b)
		case num == 2 && b != nil:
			own, owns = append(own, b...), true
		case num == 3 && b != nil:
			count, counts = append(count, b...), true
		case num == 4 && b == nil:
			refund = value != 0
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if counts {
		if hits, err = wrapped(count); err != nil {
			return nil, err
		}
	}
	words[at] = decimal(uint64(len(words)-at-1) / 2)
	if hits != 1 {
		words = append(words, []byte("HITS"), decimal(min(hits, math.MaxInt64)))
	}
	if refund {
		words = append(words, []byte("REFUND"))
	}
	if owns {
		if words, err = appendLimit(words, own); err != nil {
			return nil, err
		}
	}
	if len(words) > maxWords {
		return nil, errWords
	}
	return words, nil
}

// appendEntry appends the key and the value of an entry.
func appendEntry(words [][]byte, message []byte) ([][]byte, error) {
	if len(words) > maxWords {
		return nil, errWords
	}
	var pair [2][]byte
	err := fields(message, func(num protowire.Number, _ uint64, b []byte) error {
		if (num == 1 || num == 2) && b != nil {
			pair[num-1] = b
		}
		return nil
	})
	return append(words, pair[:]...), err
}

// wrapped returns the number in a message that wraps it.
func wrapped(message []byte) (n uint64, err error) {
	err = fields(message, func(num protowire.Number, value uint64, b []byte) error {
		if num == 1 && b == nil {
			n = value
		}
		return nil
	})
	return n, err
}

// units are the units of limits, by their numbers in RateLimitUnit.
var units = [...]string{"UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR"}

// appendLimit appends the limit that a descriptor brings.
func appendLimit(words [][]byte, message []byte) ([][]byte, error) {
	requests, unit, times := uint64(0), uint32(0), uint64(1)
	var multiplier []byte
	multiplies := false
	err := fields(message, func(num protowire.Number, value uint64, b []byte) error {
		switch {
		case num == 1 && b == nil:
			requests = uint64(uint32(value))
		case num == 2 && b == nil:
			unit = uint32(value)
		case num == 3 && b != nil:
			multiplier, multiplies = append(multiplier, b...), true
		}
		return nil
	})
	if err == nil && multiplies {
		times, err = wrapped(multiplier)
	}
	switch {
	case err != nil:
		return nil, err
	case int64(unit) >= int64(len(units)) || unit == 0:
		return nil, errors.New("the limit of a descriptor needs a unit")
	case uint32(times) != 1:
		return nil, errors.New("the limit of a descriptor cannot have a unit_multiplier")
	}
	return append(words, []byte("LIMIT"), decimal(requests), []byte(units[unit])), nil
}
