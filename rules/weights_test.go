package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const weightsFile = `version: 1
namespaces:
  a:
    - {name: calls, key: [user], cost: units, limit: 100/m, candidate: 200/m, weights: {path: {/v1/chat: 5, /v1/*: 2, /health: 0}, model: {large: 10}},
       overrides: [{match: {user: free}, unlimited: true}]}
    - {name: huge, match: {path: /huge}, limit: 1/m, mode: shadow, weights: {path: {/huge: 4611686018427387904}, free: {"yes": 0}}}
`

func TestWeights(t *testing.T) {
	set := mustParse(t, weightsFile)
	for _, c := range []struct {
		fields string
		cost   int64
		want   string // costs, or the error
	}{
		{"user=u", 1, "calls 1 calls 1"},
		{"user=u path=/v1/chat", 1, "calls 5 calls 5"},
		{"user=u path=/v1/chat", 3, "calls 15 calls 15"},
		{"user=u path=/v1/images", 3, "calls 6 calls 6"},
		{"user=u path=/other", 3, "calls 3 calls 3"},
		{"user=u path=/health", 3, "calls 0 calls 0"},
		{"user=u path=/v1/chat model=large", 1, "calls 50 calls 50"},
		{"user=u path=/v1/chat model=large units=2", 7, "calls 100 calls 100"},
		{"user=u path=/v1/chat units=2", 0, "calls 0 calls 0"},
		{"user=u path=/v1/chat units=9223372036854775807", 1, `field "path": its weight, multiplied by the cost, is above 9223372036854775807`},
		{"user=u path=/health units=9223372036854775807", 1, "calls 0 calls 0"},
		{"user=free path=/v1/chat units=9223372036854775807", 1, ""},
		{"path=/huge", 1, "huge 4611686018427387904"},
		{"path=/huge", 2, `field "path": its weight, multiplied by the cost, is above 9223372036854775807`},
		{"path=/huge free=yes", 2, "huge 0"},
		{"path=/huge free=no", 0, "huge 0"},
	} {
		var fields [][2]string
		for f := range strings.FieldsSeq(c.fields) {
			name, value, _ := strings.Cut(f, "=")
			fields = append(fields, [2]string{name, value})
		}
		q, err := set.Query("a", fields, c.cost)
		var got []string
		if err != nil {
			got = append(got, err.Error())
		} else {
			for _, x := range q.Charges {
				got = append(got, fmt.Sprint(x.Rule.Name, " ", x.Cost))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s, cost %d: %q", c.fields, c.cost, got)
		}
		if err != nil && !errors.Is(err, ErrFieldWeight) {
			t.Errorf("%s: %v", c.fields, err)
		}
	}
	same(t, set.Rules()[0].Weights(), "path", "/v1/chat", "5", "path", "/v1/*", "2", "path", "/health", "0", "model", "large", "10")
}

func TestVerdictOfWeights(t *testing.T) {
	set := mustParse(t, weightsFile)
	for _, c := range []struct{ fields, want string }{
		{"user=u", "calls: 0:GCRA 100/m 2:GCRA 200/m"},
		{"user=u path=/v1/x model=large", `calls: from weight 2 of path "/v1/*", weight 10 of model "large" 0:GCRA 100/m 2:GCRA 200/m`},
		{"user=free path=/v1/x", `calls: from override 1, weight 2 of path "/v1/*"`},
	} {
		q := match(t, set, "a", c.fields)
		if v := q.Explain().Of(set.Rules()[0]); verdictText(q, &v) != c.want {
			t.Errorf("got  %s\nwant %s", verdictText(q, &v), c.want)
		}
	}
}

func TestBadWeights(t *testing.T) {
	for _, c := range []struct{ rest, want string }{
		{"weights: ‸{}", "weights is empty"},
		{"weights: ‸[path]", "weights must be a mapping, not a list"},
		{"weights: {path: ‸{}}", `the weights of "path" are empty`},
		{"weights: {path: ‸5}", `the weights of "path" must be a mapping, not "5"`},
		{"weights: {‸p@: {a: 5}}", `the name of a field must be a letter, digit or _, then any of these or of . / -, at most 64 in all, not "p@"`},
		{"weights: {path: {a: ‸-1}}", `a weight must be an integer from 0 to 9223372036854775807, not "-1"`},
		{"weights: {path: {a: ‸1.5}}", `a weight must be an integer from 0 to 9223372036854775807, not "1.5"`},
		{"weights: {path: {a: ‸9223372036854775808}}", `a weight must be an integer from 0 to 9223372036854775807, not "9223372036854775808"`},
		{"weights: {path: {a: 9223372036854775807}}", ""},
		{"weights: {path: {a*: 1, ‸ab: 2}}", "this weight can never count: one before it matches whatever it matches"},
		{"weights: {path: {ab: 1, a*: 2}, other: {'*': 3}}", ""},
		{"weights: {path: {a: 1, ‸a: 2}}", `"a" is given twice`},
		{"overrides: [{match: {u: a}, ‸weights: {path: {a: 1}}, limit: 1/s}]", `an override has no field "weights"`},
	} {
		text, want := placed("version: 1\nnamespaces:\n  a:\n    - {name: x, limit: 1/s, "+c.rest+"}", c.want)
		switch _, err := Parse([]byte(text), nil); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || err.Error() != want):
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestWeightsChangeTheSum(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, rest := range []string{"", ", weights: {p: {a: 1}}", ", weights: {p: {a: 2}}", ", weights: {q: {a: 1}}", ", weights: {p: {b: 1}}", ", weights: {p: {a: 1, b: 1}}", ", weights: {p: {a: 1}, q: {b: 1}}"} {
		sum := mustParse(t, "version: 1\nnamespaces: {a: [{name: x, limit: 1/s"+rest+"}]}").Sum()
		if other, ok := seen[sum]; ok {
			t.Errorf("%q and %q have one sum", rest, other)
		}
		seen[sum] = rest
	}
}

// TestManyWeights checks that one of 10 000 weights is found without trying each, and without allocating.
func TestManyWeights(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nnamespaces: {a: [{name: x, limit: 1/s, weights: {path: {")
	for i := range 10_000 {
		fmt.Fprintf(&b, "/p%d/*: %d, ", i, i)
	}
	b.WriteString("}}}]}")
	ns, q := mustParse(t, b.String()).Namespaces()[0], new(Query)
	ask := func() {
		q.Begin(ns)
		if err := q.Add(asBytes("path"), asBytes("/p7777/x")); err != nil {
			t.Fatal(err)
		}
		if err := q.Match(2); err != nil || len(q.Charges) != 1 || q.Charges[0].Cost != 2*7777 || len(q.overrides) != 1 {
			t.Fatalf("%v, %+v, %d tried", err, q.Charges, len(q.overrides))
		}
	}
	if n := testing.AllocsPerRun(20, ask); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
