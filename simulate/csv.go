package simulate

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	errQuote      = errors.New("a quote is not closed, or is not where it can be")
	errTooFew     = errors.New("there are fewer columns than needed")
	errKeyMissing = errors.New("the key is empty")
)

// maxColumns is the most columns of a CSV that are looked at.
const maxColumns = 1024

// csvParser reads comma-separated values as in RFC 4180, but with each record on
// one line.
type csvParser struct {
	key     key
	unit    Unit
	time    int   // columns, from 0
	cost    int   // -1 for none
	keys    []int // in the order of the key
	last    int   // the last column that matters
	columns []string
	line    bytes.Buffer // what reader reads: one line at a time
	reader  *csv.Reader
	text    []byte // the columns that matter, as bytes
	values  [maxKeyFields][]byte
}

// newCSVParser finds the columns. first is the first line, which is a header if no
// time can be read where the time should be.
func newCSVParser(o TraceOptions, first []byte) (p *csvParser, header bool, err error) {
	p = &csvParser{unit: o.Unit}
	p.reader = csv.NewReader(&p.line)
	p.reader.ReuseRecord, p.reader.FieldsPerRecord = true, -1
	if err := p.split(first); err != nil {
		return nil, false, fmt.Errorf("the first line is not CSV: %w: %s", err, quoteLine(first))
	}
	names := make([]string, len(p.columns))
	for i, c := range p.columns {
		names[i] = strings.Clone(strings.TrimSpace(c))
	}
	at := 0
	if n, ok := columnNumber(o.Time); ok {
		at = n
	}
	header = at >= len(names)
	if !header {
		_, err := parseTime([]byte(names[at]), p.unit)
		header = err != nil
	}
	return p, header, p.find(o, names, header)
}

// find fills in the columns' numbers.
func (p *csvParser) find(o TraceOptions, names []string, header bool) (err error) {
	if !header {
		names = names[:0:0]
	}
	if p.time, err = column(names, o.Time, 0, timeNames()); err != nil {
		return err
	}
	if p.cost, err = column(names, o.Cost, 2, []string{"cost"}); err != nil {
		if o.Cost != "" {
			return err
		}
		p.cost = -1 // there need not be one
	}
	wanted := o.Key
	if wanted == nil {
		wanted = []string{""}
	}
	for _, name := range wanted {
		c, err := column(names, name, 1, []string{"key"})
		if err != nil {
			return err
		}
		p.keys = append(p.keys, c)
	}
	p.last = max(p.time, 0)
	for _, c := range p.keys {
		p.last = max(p.last, c)
	}
	if o.Cost != "" {
		p.last = max(p.last, p.cost)
	}
	return nil
}

// timeNames are the names of a field that is taken for the time, the first that
// there is.
func timeNames() []string { return []string{"time", "timestamp", "ts", "@timestamp"} }

// column is the number of a column: of that name; or if there is no name, the
// first there is of usual, or without a header the one at place.
func column(names []string, name string, place int, usual []string) (int, error) {
	if n, ok := columnNumber(name); ok {
		return n, nil
	}
	if name == "" && len(names) == 0 {
		return place, nil
	}
	if name != "" {
		usual = []string{name}
	}
	for _, want := range usual {
		for i, have := range names {
			if have == want {
				return i, nil
			}
		}
	}
	if len(names) == 0 {
		return 0, fmt.Errorf("there is no column %q: the first line is not a header", name)
	}
	return 0, fieldError(usual[0], names)
}

// columnNumber reads a column's number, from 1.
func columnNumber(name string) (column int, ok bool) {
	n, err := strconv.Atoi(name)
	return n - 1, err == nil && n >= 1 && n <= maxColumns
}

func (p *csvParser) parse(line []byte, req *Request) (err error) {
	if err := p.split(line); err != nil {
		return err
	}
	if len(p.columns) <= p.last {
		return errTooFew
	}
	if req.Time, err = parseTime(p.bytes(strings.TrimSpace(p.columns[p.time])), p.unit); err != nil {
		return err
	}
	for i, c := range p.keys {
		if p.values[i] = p.bytes(p.columns[c]); len(p.values[i]) == 0 && len(p.keys) == 1 {
			return errKeyMissing
		}
	}
	req.Key = p.key.join(p.values[:len(p.keys)])
	if p.cost >= 0 && p.cost < len(p.columns) {
		if cost := p.bytes(strings.TrimSpace(p.columns[p.cost])); len(cost) > 0 {
			req.Cost, err = parseCost(cost)
		}
	}
	return err
}

// split cuts a line into columns, maxColumns at most.
func (p *csvParser) split(line []byte) error {
	p.line.Reset()
	p.line.Write(line)
	p.line.WriteByte('\n')
	columns, err := p.reader.Read()
	if err != nil {
		return errQuote
	}
	p.columns, p.text = columns[:min(len(columns), maxColumns)], p.text[:0]
	return nil
}

// bytes returns a column as bytes, which are valid until the next line.
func (p *csvParser) bytes(column string) []byte {
	from := len(p.text)
	p.text = append(p.text, column...)
	return p.text[from:]
}
