package simulate

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Request is one line of a trace.
type Request struct {
	// Time is in nanoseconds since the Unix epoch.
	Time int64
	// Key tells callers apart. It is valid until the next request is read.
	Key []byte
	// Cost is 0 or more; 1 if the trace does not tell.
	Cost int64
}

// Format is how the lines of a trace are written.
type Format uint8

// The formats of traces.
const (
	// Auto finds out from the first lines.
	Auto Format = iota
	// CSV is time,key[,cost], or columns named by a first line.
	CSV
	// JSON is one object a line, with the members time, key and cost.
	JSON
	// AccessLog is the common or the combined log format of nginx and Apache,
	// also with the virtual host in front.
	AccessLog
)

// ParseFormat finds a format by its name: auto, csv, json or access.
func ParseFormat(name string) (Format, error) {
	for f := Auto; f <= AccessLog; f++ {
		if name == f.String() {
			return f, nil
		}
	}
	return Auto, fmt.Errorf("unknown format %q: it is auto, csv, json or access", name)
}

// String is the format's name, as ParseFormat reads it.
func (f Format) String() string {
	switch f {
	case Auto:
		return "auto"
	case CSV:
		return "csv"
	case JSON:
		return "json"
	case AccessLog:
		return "access"
	}
	return "Format(" + strconv.Itoa(int(f)) + ")"
}

// TraceOptions says how to read a trace. The zero value is right for a trace of
// the plain form.
type TraceOptions struct {
	Format Format
	// Key has the names of the fields that make up the key: columns of a CSV
	// (also by number, from 1), members of JSON objects (a.b is b within a), or
	// fields of an access log, which AccessFields lists. nil is "key", or the second
	// column, or the client's address; with no names at all, everybody is one caller.
	Key []string
	// Time is the name of the field with the time; "" is the first column, or the
	// first there is of time, timestamp, ts and @timestamp. An access log's is its own.
	Time string
	// Cost is the name of the field with the cost; "" is the third column or "cost",
	// if there is one.
	Cost string
	// Unit is that of times that are numbers.
	Unit Unit
}

// maxKeyFields is the most fields of a key.
const maxKeyFields = 16

// Trace reads requests, one from each line.
type Trace struct {
	lines  *lines
	parser parser
	format Format
	line   int64
}

// parser reads lines of one format.
type parser interface {
	// parse reads one line; req.Key is valid until the next call.
	parse(line []byte, req *Request) error
}

// NewTrace begins to read a trace, which may be compressed with gzip. It is an
// error if there are no lines, if their format cannot be told, or if the options
// ask for what the trace does not have.
func NewTrace(r io.Reader, o TraceOptions) (*Trace, error) {
	if len(o.Key) > maxKeyFields {
		return nil, fmt.Errorf("a key has at most %d fields", maxKeyFields)
	}
	l := newLines(r)
	if magic := l.peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(&rest{l})
		if err != nil {
			return nil, err
		}
		l = newLines(z)
	}
	if string(l.peek(3)) == "\ufeff" {
		l.begin += 3 // a byte order mark
	}
	head := l.peek(64 << 10)
	if len(head) == 0 {
		if l.err != io.EOF {
			return nil, l.err
		}
		return nil, errEmpty
	}
	t := &Trace{lines: l, format: o.Format}
	if t.format == Auto {
		t.format = detect(head)
	}
	return t, t.begin(o)
}

// begin makes the parser, and reads a CSV's header.
func (t *Trace) begin(o TraceOptions) (err error) {
	switch t.format {
	case Auto:
		return errors.New("the first lines do not show the format: set it to csv, json or access")
	case JSON:
		t.parser = newJSONParser(o)
	case AccessLog:
		t.parser, err = newAccessParser(o)
	case CSV:
		err = t.beginCSV(o)
	}
	return err
}

// beginCSV looks at the first line that is not empty: without a time, it is a header.
func (t *Trace) beginCSV(o TraceOptions) error {
	head := t.lines.peek(64 << 10)
	for len(head) > 0 && (head[0] == '\n' || head[0] == '\r') {
		head = head[1:]
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	p, header, err := newCSVParser(o, bytes.TrimSuffix(first, []byte("\r")))
	if err != nil {
		return err
	}
	t.parser = p
	for header {
		line, err := t.lines.next()
		if err != nil {
			return err
		}
		t.line++
		header = len(line) == 0
	}
	return nil
}

// detect tells the format of the first lines, Auto if it is none.
func detect(head []byte) Format {
	var access accessLine
	commas := false
	for line := range bytes.Lines(head) {
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("{")):
			return JSON
		case access.cut(line) == nil:
			return AccessLog
		}
		if time, _, comma := bytes.Cut(line, []byte(",")); comma {
			commas = true
			if _, err := parseTime(bytes.Trim(time, `" `), AutoUnit); err == nil {
				return CSV
			}
		}
	}
	if commas {
		return CSV // under a header, or in another order
	}
	return Auto
}

// Format is that of the trace, as given or as found out.
func (t *Trace) Format() Format { return t.format }

// Next reads the next request. The error is a *LineError if a line is wrong, and
// reading can go on after it; io.EOF at the end; or what the reader said.
func (t *Trace) Next(req *Request) error {
	for {
		line, err := t.lines.next()
		if err == nil && len(line) == 0 {
			t.line++
			continue
		}
		if err != nil && !errors.Is(err, errLongLine) {
			if err != io.EOF {
				err = fmt.Errorf("after line %d: %w", t.line, err)
			}
			return err
		}
		t.line++
		req.Cost = 1
		if err == nil {
			err = t.parser.parse(line, req)
		}
		if err == nil {
			return nil
		}
		return &LineError{Line: t.line, Text: quoteLine(line), Err: err}
	}
}

// LineError is a line that is no request.
type LineError struct {
	// Line is its number, from 1.
	Line int64
	// Text is its beginning, quoted.
	Text string
	// Err says what is wrong.
	Err error
}

// Error tells the line's number, what is wrong, and how the line begins.
func (e *LineError) Error() string {
	return fmt.Sprintf("line %d: %v: %s", e.Line, e.Err, e.Text)
}

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// quoteLine makes a line's beginning printable.
func quoteLine(line []byte) string {
	const most = 80
	if len(line) > most {
		return strconv.Quote(string(line[:most])) + "..."
	}
	return strconv.Quote(string(line))
}

// rest reads what lines has not cut yet.
type rest struct{ *lines }

func (r *rest) Read(p []byte) (int, error) {
	if r.begin == r.end {
		if r.err != nil {
			return 0, r.err
		}
		r.fill()
	}
	n := copy(p, r.buf[r.begin:r.end])
	r.begin += n
	return n, nil
}

// key puts the values of fields together to one key.
type key struct {
	buf []byte
}

// join makes a key of values. One is the key as it is; several are apart by blanks,
// and quoted where they could be taken for others.
func (k *key) join(values [][]byte) []byte {
	if len(values) == 1 {
		return values[0]
	}
	k.buf = k.buf[:0]
	for i, v := range values {
		if i > 0 {
			k.buf = append(k.buf, ' ')
		}
		if len(v) == 0 || bytes.ContainsFunc(v, needsQuotes) {
			k.buf = strconv.AppendQuote(k.buf, string(v))
		} else {
			k.buf = append(k.buf, v...)
		}
	}
	return k.buf
}

func needsQuotes(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r == 0x7f }

// parseCost reads a cost, an integer of 0 or more.
func parseCost(b []byte) (int64, error) {
	n := int64(0)
	for _, c := range b {
		d := int64(c - '0')
		if !isDigit(c) || n > (1<<63-1-d)/10 {
			return 0, errCost
		}
		n = n*10 + d
	}
	if len(b) == 0 {
		return 0, errCost
	}
	return n, nil
}

var (
	errEmpty   = errors.New("there are no lines")
	errCost    = errors.New("the cost is not an integer of 0 or more")
	errNoField = errors.New("a field is missing")
)

// fieldError names a field that a line or a format does not have.
func fieldError(name string, have []string) error {
	return fmt.Errorf("there is no field %q: there are %s", name, strings.Join(have, " "))
}
