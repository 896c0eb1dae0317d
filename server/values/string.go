package values

import (
	"slices"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/spec"
	"limitdb/value"
)

// Strings, with Redis 7's replies and errors.
func stringRows() []Row {
	set := onKey("SET", -3, spec.Write|spec.Ahead, "string", "Sets the string of a key, with an expiry or conditions if you like.", setKey,
		spec.Text("value"),
		spec.OneOf("condition", spec.Word("NX"), spec.Word("XX")), spec.Optional(spec.Word("GET")),
		spec.OneOf("expiration", expiryWords(spec.Word("KEEPTTL"))...)).Uses("RW access update variable_flags")
	set.KeyFlagsOf = func(args [][]byte) string {
		if slices.ContainsFunc(args[3:], func(a []byte) bool { return resp.EqualFold(a, "GET") }) {
			return "RW access update"
		}
		return "OW update"
	}
	return []Row{
		onKey("GET", 2, spec.Readonly|spec.Fast, "string", "Returns the string of a key.", get),
		set,
		onKey("SETNX", 3, spec.Write|spec.Fast, "string", "Sets the string of a key that does not exist.", setNX, spec.Text("value")).Uses("OW insert"),
		onKey("SETEX", 4, spec.Write|spec.Ahead, "string", "Sets the string of a key, which expires after that many seconds.", setEX, spec.Integer("seconds"), spec.Text("value")).Uses("OW update"),
		onKey("PSETEX", 4, spec.Write|spec.Ahead, "string", "Sets the string of a key, which expires after that many milliseconds.", pSetEX, spec.Integer("milliseconds"), spec.Text("value")).Uses("OW update"),
		onKey("GETSET", 3, spec.Write|spec.Fast, "string", "Sets the string of a key and returns the old one.", getSet, spec.Text("value")),
		onKey("GETDEL", 2, spec.Write|spec.Fast, "string", "Returns the string of a key and forgets the key.", getDel).Uses("RW access delete"),
		onKey("GETEX", -2, spec.Write|spec.Fast, "string", "Returns the string of a key, and sets when it expires.", getEX,
			spec.OneOf("expiration", expiryWords(spec.Word("PERSIST"))...)),
		onKeys("MGET", -2, spec.Readonly|spec.Fast|spec.Wide, 1, "string", "Returns the strings of keys.", mGet, spec.Argument{Name: "key", Kind: "key", Multiple: true}),
		onKeys("MSET", -3, spec.Write|spec.Wide, 2, "string", "Sets the strings of keys, in one step.", mSet, keyValues()).Uses("OW update"),
		onKeys("MSETNX", -3, spec.Write|spec.Wide, 2, "string", "Sets the strings of keys, if none of them exists.", mSetNX, keyValues()).Uses("OW insert"),
		onKey("APPEND", 3, spec.Write|spec.Fast, "string", "Appends to the string of a key; returns its length.", appendTo, spec.Text("value")).Uses("RW insert"),
		onKey("STRLEN", 2, spec.Readonly|spec.Fast, "string", "Returns the length of a key's string.", strLen).Uses("RO"),
		onKey("GETRANGE", 4, spec.Readonly|spec.Ahead, "string", "Returns a part of a key's string.", getRange, spec.Integer("start"), spec.Integer("end")),
		onKey("SUBSTR", 4, spec.Readonly|spec.Ahead, "string", "Returns a part of a key's string; the old name of GETRANGE.", getRange, spec.Integer("start"), spec.Integer("end")),
		onKey("SETRANGE", 4, spec.Write|spec.Ahead, "string", "Writes over a part of a key's string; returns its length.", setRange, spec.Integer("offset"), spec.Text("value")).Uses("RW update"),
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
func (c *Call) bulkText(it *Item) {
	if it.Type == value.None {
		c.Null()
		return
	}
	var buf [20]byte
	c.Bulk(value.Text(it.Body, buf[:]))
}

func get(c *Call, t *Txn) {
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
	optionNX setOption = 1 << iota
	optionXX
	optionGet
	optionKeepTTL
	optionPersist
	optionEX
	optionPX
	optionAt // with EX or PX: the time is absolute

	optionTimes = optionEX | optionPX | optionAt
)

// parseSetOptions parses the options from words on. SET has those of allowed beside the expiries.
func parseSetOptions(words [][]byte, allowed setOption) (o setOptions, ok bool) {
	for i := 0; i < len(words); i++ {
		option, against := setOptionOf(words[i])
		if option&optionTimes == 0 && option&allowed == 0 || o.given&against != 0 {
			return o, false
		}
		o.given |= option
		if option&optionTimes != 0 {
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
		return optionNX, optionXX
	case resp.EqualFold(w, "XX"):
		return optionXX, optionNX
	case resp.EqualFold(w, "GET"):
		return optionGet, 0
	case resp.EqualFold(w, "KEEPTTL"):
		return optionKeepTTL, optionTimes | optionPersist
	case resp.EqualFold(w, "PERSIST"):
		return optionPersist, optionTimes | optionKeepTTL
	case resp.EqualFold(w, "EX"):
		return optionEX, optionPX | optionAt | optionKeepTTL | optionPersist
	case resp.EqualFold(w, "PX"):
		return optionPX, optionEX | optionAt | optionKeepTTL | optionPersist
	case resp.EqualFold(w, "EXAT"):
		return optionEX | optionAt, optionPX | optionKeepTTL | optionPersist | optionEX
	case resp.EqualFold(w, "PXAT"):
		return optionPX | optionAt, optionEX | optionKeepTTL | optionPersist | optionPX
	}
	return 0, 0
}

// expiry parses the time of the options, in ms of Unix time. If it fails, it replies with the error.
func (c *Call) expiry(o *setOptions) (ms int64, ok bool) {
	ms, ok = resp.ParseInt(o.time)
	if !ok {
		c.Fail(spec.ErrNotInt)
		return 0, false
	}
	base := c.NowMillis()
	if o.given&optionAt != 0 {
		base = 0
	}
	if ms <= 0 {
		ok = false
	} else if ms, ok = addTime(ms, o.given&optionEX != 0, base); ok {
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
func (c *Call) failExpiry() { c.Fail("ERR invalid expire time in '" + c.Command.Full + "' command") }

func setKey(c *Call, t *Txn) {
	o, ok := parseSetOptions(c.Args[3:], optionNX|optionXX|optionGet|optionKeepTTL)
	if !ok {
		c.Fail(spec.ErrSyntax)
		return
	}
	setWith(c, t, c.Args[2], &o, c.OK, c.Null)
}

// setWith sets the command's key as the options say, and replies with done, or with not if
// a condition was not met.
func setWith(c *Call, t *Txn, text []byte, o *setOptions, done, not func()) {
	expires, ok := int64(0), true
	if o.given&optionTimes != 0 {
		if expires, ok = c.expiry(o); !ok {
			return
		}
	}
	key := c.Args[1]
	it := c.Item(t, key)
	if o.given&optionGet != 0 && it.Exists() && it.Type != value.String {
		c.failWrongType(&it, value.String.String())
		return
	}
	met := o.given&optionNX == 0 || !it.Exists()
	met = met && (o.given&optionXX == 0 || it.Exists())
	if met && (!c.replaceable(&it) || !c.fits(len(text))) {
		return
	}
	switch {
	case o.given&optionGet != 0:
		c.bulkText(&it)
	case met:
		done()
	default:
		not()
	}
	if met {
		if o.given&optionKeepTTL != 0 {
			expires = it.Expires
		}
		c.putText(t, key, text, expires)
	}
}

// fits reports whether a string may have n bytes. If not, it replies with the error.
func (c *Call) fits(n int) bool {
	if n > value.MaxString {
		c.Fail(errStringTooLong)
		return false
	}
	return true
}

// putText makes key hold a string with the text.
func (c *Call) putText(t *Txn, key, text []byte, expires int64) {
	c.body = value.AppendString(c.body[:0], text)
	c.Put(t, key, &Item{Type: value.String, Expires: expires, Body: c.body})
}

func setNX(c *Call, t *Txn) {
	setWith(c, t, c.Args[2], &setOptions{given: optionNX}, func() { c.Int(1) }, func() { c.Int(0) })
}

func setEX(c *Call, t *Txn) {
	setWith(c, t, c.Args[3], &setOptions{given: optionEX, time: c.Args[2]}, c.OK, nil)
}

func pSetEX(c *Call, t *Txn) {
	setWith(c, t, c.Args[3], &setOptions{given: optionPX, time: c.Args[2]}, c.OK, nil)
}

func getSet(c *Call, t *Txn) {
	it, ok := c.of(t, c.Args[1], value.String)
	if !ok || !c.fits(len(c.Args[2])) {
		return
	}
	c.bulkText(&it)
	c.putText(t, c.Args[1], c.Args[2], 0)
}

func getDel(c *Call, t *Txn) {
	it, ok := c.of(t, c.Args[1], value.String)
	if !ok {
		return
	}
	c.bulkText(&it)
	if it.Exists() {
		t.Remove(c.Args[1])
	}
}

func getEX(c *Call, t *Txn) {
	o, ok := parseSetOptions(c.Args[2:], optionPersist)
	if !ok {
		c.Fail(spec.ErrSyntax)
		return
	}
	it, ok := c.of(t, c.Args[1], value.String)
	switch {
	case !ok:
		return
	case !it.Exists():
		c.Null()
		return
	}
	before := it.Expires
	switch {
	case o.given&optionPersist != 0:
		it.Expires = 0
	case o.given&optionTimes != 0:
		if it.Expires, ok = c.expiry(&o); !ok {
			return
		}
	}
	c.bulkText(&it)
	if it.Expires != before {
		c.Change(t, c.Args[1], &it, nil)
	}
}

func mGet(c *Call, t *Txn) {
	most := c.OutputLimit()
	c.Array(len(c.Args) - 1)
	for _, key := range c.Args[1:] {
		it := c.Item(t, key)
		if it.Type != value.String {
			it = Item{}
		}
		if c.bulkText(&it); c.TooLong(t, most) {
			return
		}
	}
}

func mSet(c *Call, t *Txn) { setAll(c, t, false) }

func mSetNX(c *Call, t *Txn) { setAll(c, t, true) }

// setAll sets all keys or, if one may not be set, none.
func setAll(c *Call, t *Txn, absent bool) {
	if len(c.Args)%2 == 0 {
		c.Fail("ERR wrong number of arguments for '" + c.Command.Full + "' command")
		return
	}
	for i := 1; i < len(c.Args); i += 2 {
		it := c.Item(t, c.Args[i])
		switch {
		case absent && it.Exists():
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

func appendTo(c *Call, t *Txn) {
	it, ok := c.of(t, c.Args[1], value.String)
	if !ok {
		return
	}
	more, n := c.Args[2], value.StringLen(it.Body)+len(c.Args[2])
	if !c.fits(n) {
		return
	}
	if !it.Exists() {
		c.putText(t, c.Args[1], more, 0)
	} else {
		c.overwrite(t, &it, n-len(more), more)
	}
	c.Int(int64(n))
}

// overwrite writes over a part of the text of the command's key.
func (c *Call) overwrite(t *Txn, it *Item, at int, part []byte) {
	var room [2]value.Splice
	body, splices := value.Overwrite(c.body, it.Body, at, part, room[:0])
	c.body = body
	c.Change(t, c.Args[1], &Item{Type: value.String, Expires: it.Expires, Body: body}, splices)
}

func strLen(c *Call, t *Txn) {
	if it, ok := c.of(t, c.Args[1], value.String); ok {
		c.Int(int64(value.StringLen(it.Body)))
	}
}

func getRange(c *Call, t *Txn) {
	start, ok1 := resp.ParseInt(c.Args[2])
	end, ok2 := resp.ParseInt(c.Args[3])
	if !ok1 || !ok2 {
		c.Fail(spec.ErrNotInt)
		return
	}
	if it, ok := c.of(t, c.Args[1], value.String); ok {
		var buf [20]byte
		c.Bulk(value.Range(value.Text(it.Body, buf[:]), start, end))
	}
}

func setRange(c *Call, t *Txn) {
	offset, ok := resp.ParseInt(c.Args[2])
	switch {
	case !ok:
		c.Fail(spec.ErrNotInt)
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
		c.Int(int64(value.StringLen(it.Body)))
		return
	}
	at, part := int(min(offset, value.MaxString+1)), c.Args[3]
	if !c.fits(at + len(part)) {
		return
	}
	n := max(value.StringLen(it.Body), at+len(part))
	c.overwrite(t, &it, at, part)
	c.Int(int64(n))
}

// TTL returns the time that a key has left in ms: -2 for no such key, -1 for one that never expires.
func (c *Call) TTL(it *Item) int64 {
	switch {
	case !it.Exists():
		return -2
	case it.Kind != 0:
		return limit.Milliseconds(limit.Expires(it.Kind, it.Body) - c.Now)
	case it.Expires == 0:
		return -1
	}
	return max(0, it.Expires-c.NowMillis())
}
