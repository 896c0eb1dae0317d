package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fake is a server that notes the last command and always gives the same reply.
type fake struct {
	words []string
	reply string
	err   error
}

const granted = "*5\r\n:0\r\n:20\r\n:19\r\n:-1\r\n:600\r\n"

func (f *fake) do(_ context.Context, args ...[]byte) ([]byte, error) {
	f.words = nil
	for _, a := range args {
		f.words = append(f.words, string(a))
	}
	return []byte(f.reply), f.err
}

func (f *fake) handler() http.Handler {
	return New(Options{
		Do:      f.do,
		Trusted: func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} },
	})
}

// serve sends a request from the trusted proxy 10.0.0.1. Headers are given as "Name: value".
func (f *fake) serve(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.RemoteAddr = "10.0.0.1:4000"
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	f.handler().ServeHTTP(w, r)
	return w
}

const jsonType = "Content-Type: application/json"

func TestTake(t *testing.T) {
	for _, c := range []struct{ body, reply, words, answer string }{
		{`{"key":"u","limit":"GCRA 100/m BURST 20"}`, granted, "RL.TAKE u GCRA 100/m BURST 20 COST 1", `{"limited":false,"limit":20,"remaining":19,"wait_ms":-1,"reset_ms":600}`},
		{`{"key":"ü ","limit":" gcra\t100 1m","cost":0}`, granted, "RL.TAKE ü  gcra 100 1m COST 0", ""},
		{`{"key":"u","limit":"LOG 5/m","cost":9223372036854775807,"peek":true}`, granted, "RL.PEEK u LOG 5/m COST 9223372036854775807", ""},
		{`{"key":"u","limit":"LOG 5/m","cost":7,"partial":true}`, "*6\r\n:1\r\n:20\r\n:0\r\n:30\r\n:600\r\n:0\r\n", "RL.TAKE u LOG 5/m COST 7 PARTIAL", `{"limited":true,"limit":20,"remaining":0,"wait_ms":30,"reset_ms":600,"granted":0}`},
	} {
		f := &fake{reply: c.reply}
		w := f.serve("POST", "/v1/take", c.body, jsonType)
		if got := strings.Join(f.words, " "); w.Code != 200 || got != c.words {
			t.Errorf("%s: %d, %q, want %q: %s", c.body, w.Code, got, c.words, w.Body)
		}
		if c.answer != "" && strings.TrimSpace(w.Body.String()) != c.answer {
			t.Errorf("%s: %s, want %s", c.body, w.Body, c.answer)
		}
	}
}

// explained is a reply to RL.CHECK with EXPLAIN: one rule enforces, another only counts.
const explained = "*7\r\n:1\r\n:60\r\n:0\r\n:1500\r\n:60000\r\n$8\r\nuser-api\r\n*3\r\n" +
	"*5\r\n$6\r\nglobal\r\n$7\r\nenforce\r\n$12\r\nGCRA 20000/s\r\n:1\r\n*5\r\n:0\r\n:20000\r\n:19999\r\n:-1\r\n:1\r\n" +
	"*5\r\n$8\r\nuser-api\r\n$7\r\nenforce\r\n$9\r\nGCRA 60/m\r\n:1\r\n*5\r\n:1\r\n:60\r\n:0\r\n:1500\r\n:60000\r\n" +
	"*5\r\n$5\r\nlogin\r\n$6\r\nshadow\r\n$7\r\nLOG 5/m\r\n:1\r\n*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:60000\r\n"

// verdicts is a reply to RL.RULES EXPLAIN: one rule applies, another does not.
const verdicts = "%6\r\n$8\r\ndecision\r\n*5\r\n:1\r\n:60\r\n:0\r\n:1500\r\n:60000\r\n$4\r\nrule\r\n$8\r\nuser-api\r\n$7\r\nignored\r\n*1\r\n$6\r\ncolour\r\n" +
	"$5\r\nrules\r\n:2\r\n$7\r\nmatched\r\n:1\r\n$9\r\nexplained\r\n*2\r\n" +
	"%5\r\n$4\r\nname\r\n$8\r\nuser-api\r\n$4\r\nmode\r\n$7\r\nenforce\r\n$7\r\napplies\r\n:1\r\n$4\r\nfrom\r\n$8\r\nplan pro\r\n$6\r\nlimits\r\n*1\r\n" +
	"%5\r\n$4\r\nrole\r\n$7\r\nenforce\r\n$5\r\nlimit\r\n$9\r\nGCRA 60/m\r\n$4\r\ncost\r\n:1\r\n$3\r\nkey\r\n$1\r\nk\r\n$8\r\ndecision\r\n*5\r\n:1\r\n:60\r\n:0\r\n:1500\r\n:60000\r\n" +
	"%8\r\n$4\r\nname\r\n$5\r\nlogin\r\n$4\r\nmode\r\n$6\r\nshadow\r\n$7\r\napplies\r\n:0\r\n$3\r\nwhy\r\n$3\r\nbad\r\n$5\r\nfield\r\n$4\r\npath\r\n$3\r\nhas\r\n$1\r\n/\r\n$5\r\nwants\r\n$6\r\n/login\r\n$6\r\nlimits\r\n*0\r\n"

func TestExplain(t *testing.T) {
	f := &fake{reply: verdicts}
	w := f.serve("POST", "/v1/explain", `{"namespace":"shop","fields":{"user":"u17"},"cost":2,"count":5}`, jsonType)
	const want = `{"limited":true,"limit":60,"remaining":0,"wait_ms":1500,"reset_ms":60000,"rule":"user-api","ignored":["colour"],"rules":2,"matched":1,"explained":[` +
		`{"name":"user-api","mode":"enforce","applies":true,"from":"plan pro","limits":[{"role":"enforce","spelling":"GCRA 60/m","cost":1,"key":"k","limited":true,"limit":60,"remaining":0,"wait_ms":1500,"reset_ms":60000}]},` +
		`{"name":"login","mode":"shadow","applies":false,"why":"bad","field":"path","has":"/","wants":"/login","limits":[]}]}`
	if got := strings.Join(f.words, " "); w.Code != 200 || got != "RL.RULES EXPLAIN shop 1 user u17 COST 2 COUNT 5" || strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("%d, %q:\n%s", w.Code, got, w.Body)
	}
	for _, body := range []string{`{}`, `{"namespace":"shop","peek":true}`, `{"namespace":"shop","count":"x"}`} {
		if w := f.serve("POST", "/v1/explain", body, jsonType); w.Code != 400 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct{ body, reply, words, answer string }{
		{
			`{"namespace":"shop","fields":{"user":"u17","path":"/cart"}}`, "*6\r\n:0\r\n:60\r\n:59\r\n:-1\r\n:1000\r\n$8\r\nuser-api\r\n",
			"RL.CHECK shop 2 user u17 path /cart COST 1", `{"limited":false,"limit":60,"remaining":59,"wait_ms":-1,"reset_ms":1000,"rule":"user-api"}`,
		},
		{
			`{"namespace":"shop","cost":0,"peek":true}`, "*6\r\n:0\r\n:-1\r\n:-1\r\n:-1\r\n:0\r\n$0\r\n\r\n",
			"RL.CHECK shop 0 COST 0 PEEK", `{"limited":false,"limit":-1,"remaining":-1,"wait_ms":-1,"reset_ms":0,"rule":""}`,
		},
		{
			`{"namespace":"shop","fields":{"user":"u17"}}`, "*7\r\n:0\r\n:60\r\n:59\r\n:-1\r\n:1000\r\n$8\r\nuser-api\r\n$2\r\nid\r\n",
			"RL.CHECK shop 1 user u17 COST 1", `{"limited":false,"limit":60,"remaining":59,"wait_ms":-1,"reset_ms":1000,"rule":"user-api","lease":"id"}`,
		},
		{
			`{"namespace":"shop","explain":true}`, explained, "RL.CHECK shop 0 COST 1 EXPLAIN",
			`{"limited":true,"limit":60,"remaining":0,"wait_ms":1500,"reset_ms":60000,"rule":"user-api","rules":[` +
				`{"rule":"global","mode":"enforce","spelling":"GCRA 20000/s","cost":1,"limited":false,"limit":20000,"remaining":19999,"wait_ms":-1,"reset_ms":1},` +
				`{"rule":"user-api","mode":"enforce","spelling":"GCRA 60/m","cost":1,"limited":true,"limit":60,"remaining":0,"wait_ms":1500,"reset_ms":60000},` +
				`{"rule":"login","mode":"shadow","spelling":"LOG 5/m","cost":1,"limited":false,"limit":5,"remaining":4,"wait_ms":-1,"reset_ms":60000}]}`,
		},
	} {
		f := &fake{reply: c.reply}
		w := f.serve("POST", "/v1/check", c.body, jsonType)
		if got := strings.Join(f.words, " "); w.Code != 200 || got != c.words || strings.TrimSpace(w.Body.String()) != c.answer {
			t.Errorf("%s: %d, %q, want %q: %s", c.body, w.Code, got, c.words, w.Body)
		}
	}
}

func TestRelease(t *testing.T) {
	f := &fake{reply: ":2\r\n"}
	w := f.serve("POST", "/v1/release", `{"namespace":"shop","fields":{"user":"u17"},"lease":"id"}`, jsonType)
	if got := strings.Join(f.words, " "); w.Code != 200 || got != "RL.CHECK shop 1 user u17 COST 1 RELEASE id" || strings.TrimSpace(w.Body.String()) != `{"released":2}` {
		t.Errorf("%d, %q: %s", w.Code, got, w.Body)
	}
	for _, body := range []string{`{}`, `{"namespace":"shop"}`, `{"namespace":"shop","lease":""}`, `{"namespace":"shop","lease":1}`, `{"namespace":"shop","lease":"id","cost":1}`} {
		if w := f.serve("POST", "/v1/release", body, jsonType); w.Code != 400 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// Under rules, /auth sends the request's fields, and the answer has all policies that are enforced.
func TestAuthByRules(t *testing.T) {
	f := &fake{reply: explained}
	w := f.serve("GET", "/auth?ns=shop&header.user=X-User&header.plan=X-Plan&headers=x", "",
		"X-Forwarded-For: 2001:db8::7", "X-Forwarded-Method: GET", "X-Forwarded-Host: a.example", "X-Forwarded-Uri: /cart?x", "X-User: u 17")
	if got := strings.Join(f.words, "|"); got != "RL.CHECK|shop|5|ip|2001:db8::7|method|GET|host|a.example|path|/cart|user|u 17|COST|1|EXPLAIN" {
		t.Errorf("%s: %s", got, w.Body)
	}
	for name, want := range map[string]string{
		"RateLimit-Policy": `"global";q=20000;w=1, "user-api";q=60;w=60`, "RateLimit": `"global";r=19999;t=1, "user-api";r=0;t=2`,
		"Retry-After": "2", "X-RateLimit-Limit": "60",
	} {
		if got := w.Header().Get(name); got != want || w.Code != 429 {
			t.Errorf("%d, %s is %q, want %q", w.Code, name, got, want)
		}
	}
	f.reply = "*7\r\n:0\r\n:-1\r\n:-1\r\n:-1\r\n:0\r\n$0\r\n\r\n*0\r\n"
	w = f.serve("GET", "/auth?ns=shop&fields=path&headers=x", "", "X-Forwarded-Uri: /")
	if got := strings.Join(f.words, "|"); got != "RL.CHECK|shop|1|path|/|COST|1|EXPLAIN" || w.Code != 200 || w.Header().Get("RateLimit") != "" || w.Header().Get("X-RateLimit-Limit") != "" {
		t.Errorf("no rule: %s, %d %v", got, w.Code, w.Header())
	}
	f.reply = "-NORULE no rules are in that namespace\r\n"
	if w = f.serve("GET", "/auth?ns=nothing&fields=", ""); w.Code != 404 {
		t.Errorf("no namespace: %d", w.Code)
	}
}

// manyFields returns n more fields of a JSON object.
func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"f%d":"v"`, i)
	}
	return b.String()
}

// A wrong request gets an error with its place and reason, and the server is asked nothing.
func TestWrongRequests(t *testing.T) {
	ok := `"key":"u","limit":"GCRA 1/m"`
	for _, c := range []struct {
		method, path, body, kind string
		status                   int
		text                     string
	}{
		{"GET", "/v1/take", "", jsonType, 405, "use POST"},
		{"POST", "/v1/take", "{" + ok + "}", "Content-Type: text/plain", 415, "application/json"},
		{"POST", "/v1/take", "{" + ok + "}", "X: y", 415, "application/json"},
		{"POST", "/v1/nothing", "{}", jsonType, 404, `there is no \"/v1/nothing\"`},
		{"POST", "/v1/take", strings.Repeat(" ", maxBody+1), jsonType, 413, "65536 bytes"},
		{"POST", "/v1/take", "", jsonType, 400, "line 1, column 1: the JSON ends too early"},
		{"POST", "/v1/take", "[]", jsonType, 400, "an object is expected"},
		{"POST", "/v1/take", strings.Repeat("[", 60000), jsonType, 400, "an object is expected"},
		{"POST", "/v1/take", "{\n  \"key\": \"u\",\n  \"limt\": 1}", jsonType, 400, `line 3, column 3: there is no field \"limt\"`},
		{"POST", "/v1/take", `{"key":"a","key":"b"}`, jsonType, 400, `line 1, column 12: \"key\" is given twice`},
		{"POST", "/v1/take", `{"key": 7}`, jsonType, 400, "line 1, column 9: key must be a string"},
		{"POST", "/v1/take", `{"key":null}`, jsonType, 400, "key must be a string"},
		{"POST", "/v1/take", `{"key":["u"]}`, jsonType, 400, "key must be a string"},
		{"POST", "/v1/take", "{\"key\":\"\xff\"}", jsonType, 400, "key is not Unicode"},
		{"POST", "/v1/take", `{"key":"\ud800"}`, jsonType, 400, "key is not Unicode"},
		{"POST", "/v1/take", `{"key":""}`, jsonType, 400, "key is missing or empty"},
		{"POST", "/v1/take", `{"key":"u"}`, jsonType, 400, "limit is missing"},
		{"POST", "/v1/take", "{" + ok + `,"cost":-1}`, jsonType, 400, "cost must be a whole number"},
		{"POST", "/v1/take", "{" + ok + `,"cost":1.5}`, jsonType, 400, "cost must be a whole number"},
		{"POST", "/v1/take", "{" + ok + `,"cost":9223372036854775808}`, jsonType, 400, "cost must be a whole number"},
		{"POST", "/v1/take", "{" + ok + `,"cost":"1"}`, jsonType, 400, "cost must be a whole number"},
		{"POST", "/v1/take", "{" + ok + `,"peek":1}`, jsonType, 400, "peek must be true or false"},
		{"POST", "/v1/take", "{" + ok + `,"peek":true,"partial":true}`, jsonType, 400, "leave partial out"},
		{"POST", "/v1/take", "{" + ok + "}\n x", jsonType, 400, "line 2, column 2: there is more after the object"},
		{"POST", "/v1/take", "{" + ok, jsonType, 400, "ends too early"},
		{"POST", "/v1/take", `{"key":"u","limit":"GCRA 1/m WAIT 5s"}`, jsonType, 400, "limit: "},
		{"POST", "/v1/take", `{"key":"u","limit":"GCRA 1/m REPLACE"}`, jsonType, 400, "limit: "},
		{"POST", "/v1/take", `{"key":"u","limit":"GRCA 1/m"}`, jsonType, 400, "limit: "},
		{"GET", "/auth", "", "", 400, "limit or ns is missing"},
		{"GET", "/auth?ns=shop&limit=GCRA+1/m", "", "X-Forwarded-For: 1.1.1.1", 400, "leave out limit"},
		{"GET", "/auth?ns=shop&key=ip", "", "X-Forwarded-For: 1.1.1.1", 400, "leave out limit"},
		{"GET", "/auth?ns=shop", "", "X-Forwarded-For: 1.1.1.1", 400, "must set X-Forwarded-Method"},
		{"GET", "/auth?ns=", "", "", 400, "ns must be"},
		{"GET", "/auth?limit=GCRA+1/m&fields=ip", "", "", 400, "with limit, use key"},
		{"POST", "/v1/check", `{}`, jsonType, 400, "namespace is missing"},
		{"POST", "/v1/check", `{"namespace":"a","fields":{"f":"v"` + manyFields(64) + `}}`, jsonType, 400, "a check has at most 64 fields"},
		{"POST", "/v1/check", `{"namespace":"a","fields":{"a":"1","a":"2"}}`, jsonType, 400, `\"a\" is given twice`},
		{"POST", "/v1/check", `{"namespace":"a","fields":{"a":1}}`, jsonType, 400, `field \"a\" must be a string`},
		{"POST", "/v1/check", `{"namespace":"a","fields":["a"]}`, jsonType, 400, "an object is expected"},
		{"POST", "/v1/check", `{"namespace":"a","fields":{"a":{"b":"c"}}}`, jsonType, 400, "must be a string"},
		{"GET", "/auth?limit=GCRA+1/m&limit=GCRA+2/m", "", "", 400, "given twice"},
		{"GET", "/auth?limit=GCRA+1/m&nothing=1", "", "", 400, `no parameter \"nothing\"`},
		{"GET", "/auth?limit=GCRA+1/m&key=ip", "", "", 400, "must set X-Forwarded-For"},
		{"GET", "/auth?limit=GCRA+1/m&key=ip", "", "X-Forwarded-For: unknown", 400, "no address"},
		{"GET", "/auth?limit=GCRA+1/m&key=path", "", "X-Forwarded-Uri: %", 400, "no path"},
		{"GET", "/auth?limit=GCRA+1/m&key=nothing", "", "", 400, `no field \"nothing\"`},
		{"GET", "/auth?limit=GCRA+1/m&key=ip,", "", "X-Forwarded-For: 1.1.1.1", 400, "commas"},
		{"GET", "/auth?limit=GCRA+1/m&denied=200", "", "", 400, "from 400 to 499"},
		{"GET", "/auth?limit=GCRA+1/m&denied=500", "", "", 400, "from 400 to 499"},
		{"GET", "/auth?limit=GCRA+1/m&denied=403x", "", "", 400, "from 400 to 499"},
		{"GET", "/auth?limit=GCRA+1/m&cost=-1", "", "", 400, "cost must be"},
		{"GET", "/auth?limit=GCRA+1/m&cost=x", "", "", 400, "cost must be"},
		{"GET", "/auth?limit=GCRA+1/m&ipv6-prefix=129", "", "", 400, "from 1 to 128"},
		{"GET", "/auth?limit=GCRA+1/m&ipv6-prefix=64x", "", "", 400, "from 1 to 128"},
		{"GET", "/auth?limit=GCRA+1/m&name=" + strings.Repeat("n", 65), "", "", 400, "name must be"},
		{"GET", "/auth?limit=GCRA+1/m&header.=X", "", "", 400, "there is no parameter"},
		{"GET", "/auth?ns=shop&name=x", "", "", 400, "leave out"},
		{"GET", "/auth?ns=shop&ipv6-prefix=64", "", "", 400, "leave out"},
		{"GET", "/auth?limit=GCRA+1/m&ipv6-prefix=0", "", "", 400, "from 1 to 128"},
		{"GET", "/auth?limit=GCRA+1/m&headers=y", "", "", 400, "headers must be x"},
		{"GET", "/auth?limit=GCRA+1/m&name=", "", "", 400, "name must be"},
		{"GET", "/auth?%zz", "", "", 400, "the query"},
	} {
		f := &fake{reply: granted}
		w := f.serve(c.method, c.path, c.body, c.kind)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s %.60q: %d %s, want %d %q", c.method, c.path, c.body, w.Code, w.Body, c.status, c.text)
		}
		if f.words != nil {
			t.Errorf("%s %.60q: the server was asked %q", c.path, c.body, f.words)
		}
		if got, want := w.Header().Get("Allow"), map[bool]string{true: "POST"}[w.Code == 405]; got != want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", c.method, c.path, w.Header())
		}
	}
}

// slowBody is a body whose connection has failed.
type slowBody struct{}

func (slowBody) Read([]byte) (int, error) { return 0, errors.New("too slow") }

func TestBodyThatDoesNotCome(t *testing.T) {
	f := &fake{}
	r := httptest.NewRequest("POST", "/v1/take", io.NopCloser(slowBody{}))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.handler().ServeHTTP(w, r)
	if w.Code != 408 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	for _, c := range []struct {
		reply  string
		err    error
		status int
		after  string
		body   string
	}{
		{"-ERR max is too large", nil, 400, "", `{"error":{"code":"ERR","message":"max is too large"}}`},
		{"-ERR the server is shutting down", nil, 503, "1", `"code":"ERR"`},
		{"-WRONGTYPE the key holds LOG", nil, 409, "", `"code":"WRONGTYPE"`},
		{"-OOM too much", nil, 503, "1", `"code":"OOM"`},
		{"-MISCONF disk", nil, 503, "1", `"code":"MISCONF"`},
		{"-LOADING wait", nil, 503, "1", `"code":"LOADING"`},
		{"-CLUSTERDOWN no leader", nil, 503, "1", `"code":"CLUSTERDOWN"`},
		{"-PAUSED wait", nil, 503, "1", `"code":"PAUSED"`},
		{"-UNKNOWNOUTCOME it may have been counted", nil, 503, "1", `"code":"UNKNOWNOUTCOME"`},
		{"-MOVED 7 10.1.1.1:6379", nil, 503, "1", `"leader":"10.1.1.1:6379"`},
		{"-MOVED 7 10.1.1.1:6379", nil, 503, "1", `ask the one at 10.1.1.1:6379`},
		{"-ERR <key> & more", nil, 400, "", `<key> & more`},
		{"-ERR internal error", nil, 503, "", `"code":"ERR"`},
		{"?", nil, 500, "", `"code":"ERR"`}, // no reply
		{"$1048577\r\n" + strings.Repeat("x", 1<<20+1), nil, 400, "", `ask for fewer rules with count`},
		{"", context.DeadlineExceeded, 503, "1", `"code":"UNKNOWNOUTCOME"`},
	} {
		f := &fake{reply: c.reply + "\r\n", err: c.err}
		for _, w := range []*httptest.ResponseRecorder{
			f.serve("POST", "/v1/take", `{"key":"u","limit":"GCRA 1/m"}`, jsonType),
			f.serve("GET", "/auth?limit=GCRA+1/m", ""),
		} {
			if w.Code != c.status || w.Header().Get("Retry-After") != c.after || !strings.Contains(w.Body.String(), c.body) {
				t.Errorf("%s: %d, Retry-After %q, %s", c.reply, w.Code, w.Header().Get("Retry-After"), w.Body)
			}
		}
	}
}

func TestAuth(t *testing.T) {
	const denied = "*5\r\n:1\r\n:20\r\n:0\r\n:1500\r\n:60000\r\n"
	const never = "*5\r\n:1\r\n:20\r\n:20\r\n:-1\r\n:7000\r\n"
	const paced = "*5\r\n:0\r\n:60\r\n:58\r\n:1000\r\n:2500\r\n"
	for _, c := range []struct {
		query, reply string
		status       int
		want         map[string]string
	}{
		{"limit=GCRA+100/m+BURST+20", granted, 200, map[string]string{"RateLimit-Policy": `"default";q=100;w=60`, "RateLimit": `"default";r=19;t=1`, "Retry-After": "", "X-RateLimit-Limit": ""}},
		{"limit=GCRA+100/m+BURST+20&headers=x&name=a%22b%C3%BC", denied, 429, map[string]string{
			"RateLimit-Policy": `"a\"b??";q=100;w=60`, "RateLimit": `"a\"b??";r=0;t=2`, "Retry-After": "2",
			"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60",
		}},
		{"limit=GCRA+5/10ms&denied=403&cost=30", never, 403, map[string]string{"RateLimit-Policy": `"default";q=5;w=1`, "RateLimit": `"default";r=20;t=7`, "Retry-After": ""}},
		{"limit=QUEUE+60/m", paced, 200, map[string]string{"RateLimit": `"default";r=58;t=3`, "Retry-After": ""}}, // granted, in a second
		{"limit=GCRA+0/m&headers=x&cost=0", "*5\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n", 429, map[string]string{"RateLimit": `"default";r=0;t=0`, "Retry-After": "1", "X-RateLimit-Limit": "0"}},
		{"limit=GCRA+1/m&denied=400&ipv6-prefix=1&name=%5C%1F%7F+~", denied, 400, map[string]string{"RateLimit-Policy": `"\\?? ~";q=1;w=60`}},
		{"limit=GCRA+1/m&denied=499&name=" + strings.Repeat("n", 64), denied, 499, nil},
		{"limit=FIXED+9223372036854775807/d", granted, 200, map[string]string{"RateLimit-Policy": `"default";q=999999999999999;w=86400`}}, // the largest integer there
		{"limit=FIXED+5+CALENDAR+month", granted, 200, map[string]string{"RateLimit-Policy": `"default";q=5`}},
	} {
		f := &fake{reply: c.reply}
		w := f.serve("GET", "/auth?"+c.query, "")
		if w.Code != c.status {
			t.Errorf("%s: %d %s", c.query, w.Code, w.Body)
		}
		for name, value := range c.want {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", c.query, name, got, value)
			}
		}
	}
}

// Who the caller is, by what the proxy says.
func TestKeys(t *testing.T) {
	for _, c := range []struct{ query, headers, key string }{
		{"", "", "auth:default"},
		{"name=a:b", "", "auth:a%3Ab"},
		{"key=ip", "X-Forwarded-For: 192.0.2.7", "auth:default:ip=192.0.2.7"},
		{"key=ip", "X-Forwarded-For: 1.2.3.4, 192.0.2.7", "auth:default:ip=192.0.2.7"},
		{"key=ip", "X-Forwarded-For: 1.2.3.4, 192.0.2.7,10.0.0.9", "auth:default:ip=192.0.2.7"},
		{"key=ip", "X-Forwarded-For: 1.2.3.4|X-Forwarded-For: 192.0.2.7", "auth:default:ip=192.0.2.7"},
		{"key=ip", "X-Forwarded-For: garbage, 192.0.2.7", "auth:default:ip=192.0.2.7"},
		{"key=ip", "X-Forwarded-For: 10.0.0.8, 10.0.0.9", "auth:default:ip=10.0.0.8"},
		{"key=ip", "X-Forwarded-For: 192.0.2.7:5000", "auth:default:ip=192.0.2.7"},
		{"key=ip", "X-Forwarded-For: ::ffff:192.0.2.7", "auth:default:ip=192.0.2.7"},
		{"key=ip", "X-Forwarded-For: [2001:db8:1:2:3::4]:5000", "auth:default:ip=2001%3Adb8%3A1%3A2%3A%3A"},
		{"key=ip", "X-Forwarded-For: 2001:db8:1:2:ffff::", "auth:default:ip=2001%3Adb8%3A1%3A2%3A%3A"},
		{"key=ip&ipv6-prefix=128", "X-Forwarded-For: 2001:db8::4", "auth:default:ip=2001%3Adb8%3A%3A4"},
		{"key=method,host,path", "X-Forwarded-Method: GET|X-Forwarded-Host: A.Example|X-Forwarded-Uri: /%6cogin//x/../y/?a=b", "auth:default:method=GET:host=a.example:path=%2Flogin%2Fy%2F"},
		{"key=user&header.user=X-User", "X-User: a:b", "auth:default:user=a%3Ab"},
		{"key=user&header.user=X-User", "", "auth:default:user="},
		{"key=user&header.user=X-User", "X-User: " + strings.Repeat("u", 600), "auth:default:!4da9ff2ba48e0a88f0cac2ad5a2f11ee7d5d9ccfea4b1cf9a1ccd6ba21ae26ba"},
	} {
		f := &fake{reply: granted}
		var headers []string
		if c.headers != "" {
			headers = strings.Split(c.headers, "|")
		}
		w := f.serve("GET", "/auth?limit=GCRA+1/m&"+c.query, "", headers...)
		if len(f.words) < 2 || len(f.words[1]) > maxIdentity || f.words[1] != c.key && !strings.Contains(c.key, "!") {
			t.Errorf("%s, %.80s: %q, want %q: %s", c.query, c.headers, f.words, c.key, w.Body)
		}
	}
}

// Two callers that differ never share a key, and what identifies one by a field identifies none by another.
func TestKeysNeverClash(t *testing.T) {
	value := rapid.StringMatching(`[a:=%!,"\x{e9} ]{0,4}`)
	name := rapid.StringMatching(`[a:=%!]{1,3}`)
	key := func(t *rapid.T, names, values [2]string) string {
		f := &fake{reply: granted}
		q := url.Values{"limit": {"GCRA 1/m"}, "key": {names[0] + "," + names[1]}, "header." + names[0]: {"A"}, "header." + names[1]: {"B"}}
		r := httptest.NewRequest("GET", "/auth?"+q.Encode(), nil)
		r.RemoteAddr = "10.0.0.1:4000"
		r.Header["A"], r.Header["B"] = []string{values[0]}, []string{values[1]}
		f.handler().ServeHTTP(httptest.NewRecorder(), r)
		if len(f.words) < 2 {
			t.Fatal("no decision")
		}
		return f.words[1]
	}
	rapid.Check(t, func(t *rapid.T) {
		var names, values [2][2]string
		for i := range names {
			names[i] = [2]string{name.Draw(t, "name"), name.Draw(t, "name")}
			if names[i][0] == names[i][1] || rapid.Bool().Draw(t, "usual names") {
				names[i] = [2]string{"a", "b"}
			}
			values[i] = [2]string{value.Draw(t, "value"), value.Draw(t, "value")}
		}
		if same := names[0] == names[1] && values[0] == values[1]; (key(t, names[0], values[0]) == key(t, names[1], values[1])) != same {
			t.Errorf("%q %q", names, values)
		}
	})
}

// TestKeysHideCredentials checks that callers are told apart by what they keep secret, and that no key has it.
func TestKeysHideCredentials(t *testing.T) {
	keys := map[string]bool{}
	for _, header := range []string{"Authorization", "cookie", "X-Api-Key", "X-Auth-Token"} {
		for _, secret := range []string{"hunter2", "hunter3", ""} {
			f := &fake{reply: granted}
			w := f.serve("GET", "/auth?limit=GCRA+1/m&key=u&header.u="+header, "", header+": "+secret)
			if w.Code != 200 || len(f.words) < 2 || strings.Contains(f.words[1], "hunter") {
				t.Errorf("%s: %d %q", header, w.Code, f.words)
				continue
			}
			keys[f.words[1]] = true
		}
	}
	if len(keys) != 3 {
		t.Errorf("%d callers are told apart", len(keys))
	}
}

// TestKeysBelongToTheirFields checks that a caller cannot choose a header that makes it share the limit of an address.
func TestKeysBelongToTheirFields(t *testing.T) {
	keys := map[string]string{}
	for _, query := range []string{"key=ip", "key=host", "key=path", "key=method", "key=u&header.u=X-User", "key=v&header.v=X-User", "key=u,v&header.u=X-User&header.v=X-None"} {
		f := &fake{reply: granted}
		w := f.serve("GET", "/auth?name=login&limit=GCRA+1/m&"+query, "", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Host: 192.0.2.7", "X-Forwarded-Method: 192.0.2.7",
			"X-Forwarded-Uri: /192.0.2.7", "X-User: 192.0.2.7")
		if w.Code != 200 || len(f.words) < 2 || keys[f.words[1]] != "" {
			t.Errorf("%s: %d, and %q is also the key of %q", query, w.Code, f.words, keys[f.words[1]])
			continue
		}
		keys[f.words[1]] = query
	}
	f := &fake{reply: granted}
	if w := f.serve("GET", "/auth?limit=GCRA+1/m&key=ip&header.ip=X-User", "", "X-User: 192.0.2.7"); w.Code != 400 || !strings.Contains(w.Body.String(), "ip is a field already") {
		t.Errorf("a header under the name of a field: %d %s", w.Code, w.Body)
	}
}

func TestWhoMayAsk(t *testing.T) {
	f := &fake{reply: granted}
	h := New(Options{Do: f.do, Trusted: func() []netip.Prefix {
		return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	}, Closed: func(context.Context) bool { return true }})
	for _, c := range []struct {
		peer       string
		auth, take int
	}{
		{"10.1.2.3:4000", 200, 403},
		{"[::ffff:10.1.2.3]:4000", 200, 403},
		{"[fd00::1]:4000", 200, 403},
		{"192.0.2.1:4000", 400, 403},
		{"127.0.0.1:4000", 400, 200},
		{"[::1]:4000", 400, 200},
		{"", 400, 403},
	} {
		for path, want := range map[string]int{"/auth?limit=GCRA+1/m": c.auth, "/v1/take": c.take} {
			r := httptest.NewRequest("POST", path, bytes.NewReader([]byte(`{"key":"u","limit":"GCRA 1/m"}`)))
			r.RemoteAddr = c.peer
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s from %q: %d, want %d: %s", path, c.peer, w.Code, want, w.Body)
			}
		}
	}
	h = New(Options{Do: f.do, Closed: func(context.Context) bool { return false }})
	r := httptest.NewRequest("POST", "/v1/take", strings.NewReader(`{"key":"u","limit":"GCRA 1/m"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 200 {
		t.Errorf("an open port answers another machine with %d: %s", w.Code, w.Body)
	}
}

// What a body has never makes the handler fail, and what reaches the server is a limit and nothing else.
func FuzzTake(f *testing.F) {
	for _, s := range []string{`{"key":"u","limit":"GCRA 1/m"}`, `{"key":"u","limit":"FIXED 1 CALENDAR day","cost":2,"peek":true}`, `{`, `{"key":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		fk := &fake{reply: granted}
		w := fk.serve("POST", "/v1/take", string(body), jsonType)
		if w.Code != 200 && w.Code != 400 && w.Code != 413 || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		for _, word := range fk.words[min(2, len(fk.words)):] {
			if strings.EqualFold(word, "WAIT") || strings.EqualFold(word, "REPLACE") {
				t.Errorf("%q", fk.words)
			}
		}
	})
}
