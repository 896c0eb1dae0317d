package simulate

import (
	"encoding/json"
	"errors"
	"strings"
)

var (
	errSettled   = errors.New("the line is the settlement of a hold in a decision log")
	errJSON      = errors.New("the line is not a JSON object")
	errJSONValue = errors.New("a field is neither a string nor a number")
)

// jsonParser parses one JSON object from each line.
type jsonParser struct {
	key      key
	unit     Unit
	times    []string // names of the time; the first that exists counts
	keys     []string
	cost     string
	actual   string // "" means none, as does took
	took     string
	values   [][]byte // of keys
	optional bool
}

func newJSONParser(o TraceOptions) *jsonParser {
	p := &jsonParser{unit: o.Unit, times: timeNames(), keys: []string{"key"}, cost: "cost", actual: o.Actual, took: o.Took}
	if o.Time != "" {
		p.times = []string{o.Time}
	}
	p.optional = o.Optional
	if o.Key != nil {
		p.keys = o.Key
	}
	p.values = make([][]byte, len(p.keys))
	if o.Cost != "" {
		p.cost = o.Cost
	}
	return p
}

func (p *jsonParser) parse(line []byte, req *Request) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil || members == nil {
		return errJSON
	}
	if how, there := members["settled"]; there && (string(how) == `"commit"` || string(how) == `"cancel"` || string(how) == `"return"`) {
		return errSettled
	}
	var time []byte
	for _, name := range p.times {
		var err error
		if time, err = member(members, name); err != nil {
			return err
		}
		if time != nil {
			break
		}
	}
	if time == nil {
		return errNoField
	}
	at, err := parseTime(time, p.unit)
	if err != nil {
		return err
	}
	req.Time = at
	for i, name := range p.keys {
		value, err := member(members, name)
		switch {
		case err != nil:
			return err
		case p.optional:
		case value == nil:
			return errNoField
		}
		p.values[i] = value
	}
	req.Values = p.values
	req.Key = p.key.join(req.Values)
	cost, err := member(members, p.cost)
	if err != nil {
		return errCost
	}
	if cost != nil {
		req.Cost, err = parseCost(cost)
	}
	if err != nil || p.actual == "" {
		return err
	}
	actual, err := member(members, p.actual)
	if err != nil {
		return errActual
	}
	took, err := member(members, p.took)
	if err != nil {
		return errTook
	}
	return req.estimated(actual, took)
}

// member returns the value of a member: the text of a string, or the digits of a number. It returns nil if
// there is none or if it is null. The name a.b means the member "a.b", as some programs write nested objects,
// or else b within a.
func member(members map[string]json.RawMessage, name string) ([]byte, error) {
	if raw, there := members[name]; there {
		return value(raw)
	}
	outer, inner, nested := strings.Cut(name, ".")
	if !nested {
		return nil, nil
	}
	var within map[string]json.RawMessage
	if json.Unmarshal(members[outer], &within) != nil {
		return nil, nil
	}
	return member(within, inner)
}

// value returns a value in the form of member.
func value(raw json.RawMessage) ([]byte, error) {
	switch raw[0] {
	case '{', '[':
		return nil, errJSONValue
	case 'n':
		return nil, nil
	case '"':
		if string(raw) == `""` {
			return []byte{}, nil
		}
		var text string
		err := json.Unmarshal(raw, &text)
		return []byte(text), err
	}
	return raw, nil
}
