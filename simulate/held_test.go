package simulate

import (
	"strings"
	"testing"

	"limitdb/limit"
)

// replayHeld replays a CSV with the columns time, key, cost, used and took, with holds of 10 s.
func replayHeld(t *testing.T, trace string, limits ...string) *Result {
	t.Helper()
	return replayHolding(t, HoldOptions{TTL: 10 * second}, trace, limits...)
}

func replayHolding(t *testing.T, o HoldOptions, trace string, limits ...string) *Result {
	t.Helper()
	var all []limit.Limit
	for _, text := range limits {
		l, err := limit.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	r, err := NewReplay(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Hold(o); err != nil {
		t.Fatal(err)
	}
	lines, err := NewTrace(strings.NewReader(trace), TraceOptions{Actual: "4", Took: "5"})
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(lines, r, RunOptions{Strict: true}); err != nil {
		t.Fatal(err)
	}
	r.Settle()
	return r.Result()
}

// What is given back is there for others from the time on at which the cost was known, and not before.
func TestEstimatesAreSettledInTime(t *testing.T) {
	for _, test := range []struct {
		name, trace string
		denied      uint64
		want        Holds
	}{
		{"before", "0,a,8,2,2s\n1,a,3,3,1s\n", 1, Holds{1, 8, 6, 0, 0}},
		{"at that time", "0,a,8,2,2s\n2,a,8,8,1s\n", 0, Holds{2, 16, 6, 0, 0}},
		{"the second first", "0,a,4,4,9s\n1,a,6,1,1s\n2,a,5,5,0\n", 0, Holds{3, 15, 5, 0, 0}},
		{"over", "0,a,8,15,1s\n2,a,1,1,0\n", 1, Holds{1, 8, 0, 5, 0}},
		{"late", "0,a,8,2,10s\n11,a,8,8,0\n", 0, Holds{2, 16, 6, 0, 1}},
		{"forgotten", "0,a,8,2,20s\n21,a,8,8,0\n", 1, Holds{1, 8, 0, 0, 1}},
		{"never known", "0,a,8,-,\n21,a,8,,\n", 1, Holds{1, 8, 0, 0, 1}},
		{"after the last", "0,a,8,2,2s\n", 0, Holds{1, 8, 6, 0, 0}},
		{"after its window", "0,a,8,2,9s\n3600,b,1,1,0\n", 0, Holds{2, 9, 6, 0, 0}},
		{"another caller", "0,a,8,2,2s\n2,b,8,8,2s\n", 0, Holds{2, 16, 6, 0, 0}},
	} {
		o := replayHeld(t, test.trace, "fixed 10/h first").Limits[0]
		if o.Denied != test.denied || *o.Holds != test.want || o.Errors != 0 {
			t.Errorf("%s: %d denied, %+v, want %d, %+v; %s", test.name, o.Denied, *o.Holds, test.denied, test.want, o.Error)
		}
	}
}

// Estimates that go back when their time is over go back then, before anything else is decided.
func TestEstimatesGoBack(t *testing.T) {
	for _, test := range []struct {
		name, limit, trace string
		denied             uint64
		want               Holds
	}{
		{"before its time is over", "fixed 10/h first", "0,a,8,-,\n9,a,3,3,1s\n", 1, Holds{1, 8, 8, 0, 1}},
		{"never known", "fixed 10/h first", "0,a,8,-,\n10,a,8,8,1s\n", 0, Holds{2, 16, 8, 0, 1}},
		{"known in time", "fixed 10/h first", "0,a,8,2,2s\n10,a,9,9,1s\n", 1, Holds{1, 8, 6, 0, 0}},
		{"late", "fixed 10/h first", "0,a,8,2,12s\n11,a,8,8,0\n", 0, Holds{2, 16, 8, 0, 1}},
		{"late and over", "fixed 10/h first", "0,a,8,5,12s\n11,a,8,8,0\n", 0, Holds{2, 16, 8, 3, 1}},
		{"forgotten", "fixed 10/h first", "0,a,8,2,20s\n21,a,9,9,0\n", 0, Holds{2, 17, 8, 0, 1}},
		{"after its window", "fixed 10/5s first", "0,a,8,-,\n10,a,8,8,1s\n", 0, Holds{2, 16, 0, 0, 1}},
		{"while blocked", "fixed 10/h first block 15s", "0,a,8,-,\n5,a,3,-,\n12,a,1,1,0\n20,a,10,10,0\n", 2, Holds{2, 18, 8, 0, 1}},
	} {
		o := replayHolding(t, HoldOptions{TTL: 10 * second, Returns: true}, test.trace, test.limit).Limits[0]
		if o.Denied != test.denied || *o.Holds != test.want || o.Errors != 0 {
			t.Errorf("%s: %d denied, %+v, want %d, %+v; %s", test.name, o.Denied, *o.Holds, test.denied, test.want, o.Error)
		}
	}
}

// Each limit holds what it has granted.
func TestEstimatesOfSeveralLimits(t *testing.T) {
	r := replayHeld(t, "0,a,8,2,2s\n1,a,3,1,3s\n", "fixed 10/h first", "fixed 20/h first", "fixed 0/h")
	for i, want := range []Holds{{1, 8, 6, 0, 0}, {2, 11, 8, 0, 0}, {}} {
		if got := *r.Limits[i].Holds; got != want {
			t.Errorf("%s: %+v, want %+v", r.Limits[i].Limit, got, want)
		}
	}
}

func TestHoldsThatCannotBe(t *testing.T) {
	l, err := limit.Parse("gcra 1/s")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReplay([]limit.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	for ttl, want := range map[int64]string{0: "above 0", MaxHoldTTL + 1: "at most 1 hour"} {
		if err := r.Hold(HoldOptions{TTL: ttl}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", ttl, err)
		}
	}
	for _, test := range []struct {
		o           TraceOptions
		trace, want string
	}{
		{TraceOptions{Actual: "4"}, "0,a,1,1,1\n", "needs that with the time"},
		{TraceOptions{Actual: "4", Took: "5", Format: AccessLog}, "x\n", "an access log does not say"},
		{TraceOptions{Actual: "used", Took: "took"}, "time,key,used\n0,a,1\n", `no field "took"`},
		{TraceOptions{Actual: "4", Took: "5"}, "0,a,1,1\n", "fewer columns"},
		{TraceOptions{Actual: "4", Took: "5"}, "0,a,1,-1,1\n", "the actual cost is not"},
		{TraceOptions{Actual: "4", Took: "5"}, "0,a,1,1,\n", "until the cost was known"},
		{TraceOptions{Actual: "used.all", Took: "took"}, `{"time":0,"key":"a","used":{"all":[1]},"took":1}` + "\n", "the actual cost is not"},
		{TraceOptions{Actual: "used", Took: "took"}, `{"time":0,"key":"a","used":1,"took":"1y"}` + "\n", "until the cost was known"},
	} {
		trace, err := NewTrace(strings.NewReader(test.trace), test.o)
		var req Request
		if err == nil {
			err = trace.Next(&req)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40q: %v, want %s", test.trace, err, test.want)
		}
	}
	trace, err := NewTrace(strings.NewReader(`{"time":0,"key":"a","cost":9,"used":{"all":"7"},"took":"2s"}`+"\n"+`{"time":0,"key":"a","cost":9}`+"\n"), TraceOptions{Actual: "used.all", Took: "took"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Request{{Cost: 9, Held: true, Actual: 7, Took: 2 * second}, {Cost: 9, Held: true, Actual: -1}} {
		var req Request
		if err := trace.Next(&req); err != nil || req.Cost != want.Cost || req.Held != want.Held || req.Actual != want.Actual || req.Took != want.Took {
			t.Errorf("%+v, %v, want %+v", req, err, want)
		}
	}
}

// A decision log has the settlements of holds among its decisions; they are no requests.
func TestSettlementsAreNoRequests(t *testing.T) {
	const trace = `{"time":1,"key":"a","cost":5,"limited":false}
{"time":2,"key":"a","settled":"commit","id":"i","estimate":5,"actual":3,"charged":-2,"over":0}
{"time":3,"key":"a","settled":"yes"}
{"time":3,"key":"a","settled":"return","id":"k","estimate":5,"actual":0,"charged":-5,"over":0}
{"time":4,"key":"a","settled":"cancel","id":"j","estimate":5,"actual":0,"charged":-5,"over":0}
`
	lines, err := NewTrace(strings.NewReader(trace), TraceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := limit.Parse("fixed 10/h first")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReplay([]limit.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(lines, r, RunOptions{Strict: true}); err != nil {
		t.Fatal(err)
	}
	if res := r.Result(); res.Requests != 2 || res.Cost != 6 || res.Bad != 0 || res.Lines != 2 {
		t.Errorf("%+v", res)
	}
}
