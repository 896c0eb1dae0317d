package knowntest

import (
	"fmt"
	"strconv"
	"strings"
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
		keys[i] = fmt.Sprint(prefix, i+1)
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
			c.Before = s.state(t, rapid.SampledFrom(keys).Draw(t, "key"), now)
		}
		for _, kind := range s.Args {
			if kind == 'k' { // what the keys begin with
				c.Args = append(c.Args, strings.TrimSuffix(keys[0], "1"))
				continue
			}
			c.Args = append(c.Args, argument(t, kind, now))
		}
	}
	return calls
}

// anything draws what scripts find in keys and arguments, usual or not.
func anything(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "0", "1", "2", "5", "-1", "x", "1.5", "007", "99999999999999999", "116800000.5", "9223372036854775807"}).Draw(t, "text")
}

// count draws a text that is mostly a count.
func count(t *rapid.T) string {
	if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
		return anything(t)
	}
	return fmt.Sprint(rapid.IntRange(0, 8).Draw(t, "count"))
}

// state returns commands that set a key to a random state, mostly one of the script's own.
func (s *Spec) state(t *rapid.T, key string, now time.Time) [][]string {
	holds := s.holds
	if rapid.IntRange(0, 5).Draw(t, "other") == 0 {
		holds = kind(rapid.IntRange(0, int(sliding)).Draw(t, "kind"))
	}
	age := func() time.Time {
		return now.Add(-time.Duration(rapid.IntRange(0, 5000).Draw(t, "age")) * time.Millisecond)
	}
	remove := []string{"DEL", key}
	switch {
	case rapid.IntRange(0, 7).Draw(t, "none") == 0:
		return [][]string{remove}
	case rapid.IntRange(0, 15).Draw(t, "limit") == 0: // Redis has no such command
		return [][]string{remove, {"RL.TAKE", key, "GCRA", "5/m"}}
	case holds == times:
		push := []string{"RPUSH", key}
		for range rapid.IntRange(1, 8).Draw(t, "times") {
			push = append(push, seconds(age()))
		}
		return [][]string{remove, push}
	case holds == window:
		start := age().Unix()
		return [][]string{remove, {"HSET", key, "start", fmt.Sprint(start), "end", fmt.Sprint(start + 4), "count", count(t)}}
	case holds == sliding:
		return [][]string{remove, {"HSET", key, "window_start", fmt.Sprint(age().Unix()), "current", count(t), "previous", count(t)}}
	case holds == tokens:
		return [][]string{remove, {"HSET", key, "refilledAt", fmt.Sprint(age().UnixMilli()), "tokens", count(t)}}
	case rapid.IntRange(0, 3).Draw(t, "lasting") == 0:
		return [][]string{{"SET", key, count(t)}}
	}
	return [][]string{{"SET", key, count(t), "PX", fmt.Sprint(rapid.IntRange(1, 5000).Draw(t, "ttl"))}}
}

// seconds returns a time in seconds of Unix time, with six digits after the point.
func seconds(at time.Time) string {
	return strconv.FormatFloat(float64(at.UnixMicro())/1e6, 'f', 6, 64)
}

// argument draws an argument of a kind, seldom an unusual one.
func argument(t *rapid.T, kind rune, now time.Time) string {
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		odd := anything(t)
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
	return anything(t)
}
