package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"limitdb/internal/stats"
	"limitdb/observe"
)

// board is a dashboard of a server that gives fixed replies, on a clock that the test moves.
type board struct {
	*Dashboard
	now      time.Time
	password string
	hosts    []string
	snapshot observe.Snapshot
	replies  map[string]string // by the command's name
	asked    []string
}

func newBoard() *board {
	b := &board{now: time.Unix(1_600_000_000, 0), replies: map[string]string{}}
	b.Dashboard = New(Options{
		Snapshot: func() observe.Snapshot { return b.snapshot },
		Ready:    func() error { return nil },
		Now:      func() time.Time { return b.now },
		Password: func() string { return b.password },
		Hosts:    func() []string { return b.hosts },
		Do: func(_ context.Context, args ...[]byte) ([]byte, error) {
			words := make([]string, len(args))
			for i, a := range args {
				words[i] = string(a)
			}
			b.asked = append(b.asked, strings.Join(words, " "))
			if reply, ok := b.replies[words[0]]; ok {
				return []byte(reply), nil
			}
			return []byte("*0\r\n"), nil
		},
	})
	return b
}

// client asks over a real connection from 127.0.0.1, with cookies of its own.
type client struct {
	t       *testing.T
	url     string
	host    string
	cookies []*http.Cookie
}

func (b *board) serve(t *testing.T) *client {
	t.Helper()
	s, err := observe.Listen(observe.Options{Dashboard: b, Password: func() string { return b.password }, Source: observe.Source{
		Snapshot: func() observe.Snapshot { return b.snapshot }, Ready: func() error { return nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Shutdown(t.Context()) })
	return &client{t: t, url: "http://" + s.Addrs()[0].String()}
}

// ask sends a request; headers are "Name: value".
func (c *client) ask(method, path, body string, headers ...string) (int, http.Header, string) {
	c.t.Helper()
	r, err := http.NewRequest(method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.host != "" {
		r.Host = c.host
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	for _, k := range c.cookies {
		r.AddCookie(k)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	if all := res.Cookies(); len(all) > 0 {
		c.cookies = all
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}

// ours are the headers of a call from the page's own script.
func ours() []string {
	return []string{"X-Limitdb: dashboard", "Content-Type: application/json", "Sec-Fetch-Site: same-origin"}
}

func TestPage(t *testing.T) {
	c := newBoard().serve(t)
	for path, kind := range map[string]string{"": "text/html", "app.js": "text/javascript", "style.css": "text/css", "uplot.js": "text/javascript", "icon.svg": "image/svg+xml", "uplot-LICENSE.txt": "text/plain"} {
		status, header, body := c.ask("GET", Path+path, "")
		if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), kind) || body == "" {
			t.Errorf("%q: %d %s", path, status, header.Get("Content-Type"))
		}
		if !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") || header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%q: %v", path, header)
		}
		// Everything comes from this server, and no markup has code or style that the policy would stop.
		if path == "" || path == "app.js" || path == "style.css" {
			for _, bad := range []string{"https://", " style=", " onclick=", "innerHTML", "eval(", "@import"} {
				if strings.Contains(strings.ReplaceAll(body, "http://www.w3.org/", ""), bad) {
					t.Errorf("%q has %q", path, bad)
				}
			}
		}
	}
	for _, path := range []string{"nothing", "..%2fdashboard.go", "api/nothing", "assets/"} {
		if status, _, _ := c.ask("GET", Path+path, ""); status != 404 && status != 400 {
			t.Errorf("%q: %d", path, status)
		}
	}
	if status, header, _ := c.ask("GET", "/", "", "Accept: text/html,*/*"); status != 303 || header.Get("Location") != Path {
		t.Errorf("a browser is led to %q: %d", header.Get("Location"), status)
	}
	if status, _, body := c.ask("GET", "/", ""); status != 200 || !strings.Contains(body, Path) {
		t.Errorf("curl gets %d %q", status, body)
	}
}

// Without a password the page shows, to this machine, and changes nothing.
func TestWithoutAPassword(t *testing.T) {
	b := newBoard()
	c := b.serve(t)
	if status, _, _ := c.ask("GET", Path+"api/state", ""); status != 200 {
		t.Errorf("state: %d", status)
	}
	for _, call := range []string{"reset", "signin", "signout"} {
		if status, _, body := c.ask("POST", Path+"api/"+call, `{"id":"YQ"}`, ours()...); status != 403 {
			t.Errorf("%s: %d %s", call, status, body)
		}
	}
	if status, _, _ := c.ask("GET", Path, "", "X-Forwarded-For: 192.0.2.1"); status != 403 {
		t.Errorf("through a proxy: %d", status)
	}
	r := httptest.NewRequest("GET", "http://192.0.2.2:6380"+Path, nil)
	r.RemoteAddr = "192.0.2.1:4000"
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	if w.Code != 403 || !strings.Contains(w.Body.String(), "LIMITDB_HTTP_PASSWORD") {
		t.Errorf("from another machine: %d %s", w.Code, w.Body)
	}
}

// A name that resolves to this server is not this server's name.
func TestHosts(t *testing.T) {
	for _, c := range []struct {
		host string
		want int
	}{
		{"127.0.0.1:6380", 200},
		{"[::1]:6380", 200},
		{"localhost", 200},
		{"LOCALHOST:1", 200},
		{"192.0.2.2:6380", 200},
		{"limits.example:6380", 200},
		{"LIMITS.example", 200},
		{"evil.example:6380", 421},
		{"localhost.evil.example", 421},
		{"127.0.0.1.evil.example", 421},
		{"evil.example.", 421},
		{"x y", 421},
	} {
		b := newBoard()
		b.password, b.hosts = "secret", []string{"limits.example"}
		for _, path := range []string{"", "app.js"} {
			r := httptest.NewRequest("GET", Path+path, nil)
			r.Host = c.host
			w := httptest.NewRecorder()
			b.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%s%s: %d, want %d", c.host, path, w.Code, c.want)
			}
		}
	}
}

func TestSignIn(t *testing.T) {
	b := newBoard()
	b.password = "secret"
	b.replies["RL.RESET"] = ":1\r\n"
	c := b.serve(t)
	status := func(method, call, body string, headers ...string) int {
		t.Helper()
		code, _, text := c.ask(method, Path+"api/"+call, body, headers...)
		if !json.Valid([]byte(text)) && code != 405 {
			t.Errorf("%s: %q", call, text)
		}
		return code
	}
	const right, key = `{"password":"secret"}`, `{"id":"YQ"}`
	for _, s := range []struct {
		what, method, call, body string
		headers                  []string
		want                     int
	}{
		{"nobody", "GET", "state", "", nil, 401},
		{"nobody", "GET", "key?key=a", "", nil, 401},
		{"nobody", "POST", "reset", key, ours(), 401},
		{"a wrong password", "POST", "signin", `{"password":"wrong"}`, ours(), 401},
		{"another site's form", "POST", "signin", right, []string{"Content-Type: application/json"}, 403},
		{"not JSON", "POST", "signin", "password=secret", []string{"X-Limitdb: dashboard", "Content-Type: application/x-www-form-urlencoded"}, 415},
		{"unknown fields", "POST", "signin", `{"password":"secret","x":1}`, ours(), 400},
		{"too long", "POST", "signin", `{"password":"` + strings.Repeat("x", 20<<10) + `"}`, ours(), 400},
		{"the password", "POST", "signin", right, ours(), 200},
		{"signed in", "GET", "state", "", nil, 200},
		{"another site, by a script", "POST", "reset", key, []string{"Content-Type: application/json", "Sec-Fetch-Site: cross-site"}, 403},
		{"another site, with our header", "POST", "reset", key, []string{"X-Limitdb: dashboard", "Content-Type: application/json", "Sec-Fetch-Site: cross-site"}, 403},
		{"another origin", "POST", "reset", key, []string{"X-Limitdb: dashboard", "Content-Type: application/json", "Origin: http://evil.example"}, 403},
		{"no key", "POST", "reset", `{"id":""}`, ours(), 400},
		{"a key", "POST", "reset", key, ours(), 200},
		{"the way of a link", "GET", "reset", "", nil, 405},
		{"sign out", "POST", "signout", "{}", ours(), 200},
	} {
		if got := status(s.method, s.call, s.body, s.headers...); got != s.want {
			t.Errorf("%s, %s: %d, want %d", s.what, s.call, got, s.want)
		}
	}
	if got := strings.Join(b.asked, ", "); got != "RL.TOP COUNT 12, RL.RESET a" {
		t.Errorf("the server was asked %q", got)
	}
}

// A session ends by itself, when the password changes, and by signing out even if its cookie is kept.
func TestSessionsEnd(t *testing.T) {
	for _, how := range []string{"time", "password", "sign out", "many others"} {
		b := newBoard()
		b.password = "secret"
		c := b.serve(t)
		if code, header, _ := c.ask("POST", Path+"api/signin", `{"password":"secret"}`, ours()...); code != 200 || !strings.Contains(header.Get("Set-Cookie"), "HttpOnly; SameSite=Strict") {
			t.Fatal(code, header)
		}
		cookies := c.cookies
		if code, _, _ := c.ask("GET", Path+"api/state", ""); code != 200 {
			t.Fatal(code)
		}
		switch how {
		case "time":
			b.now = b.now.Add(sessionTime)
		case "password":
			b.password = "another"
		case "sign out":
			c.ask("POST", Path+"api/signout", "{}", ours()...)
		case "many others":
			b.now = b.now.Add(time.Second)
			for range maxSessions {
				b.sessions.begin(b.now, "secret")
			}
		}
		c.cookies = cookies
		if code, _, _ := c.ask("GET", Path+"api/state", ""); code != 401 {
			t.Errorf("%s: %d", how, code)
		}
	}
}

// After ten wrong passwords of an address, none of its passwords is looked at for a second.
func TestGuesses(t *testing.T) {
	b := newBoard()
	b.password = "secret"
	c := b.serve(t)
	signIn := func(password string, want int) {
		t.Helper()
		code, header, text := c.ask("POST", Path+"api/signin", `{"password":"`+password+`"}`, ours()...)
		if code != want || (code == 429) != (header.Get("Retry-After") == "1") {
			t.Errorf("%s: %d %v %s, want %d", password, code, header, text, want)
		}
	}
	for range 10 {
		signIn("wrong", 401)
	}
	signIn("wrong", 429)
	signIn("secret", 429)
	b.now = b.now.Add(time.Second)
	signIn("secret", 200)
}

func TestState(t *testing.T) {
	b := newBoard()
	b.replies["RL.TOP"] = "*2\r\n*2\r\n$3\r\na\xffb\r\n:7\r\n*2\r\n$6\r\nuser:1\r\n:3\r\n"
	b.snapshot.Engine = stats.Engine{Allowed: 10, Limited: 5, Keys: 3}
	b.snapshot.Commands = []stats.Command{{Name: "rl.take"}, {Name: "ping"}}
	b.Sample()
	b.now = b.now.Add(2 * time.Second)
	b.snapshot.Engine = stats.Engine{Allowed: 110, Limited: 15, Keys: 4}
	b.snapshot.ShadowLimited = 40
	b.snapshot.Rules = []observe.Rule{{Rule: stats.Rule{ShadowLimited: 40, CandidateLimited: 40}}} // of the same requests
	b.snapshot.Commands = []stats.Command{{Name: "rl.take"}, {Name: "ping"}}
	b.snapshot.Commands[0].Latency.Buckets[2] = 100 // 2 to 4 µs
	b.snapshot.Commands[1].Latency.Buckets[20] = 100
	b.Sample()
	c := b.serve(t)
	_, _, body := c.ask("GET", Path+"api/state", "")
	var s state
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Samples) != 2 || s.Samples[1].Allowed != 50 || s.Samples[1].Limited != 5 || s.Samples[1].Shadow != 20 || s.Samples[1].Median != 3 || s.Samples[1].Commands != 100 || s.Decisions != 125 {
		t.Errorf("%+v", s)
	}
	if len(s.Top) != 2 || s.Top[0].Text != `"a\xffb"` || s.Top[0].ID != "Yf9i" || s.Top[1].Text != "user:1" || s.Top[1].Count != 3 {
		t.Errorf("%+v", s.Top)
	}
	_, _, body = c.ask("GET", Path+"api/state?since="+json.Number("1600000000000").String(), "")
	if err := json.Unmarshal([]byte(body), &s); err != nil || len(s.Samples) != 1 {
		t.Errorf("since the first: %v, %d samples", err, len(s.Samples))
	}
	for range 2 * kept {
		b.now = b.now.Add(time.Second)
		b.Sample()
	}
	if n := len(b.history.after(0)); n != kept {
		t.Errorf("%d samples are kept", n)
	}
	// Counters that go back are no negative rates.
	b.snapshot.Engine.Allowed, b.now = 0, b.now.Add(time.Second)
	b.Sample()
	if all := b.history.after(0); all[kept-1].Allowed != 0 {
		t.Errorf("%+v", all[kept-1])
	}
}

// TestChecks checks that the page shows how long checks took in the last minutes, not since the start.
func TestChecks(t *testing.T) {
	b := newBoard()
	took := func(n ...uint64) (h stats.Histogram) {
		copy(h.Buckets[:], n)
		return h
	}
	shown := func(now ...observe.Checks) []checks {
		t.Helper()
		b.snapshot.Checks = now
		_, _, body := b.serve(t).ask("GET", Path+"api/state", "")
		var s state
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Fatal(err)
		}
		return s.Checks
	}
	if got := shown(observe.Checks{Namespace: "a", Latency: took(0, 0, 8)}); !slices.Equal(got, []checks{{"a", 8, 3, 3.98}}) {
		t.Errorf("before the first sample: %v", got)
	}
	for range kept + checksEvery {
		b.now = b.now.Add(time.Second)
		b.Sample()
	}
	if got := shown(observe.Checks{Namespace: "a", Latency: took(0, 4, 8)}, observe.Checks{Namespace: "new", Latency: took(2)}); !slices.Equal(got, []checks{{"a", 4, 1.5, 1.99}, {"new", 2, 0.5, 0.99}}) {
		t.Errorf("later: %v", got)
	}
	if got := shown(observe.Checks{Namespace: "a", Latency: took(0, 0, 0, 1)}); !slices.Equal(got, []checks{{"a", 1, 6, 7.96}}) {
		t.Errorf("after the namespace was away: %v", got)
	}
}

func TestRules(t *testing.T) {
	b := newBoard()
	b.password = "secret"
	var set []string
	b.SetMode = func(_ context.Context, namespace, rule, mode string) error {
		set = append(set, namespace+"/"+rule+" "+mode)
		if mode == "bad" {
			return errors.New("no such mode")
		}
		return nil
	}
	c := b.serve(t)
	c.ask("POST", Path+"api/signin", `{"password":"secret"}`, ours()...)
	for body, want := range map[string]int{
		`{"namespace":"shop","rule":"login","mode":"shadow"}`: 200, `{"namespace":"shop","rule":"login","mode":"bad"}`: 409, `{"mode":1}`: 400,
	} {
		if code, _, text := c.ask("POST", Path+"api/mode", body, ours()...); code != want {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
	if len(set) != 2 {
		t.Errorf("%q", set)
	}
	if code, _, _ := c.ask("POST", Path+"api/mode", `{"namespace":"shop","rule":"login","mode":"off"}`, "Content-Type: application/json"); code != 403 {
		t.Errorf("another site: %d", code)
	}
	// The rules that limit most are shown, in the order of the file.
	var all []observe.Rule
	for i := range 3 * maxRules {
		all = append(all, observe.Rule{Rule: stats.Rule{Limited: uint64(i)}})
	}
	if shown, more := rulesOf(all); len(shown) != maxRules || more != 2*maxRules || shown[0].Limited != 2*maxRules || shown[maxRules-1].Limited != 3*maxRules-1 {
		t.Errorf("%d are shown, the first with %d, and %d more", len(shown), shown[0].Limited, more)
	}
}

func TestKey(t *testing.T) {
	b := newBoard()
	c := b.serve(t)
	for _, s := range []struct {
		query, reply string
		status       int
		want, asked  string
	}{
		{"key=user:1", "%2\r\n$9\r\nalgorithm\r\n$4\r\ngcra\r\n$5\r\nlevel\r\n:7\r\n", 200, `{"algorithm":"gcra","found":true,"id":"dXNlcjox","level":7,"text":"user:1"}`, "RL.INFO user:1"},
		{"id=Yf9i", "_\r\n", 200, `{"found":false,"id":"Yf9i","text":"\"a\\xffb\""}`, "RL.INFO a\xffb"},
		{"key=a", "-MOVED 1 a:1\r\n", 409, `{"error":"MOVED 1 a:1"}`, "RL.INFO a"},
		{"", "", 400, `{"error":"no key is given"}`, ""},
		{"id=***", "", 400, `{"error":"no key is given"}`, ""},
	} {
		b.asked, b.replies["RL.INFO"] = nil, s.reply
		status, _, body := c.ask("GET", Path+"api/key?"+s.query, "")
		if status != s.status || body != s.want || strings.Join(b.asked, "") != s.asked {
			t.Errorf("%s: %d %s, asked %q", s.query, status, body, b.asked)
		}
	}
	b.Do = func(context.Context, ...[]byte) ([]byte, error) { return nil, errors.New("too late") }
	if status, _, _ := c.ask("GET", Path+"api/key?key=a", ""); status != 409 {
		t.Error(status)
	}
}
