package server

import (
	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/value"
)

// Strings, with Redis 7's replies and errors.
func stringCommands() []command {
	return []command{
		onKey("GET", 2, spec.Readonly|spec.Fast|spec.Ahead, "string", "Returns the string of a key.", (*call).get),
		onKey("SET", -3, spec.Write|spec.Ahead, "string", "Sets the string of a key, with an expiry or conditions if you like.", (*call).setKey,
			spec.Text("value"),
			spec.OneOf("condition", spec.Word("NX"), spec.Word("XX")), spec.Optional(spec.Word("GET")),
			spec.OneOf("expiration", expiryWords(spec.Word("KEEPTTL"))...)),
		onKey("SETNX", 3, spec.Write|spec.Fast|spec.Ahead, "string", "Sets the string of a key that does not exist.", (*call).setNX, spec.Text("value")),
		onKey("SETEX", 4, spec.Write|spec.Ahead, "string", "Sets the string of a key, which expires after that many seconds.", (*call).setEX, spec.Integer("seconds"), spec.Text("value")),
		onKey("PSETEX", 4, spec.Write|spec.Ahead, "string", "Sets the string of a key, which expires after that many milliseconds.", (*call).pSetEX, spec.Integer("milliseconds"), spec.Text("value")),
		onKey("GETSET", 3, spec.Write|spec.Fast|spec.Ahead, "string", "Sets the string of a key and returns the one before.", (*call).getSet, spec.Text("value")),
		onKey("GETDEL", 2, spec.Write|spec.Fast|spec.Ahead, "string", "Returns the string of a key and forgets the key.", (*call).getDel),
		onKey("GETEX", -2, spec.Write|spec.Fast|spec.Ahead, "string", "Returns the string of a key, and sets when it expires.", (*call).getEX,
			spec.OneOf("expiration", expiryWords(spec.Word("PERSIST"))...)),
		onKeys("MGET", -2, spec.Readonly|spec.Fast|spec.Wide, 1, "string", "Returns the strings of keys.", (*call).mGet, spec.Argument{Name: "key", Kind: "key", Multiple: true}),
		onKeys("MSET", -3, spec.Write|spec.Wide, 2, "string", "Sets the strings of keys, in one step.", (*call).mSet, keyValues()),
		onKeys("MSETNX", -3, spec.Write|spec.Wide, 2, "string", "Sets the strings of keys, if none of them exists.", (*call).mSetNX, keyValues()),
		onKey("APPEND", 3, spec.Write|spec.Fast|spec.Ahead, "string", "Appends to the string of a key; returns its length.", (*call).appendTo, spec.Text("value")),
		onKey("STRLEN", 2, spec.Readonly|spec.Fast|spec.Ahead, "string", "Returns the length of a key's string.", (*call).strLen),
		onKey("GETRANGE", 4, spec.Readonly|spec.Ahead, "string", "Returns a part of a key's string.", (*call).getRange, spec.Integer("start"), spec.Integer("end")),
		onKey("SUBSTR", 4, spec.Readonly|spec.Ahead, "string", "Is the old name of GETRANGE.", (*call).getRange, spec.Integer("start"), spec.Integer("end")),
		onKey("SETRANGE", 4, spec.Write|spec.Ahead, "string", "Writes over a part of a key's string; returns its length.", (*call).setRange, spec.Integer("offset"), spec.Text("value")),
	}
}

func keyValues() spec.Argument {
	return spec.Argument{Name: "data", Kind: "block", Multiple: true, Args: []spec.Argument{{Name: "key", Kind: "key"}, spec.Text("value")}}
}

// expiryWords are the options that set an expiry, and one more.
func expiryWords(more spec.Argument) []spec.Argument {
	return []spec.Argument{
		{Name: "seconds", Kind: "integer", Token: "EX"},
		{Name: "milliseconds", Kind: "integer", Token: "PX"},
		{Name: "unix-time-seconds", Kind: "unix-time", Token: "EXAT"},
		{Name: "unix-time-milliseconds", Kind: "unix-time", Token: "PXAT"},
		more,
	}
}

// bulkText replies with a string's text; null for an absent key.
func (c *call) bulkText(it *item) {
	if it.typ == value.None {
		c.Null()
		return
	}
	var buf [20]byte
	c.Bulk(value.Text(it.body, buf[:]))
}

func (c *call) get(t *Txn) {
	if it, ok := c.of(t, c.Args[1], value.String); ok {
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
	case resp.EqualFold(w, "NX"):
		return setNX, setXX
	case resp.EqualFold(w, "XX"):
		return setXX, setNX
	case resp.EqualFold(w, "GET"):
		return setGet, 0
	case resp.EqualFold(w, "KEEPTTL"):
		return setKeepTTL, setTimes | setPersist
	case resp.EqualFold(w, "PERSIST"):
		return setPersist, setTimes | setKeepTTL
	case resp.EqualFold(w, "EX"):
		return setEX, setPX | setAt | setKeepTTL | setPersist
	case resp.EqualFold(w, "PX"):
		return setPX, setEX | setAt | setKeepTTL | setPersist
	case resp.EqualFold(w, "EXAT"):
		return setEX | setAt, setPX | setKeepTTL | setPersist | setEX
	case resp.EqualFold(w, "PXAT"):
		return setPX | setAt, setEX | setKeepTTL | setPersist | setPX
	}
	return 0, 0
}

// expiry parses the time of the options, in ms of Unix time. If it fails, it replies with the error.
func (c *call) expiry(o *setOptions) (ms int64, ok bool) {
	ms, ok = resp.ParseInt(o.time)
	if !ok {
		c.Fail(errNotInt)
		return 0, false
	}
	base := c.NowMillis()
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
func (c *call) failExpiry() { c.Fail("ERR invalid expire time in '" + c.cmd.Full + "' command") }

func (c *call) setKey(t *Txn) {
	o, ok := parseSetOptions(c.Args[3:], setNX|setXX|setGet|setKeepTTL)
	if !ok {
		c.Fail(errSyntax)
		return
	}
	c.setWith(t, c.Args[2], &o, c.OK, c.Null)
}

// setWith sets the command's key as the options say, and replies with done, or with not if
// a condition was not met.
func (c *call) setWith(t *Txn, text []byte, o *setOptions, done, not func()) {
	expires, ok := int64(0), true
	if o.given&setTimes != 0 {
		if expires, ok = c.expiry(o); !ok {
			return
		}
	}
	key := c.Args[1]
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
		c.Fail(errStringTooLong)
		return false
	}
	return true
}

// putText makes key hold a string with the text.
func (c *call) putText(t *Txn, key, text []byte, expires int64) {
	c.body = value.AppendString(c.body[:0], text)
	c.put(t, key, &item{typ: value.String, expires: expires, body: c.body})
}

func (c *call) setNX(t *Txn) {
	c.setWith(t, c.Args[2], &setOptions{given: setNX}, func() { c.Int(1) }, func() { c.Int(0) })
}

func (c *call) setEX(t *Txn) {
	c.setWith(t, c.Args[3], &setOptions{given: setEX, time: c.Args[2]}, c.OK, nil)
}

func (c *call) pSetEX(t *Txn) {
	c.setWith(t, c.Args[3], &setOptions{given: setPX, time: c.Args[2]}, c.OK, nil)
}

func (c *call) getSet(t *Txn) {
	it, ok := c.of(t, c.Args[1], value.String)
	if !ok || !c.fits(len(c.Args[2])) {
		return
	}
	c.bulkText(&it)
	c.putText(t, c.Args[1], c.Args[2], 0)
}

func (c *call) getDel(t *Txn) {
	it, ok := c.of(t, c.Args[1], value.String)
	if !ok {
		return
	}
	c.bulkText(&it)
	if it.exists() {
		t.Remove(c.Args[1])
	}
}

func (c *call) getEX(t *Txn) {
	o, ok := parseSetOptions(c.Args[2:], setPersist)
	if !ok {
		c.Fail(errSyntax)
		return
	}
	it, ok := c.of(t, c.Args[1], value.String)
	switch {
	case !ok:
		return
	case !it.exists():
		c.Null()
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
		c.put(t, c.Args[1], &it)
	}
}

func (c *call) mGet(t *Txn) {
	c.Array(len(c.Args) - 1)
	for _, key := range c.Args[1:] {
		it := c.item(t, key)
		if it.typ != value.String {
			it = item{}
		}
		c.bulkText(&it)
	}
}

func (c *call) mSet(t *Txn) { c.setAll(t, false) }

func (c *call) mSetNX(t *Txn) { c.setAll(t, true) }

// setAll sets all keys or, if one may not be set, none.
func (c *call) setAll(t *Txn, absent bool) {
	if len(c.Args)%2 == 0 {
		c.Fail("ERR wrong number of arguments for '" + c.cmd.Full + "' command")
		return
	}
	for i := 1; i < len(c.Args); i += 2 {
		it := c.item(t, c.Args[i])
		switch {
		case absent && it.exists():
			c.Int(0)
			return
		case !c.replaceable(&it) || !c.fits(len(c.Args[i+1])):
			return
		}
	}
	for i := 1; i < len(c.Args); i += 2 {
		c.putText(t, c.Args[i], c.Args[i+1], 0)
	}
	if absent {
		c.Int(1)
		return
	}
	c.OK()
}

func (c *call) appendTo(t *Txn) {
	it, ok := c.of(t, c.Args[1], value.String)
	if !ok {
		return
	}
	more, n := c.Args[2], value.StringLen(it.body)+len(c.Args[2])
	if !c.fits(n) {
		return
	}
	if !it.exists() {
		c.putText(t, c.Args[1], more, 0)
	} else {
		c.body = value.StringText(value.AppendRaw(c.body[:0], nil), it.body)
		c.body = append(c.body, more...)
		c.put(t, c.Args[1], &item{typ: value.String, expires: it.expires, body: c.body})
	}
	c.Int(int64(n))
}

func (c *call) strLen(t *Txn) {
	if it, ok := c.of(t, c.Args[1], value.String); ok {
		c.Int(int64(value.StringLen(it.body)))
	}
}

func (c *call) getRange(t *Txn) {
	start, ok1 := resp.ParseInt(c.Args[2])
	end, ok2 := resp.ParseInt(c.Args[3])
	if !ok1 || !ok2 {
		c.Fail(errNotInt)
		return
	}
	if it, ok := c.of(t, c.Args[1], value.String); ok {
		var buf [20]byte
		c.Bulk(value.Range(value.Text(it.body, buf[:]), start, end))
	}
}

func (c *call) setRange(t *Txn) {
	offset, ok := resp.ParseInt(c.Args[2])
	switch {
	case !ok:
		c.Fail(errNotInt)
		return
	case offset < 0:
		c.Fail("ERR offset is out of range")
		return
	}
	it, ok := c.of(t, c.Args[1], value.String)
	switch {
	case !ok:
		return
	case len(c.Args[3]) == 0:
		c.Int(int64(value.StringLen(it.body)))
		return
	}
	text, err := value.SetRange(value.StringText(nil, it.body), offset, c.Args[3])
	if err != nil {
		c.Fail(errStringTooLong)
		return
	}
	c.body = value.AppendRaw(c.body[:0], text)
	c.put(t, c.Args[1], &item{typ: value.String, expires: it.expires, body: c.body})
	c.Int(int64(len(text)))
}

// ttlOf returns the time that a key has left in ms: -2 for no such key, -1 for one that never expires.
func (c *call) ttlOf(it *item) int64 {
	switch {
	case !it.exists():
		return -2
	case it.kind != 0:
		return limit.Milliseconds(limit.Expires(it.kind, it.body) - c.Now)
	case it.expires == 0:
		return -1
	}
	return max(0, it.expires-c.NowMillis())
}
