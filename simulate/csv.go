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
	errQuote  = errors.New("a quote is not closed, or stands where none is allowed")
	errTooFew = errors.New("there are fewer columns than needed")
)

// maxColumns is the maximum number of columns of a CSV that are read.
const maxColumns = 1024

// csvParser parses comma-separated values as in RFC 4180, but with each record on one line.
type csvParser struct {
	key     key
	unit    Unit
	time    int // columns, from 0
	cost    int // -1 means none
	actual  int // -1 means none, as does took
	took    int
	keys    []int // in the order of the key
	last    int   // the last column that is needed
	columns []string
	line    bytes.Buffer // what reader reads: one line at a time
	reader  *csv.Reader
	text    []byte   // the columns that are needed, as bytes
	values  [][]byte // of keys
}

// newCSVParser finds the columns. first is the first line. It is a header if the time cannot be parsed where
// it should be.
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

// find sets the numbers of the columns.
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
		p.cost = -1 // the cost is optional
	}
	wanted := o.Key
	if wanted == nil {
		wanted = []string{""}
	}
	for _, name := range wanted {
		c, err := column(names, name, 1, []string{"key"})
		switch {
		case err != nil && o.Optional && len(names) > 0:
			c = -1
		case err != nil:
			return err
		}
		p.keys = append(p.keys, c)
	}
	p.actual, p.took = -1, -1
	for _, of := range [...]struct {
		name string
		at   *int
	}{{o.Actual, &p.actual}, {o.Took, &p.took}} {
		if of.name == "" {
			continue
		}
		if *of.at, err = column(names, of.name, 0, nil); err != nil {
			return err
		}
	}
	p.last = max(p.time, p.actual, p.took)
	for _, c := range p.keys {
		p.last = max(p.last, c)
	}
	if o.Cost != "" {
		p.last = max(p.last, p.cost)
	}
	p.values = make([][]byte, len(p.keys))
	return nil
}

// timeNames returns the usual names of the field with the time, in order of precedence.
func timeNames() []string { return []string{"time", "timestamp", "ts", "@timestamp"} }

// column returns the number of the column with this name. Without a name it is the first of usual that exists
// or, without a header, the one at place.
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

// columnNumber parses the number of a column, from 1.
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
		if c < 0 {
			p.values[i] = nil
			continue
		}
		p.values[i] = p.bytes(p.columns[c])
	}
	req.Values = p.values
	req.Key = p.key.join(req.Values)
	if p.cost >= 0 && p.cost < len(p.columns) {
		if cost := p.bytes(strings.TrimSpace(p.columns[p.cost])); len(cost) > 0 {
			req.Cost, err = parseCost(cost)
		}
	}
	if err == nil && p.actual >= 0 {
		err = req.estimated(p.bytes(strings.TrimSpace(p.columns[p.actual])), p.bytes(strings.TrimSpace(p.columns[p.took])))
	}
	return err
}

// split cuts a line into at most maxColumns columns.
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
