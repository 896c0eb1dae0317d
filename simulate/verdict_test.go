package simulate

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"limitdb/limit"
)

// replayOf replays requests through limits.
func replayOf(t interface{ Fatal(...any) }, requests []Request, limits ...string) *Result {
	var parsed []limit.Limit
	for _, text := range limits {
		l, err := limit.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, l)
	}
	r, err := NewReplay(parsed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		r.Add(&requests[i])
	}
	return r.Result()
}

// The suggested limit denies nothing to 99 % of the callers, and demand finds the same as a slow count over
// all windows.
func TestSuggestedLimitDeniesFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var requests []Request
		now := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			now += rapid.Int64Range(0, 20*second).Draw(t, "gap")
			requests = append(requests, Request{
				Time: now, Key: fmt.Append(nil, rapid.IntRange(0, 5).Draw(t, "caller")), Cost: rapid.Int64Range(0, 3).Draw(t, "cost"),
			})
		}
		d := replayOf(t, requests, "gcra 1/m").Demand
		most := uint64(0)
		for i := range requests {
			sum := uint64(0)
			for j := 0; j <= i; j++ {
				if string(requests[j].Key) == string(requests[i].Key) && requests[i].Time-requests[j].Time < 60*second {
					sum += uint64(requests[j].Cost)
				}
			}
			most = max(most, sum)
		}
		if d.Most != most || d.Median > d.P99 || d.P99 > d.Most {
			t.Fatalf("%+v, want at most %d", d, most)
		}
		if most == 0 {
			return
		}
		o := replayOf(t, requests, d.Suggested).Limits[0]
		if 100*o.Callers > uint64(6) { // 1 % of at most 6 callers is none
			t.Fatalf("%s denies %d callers", d.Suggested, o.Callers)
		}
	})
}

func TestVerdicts(t *testing.T) {
	var requests []Request
	for i := range int64(30) {
		requests = append(requests, Request{Time: i * second, Key: fmt.Append(nil, "caller", i%3), Cost: 1})
	}
	for i := range int64(20) {
		requests = append(requests, Request{Time: 30 * second, Key: fmt.Append(nil, "busy", i%5), Cost: 1})
	}
	for _, test := range []struct {
		limits, want string
	}{
		{"gcra 100/m", "GCRA 100/m would touch nobody.\n"},
		{"gcra 9/m|token 9/m|leaky 9/m", "GCRA, TOKEN, LEAKY 9/m would touch nobody.\n"},
		{"log 9/m", "LOG 9/m would touch 3 of 8 callers: caller0 (1 of 10 denied), caller1 (1 of 10 denied) and caller2 (1 of 10 denied).\n"},
		{"log 3/m", "LOG 3/m would touch 8 of 8 callers: caller0 (7 of 10 denied), caller1 (7 of 10 denied), caller2 (7 of 10 denied) and 5 more.\n"},
		{"queue 1000/m", "QUEUE 1000/m would touch nobody. It would delay 15 requests, by 180 ms at most.\n"},
		{"log 100/m|log 101/m|log 102/m|log 103/m|log 104/m|log 105/m", "LOG 103/m would touch nobody.\nThe lists of --html and --json show whom the other 2 limits would touch.\n"},
		{"gcra 5/m", "In any 1 min, half of the callers ask for at most 4, 99 % for at most 10, and the busiest, caller0, for 10. Suggested: GCRA 10/m, which would deny nothing to 99 % of the callers.\n"},
	} {
		var b bytes.Buffer
		if err := replayOf(t, requests, strings.Split(test.limits, "|")...).WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), test.want) {
			t.Errorf("%s: no %q in\n%s", test.limits, test.want, b.String())
		}
	}
}

// Limits whose outcomes differ have separate rows.
func TestMergedKeepsWhatDiffers(t *testing.T) {
	requests := []Request{{Time: 0, Key: []byte("a"), Cost: 3}, {Time: 1, Key: []byte("a"), Cost: 3}}
	r := replayOf(t, requests, "gcra 4/m", "token 4/m", "gcra 4/m burst 3", "fixed 4/m", "log 6/m").merged()
	var names []string
	for _, o := range r.Limits {
		names = append(names, o.Limit)
	}
	if got := strings.Join(names, "|"); got != "GCRA, TOKEN 4/m|GCRA 4/m BURST 3|FIXED 4/m|LOG 6/m" || len(r.Timeline.Denied) != 4 {
		t.Errorf("%s, %d rows over time", got, len(r.Timeline.Denied))
	}
}
