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
	// Time is in Unix ns.
	Time int64
	// Key identifies the caller. It is valid until the next request is read.
	Key []byte
	// Cost is 0 or more; it is 1 if the trace has none.
	Cost int64
	// Values are those of the fields of TraceOptions.Key; nil for one that an Optional trace lacks here. They are
	// valid as long as Key.
	Values [][]byte
	// Held says that Cost is an estimate: Actual is what the request has cost, which was known Took ns later. Actual is less than 0 if it
	// never was.
	Held         bool
	Actual, Took int64
}

// Format is the format of a trace's lines.
type Format uint8

// The formats of traces.
const (
	// Auto detects the format from the first lines.
	Auto Format = iota
	// CSV is time,key[,cost], or columns that the first line names.
	CSV
	// JSON is one object a line, with the members time, key and cost.
	JSON
	// AccessLog is the common or combined log format of nginx and Apache, with or without the virtual host in
	// front.
	AccessLog
)

// ParseFormat parses the name of a format: auto, csv, json or access.
func ParseFormat(name string) (Format, error) {
	for f := Auto; f <= AccessLog; f++ {
		if name == f.String() {
			return f, nil
		}
	}
	return Auto, fmt.Errorf("unknown format %q: it is auto, csv, json or access", name)
}

// String returns the name of the format, as ParseFormat parses it.
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

// TraceOptions says how to read a trace. The zero value suits a trace in the simplest form.
type TraceOptions struct {
	Format Format
	// Key names the fields of which the key consists: columns of a CSV (also by number, from 1), members of
	// JSON objects (a.b is b within a), or fields of an access log, which AccessFields lists. Nil means
	// "key", the second column, or the client's address. If it is empty but not nil, all requests come from
	// one caller.
	Key []string
	// Optional accepts lines that lack fields of Key.
	Optional bool
	// Anonymous takes "-" and an empty field for values like others. Without it they mean that there is none, as
	// in the logs of servers, and a request in which all fields of Key are so is ErrNoCaller.
	Anonymous bool
	// Time is the name of the field with the time. "" means the first column, or the first that exists of
	// time, timestamp, ts and @timestamp. An access log has its own.
	Time string
	// Cost is the name of the field with the cost. "" means the third column or "cost", if it exists.
	Cost string
	// Actual is the name of the field with the actual cost of a request, for which Cost is then an estimate, and Took that of how long it took
	// until it was known, in ms or with a unit. "" means that all costs are known at once. If a line lacks its actual cost, that was never known.
	Actual, Took string
	// Unit is the unit of times that are numbers.
	Unit Unit
}

// Trace reads requests, one from each line.
type Trace struct {
	lines  *lines
	parser parser
	format Format
	line   int64

	optional, anonymous bool
}

// parser parses lines of one format.
type parser interface {
	// parse parses one line; req.Key is valid until the next call.
	parse(line []byte, req *Request) error
}

// NewTrace begins to read a trace, which may be compressed with gzip. It returns an error if there are no
// lines, if their format is unknown, or if the options name something that the trace does not have.
func NewTrace(r io.Reader, o TraceOptions) (*Trace, error) {
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
	t := &Trace{lines: l, format: o.Format, optional: o.Optional, anonymous: o.Anonymous}
	if t.format == Auto {
		t.format = detect(head)
	}
	return t, t.begin(o)
}

// begin makes the parser, and reads the header of a CSV.
func (t *Trace) begin(o TraceOptions) (err error) {
	if t.format == Auto {
		return errors.New("the first lines do not show the format: set it to csv, json or access")
	}
	if (o.Actual == "") != (o.Took == "") {
		return errNoTook
	}
	switch t.format {
	case JSON:
		t.parser = newJSONParser(o)
	case AccessLog:
		t.parser, err = newAccessParser(o)
	case CSV:
		err = t.beginCSV(o)
	}
	return err
}

// beginCSV examines the first line that is not empty: without a time, it is a header.
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

// detect returns the format of the first lines, or Auto if it is none of the known ones.
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
		return CSV // with a header, or with the columns in another order
	}
	return Auto
}

// Next reads the next request. It returns a *LineError if a line is wrong, and reading can go on after it;
// io.EOF at the end; or the reader's error.
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
		req.Cost, req.Held = 1, false
		if err == nil {
			err = t.parser.parse(line, req)
		}
		if err == errSettled {
			continue
		}
		if err == nil && !t.anonymous {
			err = t.identify(req)
		}
		if err == nil {
			return nil
		}
		return &LineError{Line: t.line, Text: quoteLine(line), Err: err}
	}
}

// identify returns ErrNoCaller for a request without a caller. Of an Optional one it removes the values that mean none.
func (t *Trace) identify(req *Request) error {
	none := 0
	for i, v := range req.Values {
		if len(v) > 0 && string(v) != "-" {
			continue
		}
		if none++; t.optional {
			req.Values[i] = nil
		}
	}
	if !t.optional && none > 0 && none == len(req.Values) {
		return ErrNoCaller
	}
	return nil
}

// LineError describes a line that is not a request.
type LineError struct {
	// Line is the number of the line, from 1.
	Line int64
	// Text is the beginning of the line, quoted.
	Text string
	// Err says what is wrong.
	Err error
}

// Error returns the line's number, what is wrong, and how the line begins.
func (e *LineError) Error() string {
	return fmt.Sprintf("line %d: %v: %s", e.Line, e.Err, e.Text)
}

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// quoteLine makes the beginning of a line printable.
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

// key joins the values of fields to one key.
type key struct {
	buf []byte
}

// join makes a key of values. A single value is the key itself. Several are separated by blanks, and quoted
// if they would be ambiguous.
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

// parseCost parses a cost, an integer of 0 or more.
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

// ErrNoCaller is the error of a line whose fields of the key are empty or "-".
var ErrNoCaller = errors.New("the request has no caller")

var (
	errEmpty   = errors.New("there are no lines")
	errCost    = errors.New("the cost is not an integer of 0 or more")
	errNoField = errors.New("a field is missing")
)

// fieldError returns an error that names a field which a line or a format does not have.
func fieldError(name string, have []string) error {
	return fmt.Errorf("there is no field %q: there are %s", name, strings.Join(have, " "))
}
