package knowntest

import (
	"fmt"
	"strconv"
	"time"

	"pgregory.net/rapid"
)

// Call is a call of a script, and what happens before it.
type Call struct {
	Wait   time.Duration
	Before [][]string // commands
	Args   []string
}

// KeyNames draws the keys of the calls.
func (s *Spec) KeyNames(t *rapid.T, prefix string) []string {
	n := s.Keys
	if n < 0 {
		n = rapid.IntRange(1, 3).Draw(t, "keys")
	}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint(prefix, i)
	}
	return keys
}

// Calls draws some calls on keys, from a time on.
func (s *Spec) Calls(t *rapid.T, keys []string, now time.Time) []Call {
	calls := make([]Call, rapid.IntRange(1, 6).Draw(t, "calls"))
	for i := range calls {
		c := &calls[i]
		c.Wait = time.Duration(rapid.Int64Range(0, 3_000_000).Draw(t, "wait")) * time.Microsecond
		now = now.Add(c.Wait)
		if rapid.IntRange(0, 2).Draw(t, "set") == 0 {
			c.Before = state(t, rapid.SampledFrom(keys).Draw(t, "key"), now)
		}
		for _, kind := range s.Args {
			c.Args = append(c.Args, argument(t, kind, now))
		}
	}
	return calls
}

// text draws what scripts find in keys and arguments, usual or not.
func text(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "0", "1", "2", "5", "-1", "x", "1.5", "007", "99999999999999999", "116800000.5", "9223372036854775807"}).Draw(t, "text")
}

// state returns commands that set a key to a random state.
func state(t *rapid.T, key string, now time.Time) [][]string {
	remove := []string{"DEL", key}
	switch rapid.IntRange(0, 7).Draw(t, "state") {
	case 0:
		return [][]string{remove}
	case 1:
		return [][]string{{"SET", key, text(t)}}
	case 2:
		return [][]string{remove, {"RPUSH", key, text(t)}}
	case 3:
		push := []string{"RPUSH", key}
		for range rapid.IntRange(1, 8).Draw(t, "times") {
			at := now.Add(-time.Duration(rapid.IntRange(0, 5000).Draw(t, "age")) * time.Millisecond)
			push = append(push, seconds(at))
		}
		return [][]string{remove, push}
	case 4:
		start := now.Unix() - rapid.Int64Range(0, 3).Draw(t, "age")
		count := rapid.SampledFrom([]string{"0", "1", "3", "x"}).Draw(t, "count")
		return [][]string{remove, {"HSET", key, "start", fmt.Sprint(start), "end", fmt.Sprint(start + 2), "count", count}}
	case 5:
		at := now.UnixMilli() - rapid.Int64Range(0, 3000).Draw(t, "age")
		return [][]string{remove, {"HSET", key, "refilledAt", fmt.Sprint(at), "tokens", text(t)}}
	}
	return [][]string{{"SET", key, text(t), "PX", fmt.Sprint(rapid.IntRange(1, 5000).Draw(t, "ttl"))}}
}

// seconds returns a time in seconds of Unix time, with six digits after the point.
func seconds(at time.Time) string {
	return strconv.FormatFloat(float64(at.UnixMicro())/1e6, 'f', 6, 64)
}

// argument draws an argument of a kind, seldom an unusual one.
func argument(t *rapid.T, kind rune, now time.Time) string {
	if rapid.IntRange(0, 14).Draw(t, "odd") == 0 {
		odd := text(t)
		if kind == 'a' && len(odd) > 3 {
			return "" // scripts count to an amount
		}
		return odd
	}
	number := func(from, to int64) string { return fmt.Sprint(rapid.Int64Range(from, to).Draw(t, string(kind))) }
	switch kind {
	case 'b': // a flag
		return rapid.SampledFrom([]string{"true", "false", "1", "0"}).Draw(t, "flag")
	case 'm': // ms
		return number(1, 3000)
	case 's': // seconds
		return number(1, 3)
	case 'z': // seconds or a flag
		return number(0, 2)
	case 'p': // a rate
		return number(1, 100)
	case 'c': // a count
		return number(0, 10)
	case 'a': // an amount
		return number(1, 3)
	case 'l': // a limit
		return number(1, 6)
	case 'u': // the time in seconds
		return fmt.Sprint(now.Unix())
	case 'e': // the time in seconds, or the server's
		return rapid.SampledFrom([]string{"", fmt.Sprint(now.Unix())}).Draw(t, "time")
	case 'w': // a time to come
		return fmt.Sprint(now.Unix() + rapid.Int64Range(0, 3).Draw(t, "until"))
	case 'U': // the time in seconds, with a fraction
		return seconds(now)
	case 'W': // the beginning of a window
		return seconds(now.Add(-time.Duration(rapid.IntRange(0, 3000).Draw(t, "window")) * time.Millisecond))
	case 'M': // the time in ms
		return fmt.Sprint(now.UnixMilli())
	}
	return text(t)
}
