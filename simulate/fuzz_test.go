package simulate

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"
)

// FuzzLineAccess gives the parser of access logs any line, and lines that nginx and Apache would write for
// fields that a hostile client chooses.
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

// logged returns what Apache writes for a field: quotes and backslashes after a backslash, control characters
// as \xhh.
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

// FuzzLine reads anything as a trace of any format, detected or given.
func FuzzLine(f *testing.F) {
	f.Fuzz(func(t *testing.T, format byte, trace []byte) {
		r, err := NewTrace(bytes.NewReader(trace), TraceOptions{Format: Format(format % 4)})
		if err != nil {
			return
		}
		text := trace
		if z, err := gzip.NewReader(bytes.NewReader(trace)); err == nil {
			text, _ = io.ReadAll(io.LimitReader(z, 16<<20)) // as far as it can be unpacked
		}
		lines := bytes.Count(text, []byte("\n")) + 1
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
