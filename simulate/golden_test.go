package simulate

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"limitdb/limit"
)

// go test ./simulate -run Golden -update writes the expected results again.
var update = flag.Bool("update", false, "write testdata anew")

// goldens has the traces of testdata and the limits for their replay.
var goldens = []struct {
	trace  string
	o      TraceOptions
	limits []string
}{
	{"access.log", TraceOptions{}, []string{"gcra 10/m burst 3", "gcra 20/m", "gcra 1000/h", "gcra 0/s"}},
	{"costs.csv", TraceOptions{}, []string{"gcra 20/10s", "gcra 100/m burst 40"}},
	{"nested.jsonl", TraceOptions{Key: []string{"http.ip", "http.path"}}, []string{"gcra 2/s burst 1"}},
	{"held.csv", TraceOptions{Key: []string{"tenant"}, Cost: "estimate", Actual: "used", Took: "took"}, []string{"fixed 100/m first", "gcra 100/m", "log 100/m", "fixed 0/m"}},
}

func replayGolden(t *testing.T, i int) *Result {
	t.Helper()
	var limits []limit.Limit
	for _, text := range goldens[i].limits {
		l, err := limit.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, l)
	}
	f, err := os.Open(filepath.Join("testdata", goldens[i].trace))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := NewTrace(f, goldens[i].o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReplay(limits)
	if err != nil {
		t.Fatal(err)
	}
	if goldens[i].o.Actual != "" {
		if err := r.Hold(HoldOptions{TTL: 10 * second}); err != nil {
			t.Fatal(err)
		}
	}
	if err := Run(trace, r, RunOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Settle()
	return r.Result()
}

func TestGolden(t *testing.T) {
	for i, g := range goldens {
		r := replayGolden(t, i)
		for _, form := range []struct {
			name  string
			write func(io.Writer) error
		}{
			{".txt", r.WriteTable},
			{".json", r.WriteJSON},
			{".html", func(w io.Writer) error { return r.WriteHTML(w, Page{About: g.trace}) }},
		} {
			var got bytes.Buffer
			if err := form.write(&got); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", g.trace+form.name)
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s is not what comes out: go test ./simulate -run Golden -update, and look at the difference", path)
			}
		}
	}
}

// A page is a complete document, shows hostile keys as text, and loads nothing.
func TestPageIsSelfContained(t *testing.T) {
	l, err := limit.Parse("gcra 1/h burst 1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReplay([]limit.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"<script>alert(1)</script>", `"><img src=//evil>`, "\x00\xff", "</style>"} {
		for i := range int64(3) {
			r.Add(&Request{Time: i, Key: []byte(key), Cost: 1})
		}
	}
	var page bytes.Buffer
	if err := r.Result().WriteHTML(&page, Page{About: "</title><script src=//evil></script>", Command: "</pre><script>"}); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, bad := range []string{"<script", "<img", "<link", "@import", "url(", "ZgotmplZ"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	if n := strings.Count(text, "</style>"); n != 1 {
		t.Errorf("the page has %d ends of a style", n)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRunStrict(t *testing.T) {
	for _, strict := range []bool{false, true} {
		l, err := limit.Parse("gcra 1/s")
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReplay([]limit.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		trace, err := NewTrace(strings.NewReader("1,a\nx\n2,b\n"), TraceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		err = Run(trace, r, RunOptions{Strict: strict, Bad: func(*LineError) { told++ }})
		var wrong *LineError
		res := r.Result()
		switch {
		case strict && (!errors.As(err, &wrong) || wrong.Line != 2 || told != 0):
			t.Errorf("strict: %v, told %d", err, told)
		case !strict && (err != nil || told != 1 || res.Bad != 1 || res.Lines != 3 || res.Requests != 2):
			t.Errorf("%v, told %d, %+v", err, told, res)
		}
	}
}

func TestDuration(t *testing.T) {
	for _, test := range []struct {
		ns   int64
		want string
	}{
		{0, "0 ns"},
		{999, "999 ns"},
		{1000, "1 µs"},
		{1234, "1.24 µs"},
		{12_340, "12.4 µs"},
		{123_400, "124 µs"},
		{1_000_001, "1.01 ms"},
		{999_999_999, "1 s"},
		{1e9, "1 s"},
		{59_999_999_999, "1 min"},
		{60e9, "1 min"},
		{3599e9 + 1, "60 min"},
		{3600e9, "1 h"},
		{3600e9 + 61e9, "1 h 2 min"},
		{86_400e9, "1 d"},
		{90_000e9 + 1, "1 d 2 h"},
		{1<<63 - 1, "106752 d"},
	} {
		if got := duration(test.ns); got != test.want {
			t.Errorf("duration(%d) = %s, want %s", test.ns, got, test.want)
		}
	}
	for share, want := range map[float64]string{0: "0 %", 1: "100.0 %", 0.5: "50.0 %", 0.0123: "1.23 %", 0.000123: "0.012 %", 1e-9: "<0.001 %"} {
		if got := percent(share); got != want {
			t.Errorf("percent(%v) = %s, want %s", share, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1 000", 12345678: "12 345 678"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %s, want %s", n, got, want)
		}
	}
}
