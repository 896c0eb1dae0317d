package server

import (
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/value"
)

// Strings, with Redis 7's replies and errors.
func stringCommands() []command {
	return []command{
		onKey("GET", 2, flagReadonly|flagFast|flagAhead, "string", "Returns the string of a key.", (*call).get),
		onKey("SET", -3, flagWrite|flagAhead, "string", "Sets the string of a key, with an expiry or conditions if you like.", (*call).setKey,
			text("value"),
			oneOf("condition", word("NX"), word("XX")), optional(word("GET")),
			oneOf("expiration", expiryWords(word("KEEPTTL"))...)),
		onKey("SETNX", 3, flagWrite|flagFast|flagAhead, "string", "Sets the string of a key that does not exist.", (*call).setNX, text("value")),
		onKey("SETEX", 4, flagWrite|flagAhead, "string", "Sets the string of a key, which expires after that many seconds.", (*call).setEX, integer("seconds"), text("value")),
		onKey("PSETEX", 4, flagWrite|flagAhead, "string", "Sets the string of a key, which expires after that many milliseconds.", (*call).pSetEX, integer("milliseconds"), text("value")),
		onKey("GETSET", 3, flagWrite|flagFast|flagAhead, "string", "Sets the string of a key and returns the one before.", (*call).getSet, text("value")),
		onKey("GETDEL", 2, flagWrite|flagFast|flagAhead, "string", "Returns the string of a key and forgets the key.", (*call).getDel),
		onKey("GETEX", -2, flagWrite|flagFast|flagAhead, "string", "Returns the string of a key, and sets when it expires.", (*call).getEX,
			oneOf("expiration", expiryWords(word("PERSIST"))...)),
		onKeys("MGET", -2, flagReadonly|flagFast|flagWide, 1, "string", "Returns the strings of keys.", (*call).mGet, argument{name: "key", kind: "key", multiple: true}),
		onKeys("MSET", -3, flagWrite|flagWide, 2, "string", "Sets the strings of keys, in one step.", (*call).mSet, keyValues()),
		onKeys("MSETNX", -3, flagWrite|flagWide, 2, "string", "Sets the strings of keys, if none of them exists.", (*call).mSetNX, keyValues()),
		onKey("APPEND", 3, flagWrite|flagFast|flagAhead, "string", "Appends to the string of a key; returns its length.", (*call).appendTo, text("value")),
		onKey("STRLEN", 2, flagReadonly|flagFast|flagAhead, "string", "Returns the length of a key's string.", (*call).strLen),
		onKey("GETRANGE", 4, flagReadonly|flagAhead, "string", "Returns a part of a key's string.", (*call).getRange, integer("start"), integer("end")),
		onKey("SUBSTR", 4, flagReadonly|flagAhead, "string", "Is the old name of GETRANGE.", (*call).getRange, integer("start"), integer("end")),
		onKey("SETRANGE", 4, flagWrite|flagAhead, "string", "Writes over a part of a key's string; returns its length.", (*call).setRange, integer("offset"), text("value")),
	}
}

func keyValues() argument {
	return argument{name: "data", kind: "block", multiple: true, args: []argument{{name: "key", kind: "key"}, text("value")}}
}

// expiryWords are the options that set an expiry, and one more.
func expiryWords(more argument) []argument {
	return []argument{
		{name: "seconds", kind: "integer", token: "EX"},
		{name: "milliseconds", kind: "integer", token: "PX"},
		{name: "unix-time-seconds", kind: "unix-time", token: "EXAT"},
		{name: "unix-time-milliseconds", kind: "unix-time", token: "PXAT"},
		more,
	}
}

// bulkText replies with a string's text; null for an absent key.
func (c *call) bulkText(it *item) {
	if it.typ == value.None {
		c.null()
		return
	}
	var buf [20]byte
	c.bulk(value.Text(it.body, buf[:]))
}

func (c *call) get(t *txn) {
	if it, ok := c.of(t, c.args[1], value.String); ok {
		c.bulkText(&it)
	}
}

// setOptions are the options of SET and GETEX.
type setOptions struct {
	given setOption
	time  []byte // the argument of EX, PX, EXAT or PXAT
}

// setOption is a set of these options.
type setOption uint8

const (
	setNX setOption = 1 << iota
	setXX
	setGet
	setKeepTTL
	setPersist
	setEX
	setPX
	setAt // with EX or PX: the time is absolute

	setTimes = setEX | setPX | setAt
)

// parseSetOptions parses the options from words on. SET has those of allowed beside the expiries.
func parseSetOptions(words [][]byte, allowed setOption) (o setOptions, ok bool) {
	for i := 0; i < len(words); i++ {
		option, against := setOptionOf(words[i])
		if option&setTimes == 0 && option&allowed == 0 || o.given&against != 0 {
			return o, false
		}
		o.given |= option
		if option&setTimes != 0 {
			if i++; i == len(words) {
				return o, false
			}
			o.time = words[i]
		}
	}
	return o, true
}

// setOptionOf returns an option, and those that it cannot be given with; 0 if there is no such one.
func setOptionOf(w []byte) (o, against setOption) {
	switch {
	case foldEqual(w, "NX"):
		return setNX, setXX
	case foldEqual(w, "XX"):
		return setXX, setNX
	case foldEqual(w, "GET"):
		return setGet, 0
	case foldEqual(w, "KEEPTTL"):
		return setKeepTTL, setTimes | setPersist
	case foldEqual(w, "PERSIST"):
		return setPersist, setTimes | setKeepTTL
	case foldEqual(w, "EX"):
		return setEX, setPX | setAt | setKeepTTL | setPersist
	case foldEqual(w, "PX"):
		return setPX, setEX | setAt | setKeepTTL | setPersist
	case foldEqual(w, "EXAT"):
		return setEX | setAt, setPX | setKeepTTL | setPersist | setEX
	case foldEqual(w, "PXAT"):
		return setPX | setAt, setEX | setKeepTTL | setPersist | setPX
	}
	return 0, 0
}

// expiry parses the time of the options, in ms of Unix time. If it fails, it replies with the error.
func (c *call) expiry(o *setOptions) (ms int64, ok bool) {
	ms, ok = resp.ParseInt(o.time)
	if !ok {
		c.fail(errNotInt)
		return 0, false
	}
	base := c.nowMillis()
	if o.given&setAt != 0 {
		base = 0
	}
	if ms <= 0 {
		ok = false
	} else if ms, ok = addTime(ms, o.given&setEX != 0, base); ok {
		return ms, true
	}
	c.failExpiry()
	return 0, false
}

// addTime returns a time after base in ms, given in seconds or ms; false if it overflows.
func addTime(n int64, seconds bool, base int64) (ms int64, ok bool) {
	if seconds {
		const most = int64(1<<63-1) / 1000
		if n > most || n < -most {
			return 0, false
		}
		n *= 1000
	}
	ms, err := value.Add(n, base)
	return ms, err == nil
}

// failExpiry replies that the time is out of range.
func (c *call) failExpiry() { c.fail("ERR invalid expire time in '" + c.cmd.full + "' command") }

func (c *call) setKey(t *txn) {
	o, ok := parseSetOptions(c.args[3:], setNX|setXX|setGet|setKeepTTL)
	if !ok {
		c.fail(errSyntax)
		return
	}
	c.setWith(t, c.args[2], &o, c.ok, c.null)
}

// setWith sets the command's key as the options say, and replies with done, or with not if
// a condition was not met.
func (c *call) setWith(t *txn, text []byte, o *setOptions, done, not func()) {
	expires, ok := int64(0), true
	if o.given&setTimes != 0 {
		if expires, ok = c.expiry(o); !ok {
			return
		}
	}
	key := c.args[1]
	it := c.item(t, key)
	if o.given&setGet != 0 && it.exists() && it.typ != value.String {
		c.failWrongType(&it, value.String.String())
		return
	}
	met := o.given&setNX == 0 || !it.exists()
	met = met && (o.given&setXX == 0 || it.exists())
	if met && (!c.replaceable(&it) || !c.fits(len(text))) {
		return
	}
	switch {
	case o.given&setGet != 0:
		c.bulkText(&it)
	case met:
		done()
	default:
		not()
	}
	if met {
		if o.given&setKeepTTL != 0 {
			expires = it.expires
		}
		c.putText(t, key, text, expires)
	}
}

// fits reports whether a string may have n bytes. If not, it replies with the error.
func (c *call) fits(n int) bool {
	if n > value.MaxString {
		c.fail(errStringTooLong)
		return false
	}
	return true
}

// putText makes key hold a string with the text.
func (c *call) putText(t *txn, key, text []byte, expires int64) {
	c.body = value.AppendString(c.body[:0], text)
	c.put(t, key, &item{typ: value.String, expires: expires, body: c.body})
}

func (c *call) setNX(t *txn) {
	c.setWith(t, c.args[2], &setOptions{given: setNX}, func() { c.int(1) }, func() { c.int(0) })
}

func (c *call) setEX(t *txn) {
	c.setWith(t, c.args[3], &setOptions{given: setEX, time: c.args[2]}, c.ok, nil)
}

func (c *call) pSetEX(t *txn) {
	c.setWith(t, c.args[3], &setOptions{given: setPX, time: c.args[2]}, c.ok, nil)
}

func (c *call) getSet(t *txn) {
	it, ok := c.of(t, c.args[1], value.String)
	if !ok || !c.fits(len(c.args[2])) {
		return
	}
	c.bulkText(&it)
	c.putText(t, c.args[1], c.args[2], 0)
}

func (c *call) getDel(t *txn) {
	it, ok := c.of(t, c.args[1], value.String)
	if !ok {
		return
	}
	c.bulkText(&it)
	if it.exists() {
		t.remove(c.args[1])
	}
}

func (c *call) getEX(t *txn) {
	o, ok := parseSetOptions(c.args[2:], setPersist)
	if !ok {
		c.fail(errSyntax)
		return
	}
	it, ok := c.of(t, c.args[1], value.String)
	switch {
	case !ok:
		return
	case !it.exists():
		c.null()
		return
	}
	before := it.expires
	switch {
	case o.given&setPersist != 0:
		it.expires = 0
	case o.given&setTimes != 0:
		if it.expires, ok = c.expiry(&o); !ok {
			return
		}
	}
	c.bulkText(&it)
	if it.expires != before {
		c.put(t, c.args[1], &it)
	}
}

func (c *call) mGet(t *txn) {
	c.array(len(c.args) - 1)
	for _, key := range c.args[1:] {
		it := c.item(t, key)
		if it.typ != value.String {
			it = item{}
		}
		c.bulkText(&it)
	}
}

func (c *call) mSet(t *txn) { c.setAll(t, false) }

func (c *call) mSetNX(t *txn) { c.setAll(t, true) }

// setAll sets all keys or, if one may not be set, none.
func (c *call) setAll(t *txn, absent bool) {
	if len(c.args)%2 == 0 {
		c.fail("ERR wrong number of arguments for '" + c.cmd.full + "' command")
		return
	}
	for i := 1; i < len(c.args); i += 2 {
		it := c.item(t, c.args[i])
		switch {
		case absent && it.exists():
			c.int(0)
			return
		case !c.replaceable(&it) || !c.fits(len(c.args[i+1])):
			return
		}
	}
	for i := 1; i < len(c.args); i += 2 {
		c.putText(t, c.args[i], c.args[i+1], 0)
	}
	if absent {
		c.int(1)
		return
	}
	c.ok()
}

func (c *call) appendTo(t *txn) {
	it, ok := c.of(t, c.args[1], value.String)
	if !ok {
		return
	}
	more, n := c.args[2], value.StringLen(it.body)+len(c.args[2])
	if !c.fits(n) {
		return
	}
	if !it.exists() {
		c.putText(t, c.args[1], more, 0)
	} else {
		c.body = value.StringText(value.AppendRaw(c.body[:0], nil), it.body)
		c.body = append(c.body, more...)
		c.put(t, c.args[1], &item{typ: value.String, expires: it.expires, body: c.body})
	}
	c.int(int64(n))
}

func (c *call) strLen(t *txn) {
	if it, ok := c.of(t, c.args[1], value.String); ok {
		c.int(int64(value.StringLen(it.body)))
	}
}

func (c *call) getRange(t *txn) {
	start, ok1 := resp.ParseInt(c.args[2])
	end, ok2 := resp.ParseInt(c.args[3])
	if !ok1 || !ok2 {
		c.fail(errNotInt)
		return
	}
	if it, ok := c.of(t, c.args[1], value.String); ok {
		var buf [20]byte
		c.bulk(value.Range(value.Text(it.body, buf[:]), start, end))
	}
}

func (c *call) setRange(t *txn) {
	offset, ok := resp.ParseInt(c.args[2])
	switch {
	case !ok:
		c.fail(errNotInt)
		return
	case offset < 0:
		c.fail("ERR offset is out of range")
		return
	}
	it, ok := c.of(t, c.args[1], value.String)
	switch {
	case !ok:
		return
	case len(c.args[3]) == 0:
		c.int(int64(value.StringLen(it.body)))
		return
	}
	text, err := value.SetRange(value.StringText(nil, it.body), offset, c.args[3])
	if err != nil {
		c.fail(errStringTooLong)
		return
	}
	c.body = value.AppendRaw(c.body[:0], text)
	c.put(t, c.args[1], &item{typ: value.String, expires: it.expires, body: c.body})
	c.int(int64(len(text)))
}

// ttlOf returns the time that a key has left in ms: -2 for no such key, -1 for one that never expires.
func (c *call) ttlOf(it *item) int64 {
	switch {
	case !it.exists():
		return -2
	case it.kind != 0:
		return limit.Milliseconds(limit.Expires(it.kind, it.body) - c.now)
	case it.expires == 0:
		return -1
	}
	return max(0, it.expires-c.nowMillis())
}
