package simulate

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll reads a trace to its end. It returns "time key cost" for each request, and the error of each bad
// line.
func readAll(t *testing.T, r io.Reader, o TraceOptions) (requests []string, bad []error) {
	t.Helper()
	trace, err := NewTrace(r, o)
	if err != nil {
		t.Fatal(err)
	}
	var req Request
	for {
		var wrong *LineError
		switch err := trace.Next(&req); {
		case err == nil:
			requests = append(requests, fmt.Sprintf("%d %s %d", req.Time/1e9, req.Key, req.Cost))
		case err == io.EOF:
			return requests, bad
		case errors.As(err, &wrong):
			bad = append(bad, wrong)
		default:
			t.Fatal(err)
		}
	}
}

const combined = `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 2326 "http://example.com/" "Mozilla/5.0 (\"x\")"` + "\n"

func TestFormats(t *testing.T) {
	const second = "971211336" // of the combined line
	for _, test := range []struct {
		name  string
		trace string
		o     TraceOptions
		want  string // requests, separated by "|"
		bad   int
	}{
		{"csv", "1,a\n2,b,5\n\n3,\"c,\"\"d\",0\r\n", TraceOptions{}, `1 a 1|2 b 5|3 c,"d 0`, 0},
		{"csv, other columns are of no interest", "1,a,2,x,y\n", TraceOptions{}, "1 a 2", 0},
		{"csv, cost is empty", "1,a,\n2,b, 3 \n", TraceOptions{}, "1 a 1|2 b 3", 0},
		{"csv, bad lines", "1,a\nx,b\n3\n4,\n5,e,-1\n6,f,1.5\n7,\"g\n8,h\"i\n9,j,99999999999999999999\n10,k\n", TraceOptions{}, "1 a 1|10 k 1", 8},
		{"csv with a header", "key,cost,time\na,3,1\n", TraceOptions{}, "1 a 3", 0},
		{"csv with a header after empty lines", "\n\r\ntime,key\n1,a\n", TraceOptions{}, "1 a 1", 0},
		{"csv, columns by name", "at,who,what\n1,a b,c\n1,a,b c\n", TraceOptions{Time: "at", Key: []string{"who", "what"}}, `1 "a b" c 1|1 a "b c" 1`, 0},
		{"csv, columns by number", "a,x,1,7\n", TraceOptions{Time: "3", Key: []string{"2", "1"}, Cost: "4"}, "1 x a 7", 0},
		{"csv, all are one caller", "1,a\n2,b\n", TraceOptions{Key: []string{}}, "1  1|2  1", 0},
		{"csv, several with quotes", "1,\"a\"\"\",\"\"\"2\"\n2,\"b\"\"\",\"3\"\n", TraceOptions{Key: []string{"2", "3"}, Cost: "1"}, `1 "a\"" "\"2" 1|2 "b\"" 3 2`, 0},
		{"csv in milliseconds", "1000,a\n", TraceOptions{Unit: Milliseconds}, "1 a 1", 0},
		{"csv with a byte order mark", "\ufefftime,key\n1,a", TraceOptions{}, "1 a 1", 0},

		{"json", `{"time":1,"key":"a"}` + "\n" + ` { "cost" : 5 , "key" : "b\u00e9\n\"" , "time" : "1970-01-01T00:00:02Z" } ` + "\n", TraceOptions{}, "1 a 1|2 bé\n\" 5", 0},
		{"json, names of the time", `{"ts":2.5,"key":7}` + "\n" + `{"ts":3,"timestamp":4,"key":true}` + "\n" + `{"@timestamp":5,"key":"x","cost":null}`, TraceOptions{}, "2 7 1|4 true 1|5 x 1", 0},
		{"json, members within", `{"t":{"at":1},"http":{"ip":"a","other":{"path":"/x"}},"list":[{"ip":1},[]],"n":{"cost":"3"}}`, TraceOptions{Time: "t.at", Key: []string{"http.ip", "http.other.path"}, Cost: "n.cost"}, "1 a /x 3", 0},
		{"json, members written out flat", `{"ts":1,"source.ip":"a"}` + "\n" + `{"ts":2,"source":{"ip":"b"}}`, TraceOptions{Key: []string{"source.ip"}}, "1 a 1|2 b 1", 0},
		{"json, bad lines", `{"time":1,"key":"a"}` + "\n" + strings.Join([]string{
			`{"time":1}`, `{"key":"a"}`, `{"time":{},"key":"a"}`, `{"time":1,"key":[]}`, `{"time":1,"key":null}`, `{"time":1,"key":"a","cost":{}}`,
			`{"time":1,"key":"a","cost":1.5}`, `{"time":1,"key":"a"`, `{"time":1,"key":"a"}}`, `{"time":01,"key":"a"}`, `{"time":1,"key":"\x"}`,
			`{"time":1,"key":"` + "\x01" + `"}`, `{"time":1,"key":"\u12"}`, `{"time":1,"key":tru}`, `{"time":1,,"key":"a"}`, `{"time":1,"key":"a",}`, `[1]`, `1,a`,
			`{"time":1,"key":""}`, `{"time":-,"key":"a"}`, `{"time":1.,"key":"a"}`, `{"time":1e,"key":"a"}`,
		}, "\n"), TraceOptions{}, "1 a 1", 22},
		{"json, half a surrogate pair", `{"time":1,"key":"\ud800\ud83d\ude00\udc00"}`, TraceOptions{}, "1 \ufffd\U0001f600\ufffd 1", 0},

		{"access", combined, TraceOptions{}, second + " 192.0.2.1 1", 0},
		{"access, common", `::1 - frank [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 -`, TraceOptions{Key: []string{"user", "path"}, Cost: "bytes"}, second + " frank / 0", 0},
		{"access, every field", `www.example.com:443 ` + combined, TraceOptions{Key: AccessFields()[1:], Cost: "status"}, second +
			` - - www.example.com:443 GET /a?b=c /a HTTP/1.1 "GET /a?b=c HTTP/1.1" 200 2326 http://example.com/ "Mozilla/5.0 (\\\"x\\\")" 200`, 0},
		{"access, a user with blanks and quotes", `192.0.2.1 - a \"b c [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1`, TraceOptions{Key: []string{"user"}}, second + ` a \"b c 1`, 0},
		{"access, a user who would be another time", `192.0.2.1 - [10/Oct/2099:13:55:36 -0700] \"GET [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1`, TraceOptions{}, second + " 192.0.2.1 1", 0},
		{"access, garbage for a request", `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "\x16\x03\x01" 400 0`, TraceOptions{Key: []string{"method", "path"}, Anonymous: true}, second + " - - 1", 0},
		{"access, something between time and request", `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] example.com "GET /z HTTP/1.0" 200 1`, TraceOptions{Key: []string{"path"}}, second + " /z 1", 0},
		{"access, bad lines", combined + strings.Join([]string{
			"", "hello", `192.0.2.1 - - [10/Oct/2000:13:55:36] "GET / HTTP/1.0" 200 1`, `192.0.2.1 - - [10/Okt/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1`,
			`192.0.2.1 - - [31/Sep/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1`, ` - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1`,
			`192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] GET / HTTP/1.0 200 1`, `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700]`, `[10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1`,
		}, "\n"), TraceOptions{}, second + " 192.0.2.1 1", 8},
		{
			"access, fields that are missing", combined + `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1` + "\n" + `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET`,
			TraceOptions{Key: []string{"referer"}},
			second + " http://example.com/ 1", 2,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, bad := readAll(t, strings.NewReader(test.trace), test.o)
			if strings.Join(got, "|") != test.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), test.want)
			}
			if len(bad) != test.bad {
				t.Errorf("%d bad lines, want %d: %v", len(bad), test.bad, bad)
			}
			again, _ := readAll(t, iotest.OneByteReader(strings.NewReader(test.trace)), test.o)
			if strings.Join(again, "|") != test.want {
				t.Errorf("byte for byte: %s", strings.Join(again, "|"))
			}
		})
	}
}

func TestTraceErrors(t *testing.T) {
	for _, test := range []struct {
		name, trace string
		o           TraceOptions
		want        string
	}{
		{"nothing", "", TraceOptions{}, "there are no lines"},
		{"prose", "hello\nworld\n", TraceOptions{}, "do not show the format"},
		{"no such column", "time,who\n1,a\n", TraceOptions{}, `no field "key": there are time who`},
		{"no header", "1,a\n", TraceOptions{Key: []string{"user"}}, `no column "user": the first line is not a header`},
		{"no cost", "1,a\n", TraceOptions{Cost: "price"}, `no column "price"`},
		{"no such field", combined, TraceOptions{Key: []string{"ip"}}, `no field "ip": there are addr ident user`},
		{"no such cost", combined, TraceOptions{Cost: "price"}, `no field "price"`},
		{"another time", combined, TraceOptions{Time: "date"}, "its own"},
		{"a quote", "\"1,a\n", TraceOptions{Format: CSV}, "the first line is not CSV"},
		{"not gzip after all", "\x1f\x8bnonsense", TraceOptions{}, "gzip"},
	} {
		_, err := NewTrace(strings.NewReader(test.trace), test.o)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestLineErrorTellsWhere(t *testing.T) {
	_, bad := readAll(t, strings.NewReader("1,a\n\nx\x00,b\n"+strings.Repeat("y", 100)+",c\n"), TraceOptions{})
	if len(bad) != 2 || bad[0].Error() != `line 3: the time is neither Unix time nor RFC 3339: "x\x00,b"` ||
		!strings.HasPrefix(bad[1].Error(), "line 4: ") || !strings.HasSuffix(bad[1].Error(), `y"...`) {
		t.Errorf("got %v", bad)
	}
	if !errors.Is(bad[0], errTime) {
		t.Errorf("%v is not %v", bad[0], errTime)
	}
}

func TestGzip(t *testing.T) {
	var z bytes.Buffer
	for _, part := range []string{"1,a\n2,", "b\n3,c\n"} { // like cat of two files
		w := gzip.NewWriter(&z)
		fmt.Fprint(w, part)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, bad := readAll(t, &z, TraceOptions{}); strings.Join(got, "|") != "1 a 1|2 b 1|3 c 1" || bad != nil {
		t.Errorf("got %v, %v", got, bad)
	}
}

// A reader's error comes after the lines before it, and says where it happened.
func TestReaderFails(t *testing.T) {
	fails := errors.New("the disk is gone")
	trace, err := NewTrace(io.MultiReader(strings.NewReader("1,a\n2,b"), iotest.ErrReader(fails)), TraceOptions{Format: CSV})
	if err != nil {
		t.Fatal(err)
	}
	var req Request
	if err := trace.Next(&req); err != nil {
		t.Fatal(err)
	}
	if err := trace.Next(&req); !errors.Is(err, fails) || !strings.Contains(err.Error(), "after line 1") {
		t.Errorf("got %v", err)
	}
	if _, err := NewTrace(iotest.ErrReader(fails), TraceOptions{}); !errors.Is(err, fails) {
		t.Errorf("got %v", err)
	}
}

type lazyReader struct{}

func (lazyReader) Read([]byte) (int, error) { return 0, nil }

func TestReaderWithoutProgress(t *testing.T) {
	if _, err := NewTrace(lazyReader{}, TraceOptions{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %v", err)
	}
}

func TestLongLines(t *testing.T) {
	fits := "1," + strings.Repeat("k", maxLine-2)
	for _, long := range []string{fits + "k", fits + strings.Repeat("k", 3*maxLine)} {
		for _, end := range []string{"\n", "\n5,e", ""} {
			text := "0,z\n" + fits + "\n" + long + end
			got, bad := readAll(t, strings.NewReader(text), TraceOptions{})
			want := 2
			if end == "\n5,e" {
				want = 3
			}
			if len(got) != want || len(bad) != 1 || !errors.Is(bad[0], errLongLine) {
				t.Errorf("%d bytes: %d requests, %d bad lines", len(long), len(got), len(bad))
			}
		}
	}
}

func TestParseFormat(t *testing.T) {
	for f := Auto; f <= AccessLog; f++ {
		if got, err := ParseFormat(f.String()); got != f || err != nil {
			t.Errorf("%v: %v, %v", f, got, err)
		}
	}
	if _, err := ParseFormat("xml"); err == nil {
		t.Error("there is no format xml")
	}
}

// Parsing an access log, the most common trace, allocates nothing.
func TestParsingAllocatesNothing(t *testing.T) {
	for _, o := range []TraceOptions{{}, {Key: []string{"addr", "path", "agent"}, Cost: "bytes"}} {
		line := []byte(strings.TrimSpace(combined))
		trace, err := NewTrace(bytes.NewReader(line), o)
		if err != nil {
			t.Fatal(err)
		}
		var req Request
		if n := testing.AllocsPerRun(100, func() {
			if err := trace.parser.parse(line, &req); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", o.Key, n)
		}
	}
}
