package rules

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// The weights of a rule say what one unit of a request's cost counts, by the values of its fields:
//
//	weights: {path: {/v1/chat: 5, /v1/*: 2}}
//
// For each field, the first pattern that matches has the weight, 1 if none does. Those of several fields are multiplied.

// ErrFieldWeight is what is wrong with a field whose weight, multiplied with the rest of the cost, is too large.
var ErrFieldWeight = errors.New("its weight, multiplied by the cost, is above " + strconv.FormatInt(math.MaxInt64, 10))

// weight is what a unit counts by the values of one field.
type weight struct {
	values []condition // each on that field
	times  []int64     // of each
	index  index       // of the values
}

// weightDoc is the weights by the values of a field.
type weightDoc struct {
	field  spot
	values []pairDoc
	times  []int64
	bad    bool
}

const schemaWeights = `{"type": "object", "minProperties": 1, "additionalProperties": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "integer", "minimum": 0}},
	"examples": [{"path": {"/v1/chat": 5, "/v1/*": 2}}]}`

// weights reads the weights of a rule.
func (d *decoder) weights(n *yaml.Node) (all []weightDoc) {
	d.pairs(n, "weights", func(key, value *yaml.Node) {
		w := weightDoc{field: spot{d.name(key, "the name of a field"), key}}
		kind := "the weights of " + quote(key.Value)
		value = d.resolve(value)
		w.bad = d.spoils(func() {
			d.pairs(value, kind, func(pattern, times *yaml.Node) {
				p := pairDoc{name: w.field, value: d.pattern(pattern, "a value of "+quote(key.Value))}
				w.values = append(w.values, p)
				w.times = append(w.times, d.number(d.resolve(times), "a weight", 0, math.MaxInt64))
			})
			if value.Kind == yaml.MappingNode && len(value.Content) == 0 {
				d.fail(value, "%s are empty", kind)
			}
		})
		all = append(all, w)
	})
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		d.fail(n, "weights is empty")
	}
	return all
}

// weights compiles the weights of a rule. It is a mistake if one can never count.
func (c *compiler) weights(doc *ruleDoc, r *Rule) {
	for i := range doc.weights {
		w := &doc.weights[i]
		own := weight{values: c.conditions(w.values), times: w.times}
		for j := range own.values {
			covered := func(earlier condition) bool { return earlier.covers(&own.values[j]) }
			if !w.bad && slices.ContainsFunc(own.values[:min(j, maxCompared)], covered) {
				c.fail(w.values[j].value.at, "this weight can never count: one before it matches whatever it matches")
			}
		}
		own.index = makeIndex(len(own.values), func(i int) ([]condition, []int32) { return own.values[i : i+1], nil })
		r.weights = append(r.weights, own)
	}
}

// of returns the index of the value that q has, -1 for another.
func (w *weight) of(q *Query) int32 {
	q.overrides = w.index.find(q, q.overrides[:0])
	first := int32(-1)
	for _, i := range q.overrides {
		if (first < 0 || i < first) && q.holds(w.values[i:i+1]) {
			first = i
		}
	}
	return first
}

// weigh returns a cost, multiplied by the weights of a rule. The error is a *FieldError.
func (q *Query) weigh(r *Rule, cost int64) (int64, error) {
	overflow := ""
	for i := range r.weights {
		w := &r.weights[i]
		at := w.of(q)
		if at < 0 {
			continue
		}
		high, low := bits.Mul64(uint64(cost), uint64(w.times[at]))
		if low == 0 && high == 0 {
			return 0, nil // whatever the other fields say
		}
		if high != 0 || low > math.MaxInt64 {
			overflow, low = w.values[at].name, 1
		}
		cost = int64(low)
	}
	if overflow != "" {
		return 0, fieldError(overflow, ErrFieldWeight)
	}
	return cost, nil
}

// Weight returns what a unit of the request's cost counts under a rule: 1 without weights, at most the largest number.
func (q *Query) Weight(r *Rule) int64 {
	n, err := q.weigh(r, 1)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

// weighed says which weights q has.
func (r *Rule) weighed(q *Query) (all []string) {
	for i := range r.weights {
		w := &r.weights[i]
		if at := w.of(q); at >= 0 {
			all = append(all, fmt.Sprintf("weight %d of %s %s", w.times[at], w.values[at].name, strconv.Quote(w.values[at].text)))
		}
	}
	return all
}

// Weights returns the weights of the rule: of each a field, its pattern as it is written, and the number.
func (r *Rule) Weights() (all []string) {
	for i := range r.weights {
		w := &r.weights[i]
		for j := range w.values {
			all = append(all, w.values[j].name, w.values[j].text, strconv.FormatInt(w.times[j], 10))
		}
	}
	return all
}
