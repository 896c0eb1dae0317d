package simulate

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzLineCSV holds the CSV parser to encoding/csv.
func FuzzLineCSV(f *testing.F) {
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.ContainsAny(line, "\r\n") || len(line) == 0 {
			return
		}
		var p csvParser
		err := p.split(line)
		r := csv.NewReader(bytes.NewReader(line))
		want, wantErr := r.Read()
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%q: %v, encoding/csv says %v", line, err, wantErr)
		}
		if err != nil {
			return
		}
		if len(want) > maxColumns {
			want = want[:maxColumns]
		}
		if len(p.columns) != len(want) {
			t.Fatalf("%q: %q, want %q", line, p.columns, want)
		}
		for i, c := range p.columns {
			if string(c) != want[i] {
				t.Fatalf("%q: %q, want %q", line, p.columns, want)
			}
		}
		var req Request
		p = csvParser{keys: []int{1}, cost: 2, last: 1}
		if err := p.parse(line, &req); err == nil && (len(want) < 2 || string(req.Key) != want[1] || req.Cost < 0) {
			t.Fatalf("%q: %+v of %q", line, req, want)
		}
	})
}

// FuzzLineJSON holds the JSON parser to encoding/json.
func FuzzLineJSON(f *testing.F) {
	f.Fuzz(func(t *testing.T, line []byte) {
		p := newJSONParser(TraceOptions{Key: []string{"key", "a.b"}})
		p.line = line
		var req Request
		err := p.parse(line, &req)
		broken := err == errJSON || err == errJSONDeep
		isObject := json.Valid(line) && strings.HasPrefix(strings.TrimLeft(string(line), " \t\r\n"), "{")
		if broken == isObject && err != errJSONDeep {
			t.Fatalf("%q: %v, but an object: %v", line, err, isObject)
		}
		if broken || !utf8.Valid(line) {
			return
		}
		var want map[string]any
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if got := p.wants[p.times]; !sameValue(got, want["key"]) {
			t.Fatalf("%q: %q, want %v", line, got.value, want["key"])
		}
		// Only where a comes once: of several, encoding/json knows the last.
		if a, ok := want["a"].(map[string]any); ok && want["a.b"] == nil && bytes.Count(line, []byte{'"'}) == 4 {
			if got := p.wants[p.times+1]; !sameValue(got, a["b"]) {
				t.Fatalf("%q: %q, want %v", line, got.value, a["b"])
			}
		}
	})
}

// sameValue compares a member with what encoding/json has made of it.
func sameValue(got wanted, want any) bool {
	switch v := want.(type) {
	case nil:
		return got.value == nil && !got.bad
	case string:
		return string(got.value) == v
	case json.Number:
		return string(got.value) == v.String()
	case bool:
		return string(got.value) == map[bool]string{true: "true", false: "false"}[v]
	}
	return got.bad
}

// FuzzLineAccess feeds the access log's parser anything, and lines written as nginx
// and Apache write them, of fields that a hostile client may choose.
func FuzzLineAccess(f *testing.F) {
	f.Fuzz(func(t *testing.T, line []byte, user, uri, agent string) {
		p, err := newAccessParser(TraceOptions{Key: AccessFields()[:1]})
		if err != nil {
			t.Fatal(err)
		}
		var req Request
		if p.parse(line, &req) == nil {
			at, err := time.Parse("02/Jan/2006:15:04:05 -0700", string(p.line.time))
			if err == nil && at.UnixNano() != req.Time {
				t.Fatalf("%q: %d, want %v", line, req.Time, at)
			}
			if len(req.Key) == 0 || !bytes.Contains(line, req.Key) {
				t.Fatalf("%q: caller %q", line, req.Key)
			}
		}

		user, uri, agent = logged(user), strings.ReplaceAll(logged(uri), " ", "%20"), logged(agent)
		if user = strings.Trim(user, " "); user == "" {
			user = "-"
		}
		written := `192.0.2.7 - ` + user + ` [10/Oct/2000:13:55:36 -0700] "GET /` + uri + ` HTTP/1.1" 200 12 "-" "` + agent + `"`
		if p, err = newAccessParser(TraceOptions{Key: []string{"agent"}, Cost: "bytes"}); err != nil {
			t.Fatal(err)
		}
		if err := p.parse([]byte(written), &req); err != nil {
			t.Fatalf("%q: %v", written, err)
		}
		if got := string(p.fields[fieldAddr]); got != "192.0.2.7" || req.Time != 971211336e9 || req.Cost != 12 {
			t.Fatalf("%q: %q at %d for %d", written, got, req.Time, req.Cost)
		}
		for f, want := range map[accessField]string{fieldUser: user, fieldURI: "/" + uri, fieldAgent: agent} {
			if got := string(p.fields[f]); got != want {
				t.Fatalf("%q: field %s is %q, want %q", written, AccessFields()[f], got, want)
			}
		}
	})
}

// logged writes what a client chose as Apache does: quotes and backslashes behind a
// backslash, control characters as \xhh.
func logged(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(rune(c)))
		case c < ' ' || c == 0x7f:
			b.WriteString(`\x0` + string("0123456789abcdef"[c&15]))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// FuzzLine reads anything as a trace of any format, found out or given.
func FuzzLine(f *testing.F) {
	f.Fuzz(func(t *testing.T, format byte, trace []byte) {
		r, err := NewTrace(bytes.NewReader(trace), TraceOptions{Format: Format(format % 4)})
		if err != nil {
			return
		}
		lines := bytes.Count(trace, []byte("\n")) + 1
		var req Request
		for err == nil {
			if lines--; lines < -1 {
				t.Fatal("there are more requests than lines")
			}
			if err = r.Next(&req); err == nil && req.Cost < 0 {
				t.Fatalf("cost %d", req.Cost)
			}
			if _, ok := err.(*LineError); ok {
				err = nil
			}
		}
	})
}
