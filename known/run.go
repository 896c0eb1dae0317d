package known

import (
	"bytes"
	"math"
	"strconv"

	"limitdb/resp"
	"limitdb/script"
	"limitdb/value"
)

// Store is what the keys hold, as the transaction of a script sees it.
type Store interface {
	// Get returns the value that a key holds, one of type None if the key is
	// absent. It returns false if the key holds no value or cannot be read now. The
	// body is valid until the key is written.
	Get(key []byte) (Value, bool)
	// Put makes a key hold a value, which is valid during the call. A nil body removes
	// the key. Splices change the body that the key holds into the new one, which v has
	// unless it is late; without any, the value replaces what the key holds.
	Put(key []byte, v *Value, splices []value.Splice)
}

// Value is what a key holds.
type Value struct {
	Type    value.Type
	Expires int64 // ms of Unix time; 0: never
	Body    []byte
	// Late is set if the splices of a change have not been applied to Body, which is the one that the key holds.
	Late bool
}

// exists reports whether the key exists.
func (v *Value) exists() bool { return v.Type != value.None }

// Run is one run of a script.
type Run struct {
	Keys, Args [][]byte
	Now        int64 // ns of Unix time
	Store      Store
	resp.Reply // the script's reply is appended to it

	body  []byte // room for what the run writes
	value Value
}

// spareMost is the largest buffer, in bytes, that a Run keeps for its next script.
const spareMost = 512

// Forget drops everything that belongs to the script that has run.
func (r *Run) Forget() {
	body := r.body
	if cap(body) > spareMost {
		body = nil
	}
	*r = Run{body: body}
}

const (
	// maxWhole is above all integers that handlers take: a number of Lua holds
	// those below 2⁵³ exactly.
	maxWhole = 1 << 52
	// maxSeconds is above all times to live in seconds.
	maxSeconds = maxWhole / 1000
)

// whole returns argument i as an integer, if Redis and Lua read it in the same way.
func (r *Run) whole(i int) (int64, bool) {
	v, ok := resp.ParseInt(r.Args[i])
	return v, ok && v > -maxWhole && v < maxWhole
}

// span returns argument i as a time to live, in ms if unit is 1 and in seconds if it
// is 1000.
func (r *Run) span(i int, unit int64) (ms int64, ok bool) {
	v, ok := r.whole(i)
	return v * unit, ok && v > 0 && v < maxSeconds
}

// plain reads a number that Redis and Lua read in the same way: digits, with or without
// a point.
func plain(b []byte) (float64, bool) {
	digits, point, n := 0, -1, uint64(0)
	for i, c := range b {
		switch d := c - '0'; {
		case d <= 9:
			digits, n = digits+1, n*10+uint64(d)
		case c == '.' && point < 0:
			point = i
		default:
			return 0, false
		}
	}
	switch {
	case digits == 0:
		return 0, false
	case digits > exactDigits:
		f, err := strconv.ParseFloat(string(b), 64)
		return f, err == nil
	case point < 0:
		return float64(n), true
	}
	return float64(n) / math.Pow10(len(b)-1-point), true // of two exact numbers, so it is the nearest
}

// exactDigits is how many digits every number has that a float64 can hold exactly, as it can 10 to that power.
const exactDigits = 15

// isPlain reports whether plain reads what a number prints as.
func isPlain(x float64) bool { return !math.Signbit(x) && (x == 0 || x >= 1e-4 && x < 1e17) }

// plains returns the arguments from the first one on as numbers.
func (r *Run) plains(into []float64) bool {
	for i := range into {
		var ok bool
		if into[i], ok = plain(r.Args[i]); !ok {
			return false
		}
	}
	return true
}

// is reports whether argument i is a word.
func (r *Run) is(i int, word string) bool { return string(r.Args[i]) == word }

// millis returns the time in ms of Unix time.
func (r *Run) millis() int64 { return r.Now / 1e6 }

// str returns the string that a key holds; ok is false if it holds anything else. An
// absent key is an empty value.
func (r *Run) str(key []byte) (v Value, ok bool) {
	v, ok = r.Store.Get(key)
	return v, ok && (v.Type == value.String || !v.exists())
}

// counter returns the integer that a key holds, 0 if it is absent.
func (r *Run) counter(key []byte) (v Value, count int64, ok bool) {
	if v, ok = r.str(key); !ok {
		return v, 0, false
	}
	count, err := value.StringInt(v.Body)
	return v, count, err == nil && count > -maxWhole && count < maxWhole
}

// number returns the number that a key holds, and other if it is absent.
func (r *Run) number(key []byte, other float64) (f float64, ok bool) {
	v, ok := r.str(key)
	if !ok || !v.exists() {
		return other, ok
	}
	var buf [20]byte
	return plain(value.Text(v.Body, buf[:]))
}

// holds reports whether a value is a text.
func (v *Value) holds(text []byte) bool {
	var buf [20]byte
	return v.exists() && bytes.Equal(value.Text(v.Body, buf[:]), text)
}

// ttl returns the time to live of a value in ms, -1 if it has none and -2 if the key
// is absent.
func (r *Run) ttl(v *Value) int64 {
	switch {
	case !v.exists():
		return -2
	case v.Expires == 0:
		return -1
	}
	return max(0, v.Expires-r.millis())
}

// put makes a key hold a value until expires, in ms of Unix time; 0 is for ever.
func (r *Run) put(key []byte, t value.Type, body []byte, expires int64) {
	r.value = Value{Type: t, Expires: expires, Body: body}
	r.Store.Put(key, &r.value, nil)
}

// collection is a list or a hash that was opened on what its key holds.
type collection interface {
	Body() []byte
	Splices() []value.Splice
	Late() bool
}

// keep puts the changed collection at the first key.
func (r *Run) keep(t value.Type, c collection, expires int64) {
	r.value = Value{Type: t, Expires: expires, Body: c.Body(), Late: c.Late()}
	r.Store.Put(r.Keys[0], &r.value, c.Splices())
}

// setCounter makes a key hold an integer.
func (r *Run) setCounter(key []byte, count, expires int64) {
	r.body = value.AppendCounter(r.body[:0], count)
	r.put(key, value.String, r.body, expires)
}

// countIn counts by in a window of argument i seconds, which a count of 0 begins. It
// returns the count before.
func (r *Run) countIn(by int64, i int) (before int64, ok bool) {
	window, ok := r.span(i, 1000)
	v, before, plain := r.counter(r.Keys[0])
	if !ok || !plain {
		return 0, false
	}
	if before == 0 {
		v.Expires = r.millis() + window
	}
	r.setCounter(r.Keys[0], before+by, v.Expires)
	return before, true
}

// setText makes a key hold a text.
func (r *Run) setText(key, text []byte, expires int64) {
	r.body = value.AppendString(r.body[:0], text)
	r.put(key, value.String, r.body, expires)
}

// setNumber makes a key hold a number, as Lua passes it to a command.
func (r *Run) setNumber(key []byte, n float64, expires int64) {
	var text [32]byte
	r.setText(key, script.AppendNumber(text[:0], n, 17), expires)
}

// remove removes a key.
func (r *Run) remove(key []byte) { r.put(key, value.None, nil, 0) }

// pair replies with two integers.
func (r *Run) pair(a, b int64) {
	r.Array(2)
	r.Int(a)
	r.Int(b)
}

// truth replies with a Boolean as Redis converts it: 1 or null.
func (r *Run) truth(b bool) {
	if b {
		r.Int(1)
	} else {
		r.Null()
	}
}

// done replies as SET does: OK or null.
func (r *Run) done(set bool) {
	if set {
		r.OK()
	} else {
		r.Null()
	}
}

// tostring replies with a number as Lua's tostring writes it.
func (r *Run) tostring(n float64) {
	var text [32]byte
	r.Bulk(script.AppendNumber(text[:0], n, 14))
}

// truncated returns a number as the integer that Redis replies. It is false if that
// could be another one than here.
func truncated(n float64) (int64, bool) {
	return int64(n), n > -maxWhole && n < maxWhole
}
