package values

import (
	"math"

	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/value"
)

// increxOptions are the options of INCREX.
type increxOptions struct {
	setOptions
	words [increxWords][]byte // the values of the options that have one, nil if not given
	given uint8               // those that have none, and the expiry, as bits
}

const (
	increxByInt = iota
	increxByFloat
	increxLower
	increxUpper
	increxWords
)

const (
	increxSaturate = 1 << iota
	increxENX
	increxExpiry
)

// parseIncrEX parses the options, which may be in any order, each once.
func parseIncrEX(words [][]byte) (o increxOptions, ok bool) {
	for i := 0; i < len(words); i++ {
		at, flag := -1, uint8(0)
		switch w := words[i]; {
		case resp.EqualFold(w, "BYINT"):
			at = increxByInt
		case resp.EqualFold(w, "BYFLOAT"):
			at = increxByFloat
		case resp.EqualFold(w, "LBOUND"):
			at = increxLower
		case resp.EqualFold(w, "UBOUND"):
			at = increxUpper
		case resp.EqualFold(w, "SATURATE"):
			flag = increxSaturate
		case resp.EqualFold(w, "ENX"):
			flag = increxENX
		default:
			option, _ := setOptionOf(w)
			if option&(optionTimes|optionPersist) == 0 {
				return o, false
			}
			flag = increxExpiry
			o.setOptions.given = option
			if option&optionTimes != 0 {
				if i++; i == len(words) {
					return o, false
				}
				o.time = words[i]
			}
		}
		if at >= 0 {
			if i++; i == len(words) || o.words[at] != nil {
				return o, false
			}
			o.words[at] = words[i]
		}
		if o.given&flag != 0 {
			return o, false
		}
		o.given |= flag
	}
	both := o.words[increxByInt] != nil && o.words[increxByFloat] != nil
	return o, !both && (o.given&increxENX == 0 || o.setOptions.given&optionTimes != 0)
}

func incrEX(c *Call, t *Txn) {
	o, ok := parseIncrEX(c.Args[2:])
	if !ok {
		c.Fail(spec.ErrSyntax)
		return
	}
	expires := int64(0)
	if o.setOptions.given&optionTimes != 0 {
		if expires, ok = c.expiry(&o.setOptions); !ok {
			return
		}
	}
	it, ok := c.of(t, c.Args[1], value.String)
	if !ok {
		return
	}
	keeps := o.given&increxExpiry == 0 || o.given&increxENX != 0 && it.Expires != 0
	if keeps {
		expires = it.Expires
	}
	if o.words[increxByFloat] != nil {
		incrEXFloat(c, t, &o, &it, expires)
	} else {
		incrEXInt(c, t, &o, &it, expires)
	}
}

// parseIntOr parses a word; it returns otherwise for one that is not given.
func parseIntOr(word []byte, otherwise int64) (int64, bool) {
	if word == nil {
		return otherwise, true
	}
	return resp.ParseInt(word)
}

func incrEXInt(c *Call, t *Txn, o *increxOptions, it *Item, expires int64) {
	by, ok1 := parseIntOr(o.words[increxByInt], 1)
	low, ok2 := parseIntOr(o.words[increxLower], math.MinInt64)
	high, ok3 := parseIntOr(o.words[increxUpper], math.MaxInt64)
	switch {
	case !ok1 || !ok2 || !ok3:
		c.Fail(spec.ErrNotInt)
		return
	case low > high:
		c.Fail(errBounds)
		return
	}
	now, err := value.StringInt(it.Body)
	if err != nil {
		c.Fail(spec.ErrNotInt)
		return
	}
	sum, err := value.Add(now, by)
	if err != nil && by > 0 {
		sum = math.MaxInt64
	} else if err != nil {
		sum = math.MinInt64
	}
	outside := err != nil || sum < low || sum > high
	if outside && o.given&increxSaturate == 0 {
		c.Array(2)
		c.Int(now)
		c.Int(0)
		return
	}
	sum = max(low, min(high, sum))
	applied, err := value.Add(sum, -now)
	if err != nil || now == math.MinInt64 && sum >= 0 {
		c.Fail(errSumOverflow)
		return
	}
	c.putCounter(t, sum, expires)
	c.Array(2)
	c.Int(sum)
	c.Int(applied)
}

func incrEXFloat(c *Call, t *Txn, o *increxOptions, it *Item, expires int64) {
	x, err := floatOf(it)
	if err != nil || !x.Finite() {
		c.Fail(errNotFloat)
		return
	}
	var n [increxWords]value.Float
	for i, w := range o.words {
		if w == nil {
			continue
		}
		if n[i], err = value.ParseFloat(w); err != nil || !n[i].Finite() {
			c.Fail(errNotFloat)
			return
		}
	}
	lower, upper := o.words[increxLower] != nil, o.words[increxUpper] != nil
	if lower && upper && n[increxLower].Cmp(n[increxUpper]) > 0 {
		c.Fail(errBounds)
		return
	}
	sum, err := x.Plus(n[increxByFloat])
	if err != nil {
		c.Fail(errNaN)
		return
	}
	clamped := sum
	if lower && sum.Cmp(n[increxLower]) < 0 {
		clamped = n[increxLower]
	} else if upper && sum.Cmp(n[increxUpper]) > 0 {
		clamped = n[increxUpper]
	}
	if clamped.Cmp(sum) != 0 && o.given&increxSaturate == 0 {
		c.Array(2)
		c.Bulk(x.Append(nil))
		c.Text("0")
		return
	}
	applied := n[increxByFloat]
	if clamped.Cmp(sum) != 0 {
		applied = clamped.Minus(x)
	}
	c.Array(2)
	c.Bulk(c.putFloat(t, clamped, expires))
	c.Bulk(applied.Append(nil))
}
