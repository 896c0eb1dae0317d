package simulate

import (
	"bytes"
	"errors"
	"slices"
)

// accessField is a field of a line in an access log.
type accessField uint8

const (
	fieldAddr accessField = iota
	fieldIdent
	fieldUser
	fieldHost
	fieldMethod
	fieldURI
	fieldPath
	fieldProtocol
	fieldRequest
	fieldStatus
	fieldBytes
	fieldReferer
	fieldAgent
	accessFields
)

// AccessFields returns the names of the fields of an access log that a key can consist of: path is uri
// without the query, request is the whole request line.
func AccessFields() []string {
	return []string{
		"addr", "ident", "user", "host", "method", "uri", "path", "protocol", "request", "status", "bytes", "referer", "agent",
	}
}

var (
	errNoRequest = errors.New("there is no request in quotes")
	errNoLogTime = errors.New("there is no time in brackets before the request")
	errNoAddr    = errors.New("there is no address before the time")
)

// accessLine is a line of the common or combined log format, cut where its parts begin:
//
//	addr ident user [time] "request" status bytes "referer" "agent"
//
// Quotes inside quoted text are escaped, by nginx and by Apache. So are those in the user, which a hostile
// client chooses. So the first quote begins the request, and the last bracket before it ends the time.
type accessLine struct {
	head []byte // before the time
	time []byte
	tail []byte // after the request's first quote
}

// cut finds the parts.
func (a *accessLine) cut(line []byte) error {
	quote := indexQuote(line)
	if quote < 0 {
		return errNoRequest
	}
	open := bytes.LastIndexByte(line[:quote], '[')
	const length = len("10/Oct/2000:13:55:36 -0700")
	if open < 0 || open+length+1 >= quote || line[open+length+1] != ']' {
		return errNoLogTime
	}
	a.head, a.time, a.tail = line[:open], line[open+1:open+1+length], line[quote+1:]
	return nil
}

// indexQuote finds the first quote without a backslash before it.
func indexQuote(b []byte) int {
	from := 0
	for {
		i := bytes.IndexByte(b[from:], '"')
		if i < 0 {
			return -1
		}
		i += from
		slashes := 0
		for slashes < i && b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
		from = i + 1
	}
}

// accessParser parses an access log.
type accessParser struct {
	key      key
	wants    []accessField
	cost     accessField // accessFields means none
	all      bool        // needs more than addr
	tail     bool        // needs what follows the time
	nothing  [1]byte     // how a log writes a missing value
	line     accessLine
	fields   [accessFields][]byte
	values   [][]byte // of wants
	optional bool
}

func newAccessParser(o TraceOptions) (*accessParser, error) {
	p := &accessParser{cost: accessFields, nothing: [1]byte{'-'}}
	p.optional = o.Optional
	names := o.Key
	if names == nil {
		names = []string{"addr"}
	}
	for _, name := range names {
		f := slices.Index(AccessFields(), name)
		switch {
		case f < 0 && o.Optional:
			f = int(accessFields) // none
		case f < 0:
			return nil, fieldError(name, AccessFields())
		}
		p.wants = append(p.wants, accessField(f))
	}
	p.values = make([][]byte, len(p.wants))
	if o.Cost != "" {
		f := slices.Index(AccessFields(), o.Cost)
		if f < 0 {
			return nil, fieldError(o.Cost, AccessFields())
		}
		p.cost = accessField(f)
	}
	if o.Actual != "" {
		return nil, errors.New("an access log does not say when a cost was known: use a CSV or JSON lines")
	}
	if o.Time != "" {
		return nil, errors.New("the time of an access log is its own: no field can be chosen")
	}
	for _, f := range append(slices.Clip(p.wants), p.cost) {
		p.all = p.all || f != fieldAddr && f < accessFields
		p.tail = p.tail || f >= fieldMethod && f < accessFields
	}
	return p, nil
}

func (p *accessParser) parse(line []byte, req *Request) (err error) {
	if err := p.line.cut(line); err != nil {
		return err
	}
	if req.Time, err = parseCLF(p.line.time); err != nil {
		return err
	}
	if err := p.cutHead(); err != nil {
		return err
	}
	if p.tail {
		p.cutTail()
	}
	for i, f := range p.wants {
		if f == accessFields {
			p.values[i] = nil
			continue
		}
		if p.values[i] = p.fields[f]; p.values[i] == nil && !p.optional {
			return errNoField
		}
	}
	req.Values = p.values
	req.Key = p.key.join(req.Values)
	if p.cost < accessFields {
		cost := p.fields[p.cost]
		if string(cost) == "-" {
			cost = []byte("0")
		}
		req.Cost, err = parseCost(cost)
	}
	return err
}

// cutHead cuts "addr ident user", or "host addr ident user". Only a user may contain blanks, and an ident is
// nearly always "-". So of four words the first is a host if the third is "-" and the second is not.
func (p *accessParser) cutHead() error {
	head := bytes.TrimRight(p.line.head, " ")
	addr, after := word(head)
	if len(addr) == 0 {
		return errNoAddr
	}
	p.fields[fieldHost] = nil
	ident, user := word(after)
	if string(ident) != "-" {
		if third, fourth := word(user); string(third) == "-" && len(fourth) > 0 {
			p.fields[fieldHost] = addr
			addr, ident, user = ident, third, fourth
		}
	}
	p.fields[fieldAddr] = addr
	if p.all {
		p.fields[fieldIdent], p.fields[fieldUser] = orNil(ident), orNil(user)
	}
	return nil
}

// cutTail cuts what follows the first quote of the request. A request without two words is garbage: its
// method and uri are "-".
func (p *accessParser) cutTail() {
	for f := fieldMethod; f < accessFields; f++ {
		p.fields[f] = nil
	}
	request, after := untilQuote(p.line.tail)
	if request == nil {
		return
	}
	p.fields[fieldRequest] = request
	method, target := word(request)
	uri, protocol := word(target)
	if len(uri) == 0 {
		method, uri = p.nothing[:], p.nothing[:]
	}
	if len(protocol) == 0 {
		protocol = p.nothing[:]
	}
	p.fields[fieldMethod], p.fields[fieldURI], p.fields[fieldProtocol] = method, uri, protocol
	p.fields[fieldPath], _, _ = bytes.Cut(uri, []byte("?"))
	status, after := word(bytes.TrimLeft(after, " "))
	size, after := word(after)
	p.fields[fieldStatus], p.fields[fieldBytes] = orNil(status), orNil(size)
	if len(after) > 0 && after[0] == '"' {
		p.fields[fieldReferer], after = untilQuote(after[1:])
		if after = bytes.TrimLeft(after, " "); len(after) > 0 && after[0] == '"' {
			p.fields[fieldAgent], _ = untilQuote(after[1:])
		}
	}
}

// word cuts b at its first blank; after does not begin with blanks.
func word(b []byte) (first, after []byte) {
	i := bytes.IndexByte(b, ' ')
	if i < 0 {
		return b, nil
	}
	return b[:i], bytes.TrimLeft(b[i:], " ")
}

// untilQuote cuts b at its first quote; quoted is nil if there is none.
func untilQuote(b []byte) (quoted, after []byte) {
	i := indexQuote(b)
	if i < 0 {
		return nil, nil
	}
	return b[:i:i], b[i+1:]
}

// orNil returns nil for an empty b.
func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
