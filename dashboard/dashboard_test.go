package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
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
	replies  map[string]string // by the words that a command begins with
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
			return []byte(b.reply(words)), nil
		},
	})
	return b
}

// reply returns the reply whose words are the most of those that a command begins with.
func (b *board) reply(words []string) string {
	for n := len(words); n > 0; n-- {
		if reply, ok := b.replies[strings.Join(words[:n], " ")]; ok {
			return reply
		}
	}
	return "*0\r\n"
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
	for path, kind := range map[string]string{"": "text/html", "app.js": "text/javascript", "page.js": "text/javascript", "style.css": "text/css", "uplot.js": "text/javascript", "icon.svg": "image/svg+xml", "uplot-LICENSE.txt": "text/plain"} {
		status, header, body := c.ask("GET", Path+path, "")
		if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), kind) || body == "" {
			t.Errorf("%q: %d %s", path, status, header.Get("Content-Type"))
		}
		if !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") || header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%q: %v", path, header)
		}
		// Everything comes from this server, and no markup has code or style that the policy would stop.
		if path == "" || strings.HasSuffix(path, ".js") && path != "uplot.js" || path == "style.css" {
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
		{"nobody", "POST", "key", `{"id":"YQ"}`, ours(), 401},
		{"nobody", "POST", "reset", key, ours(), 401},
		{"a wrong password", "POST", "signin", `{"password":"wrong"}`, ours(), 401},
		{"another site's form", "POST", "signin", right, []string{"Content-Type: application/json"}, 403},
		{"not JSON", "POST", "signin", "password=secret", []string{"X-Limitdb: dashboard", "Content-Type: application/x-www-form-urlencoded"}, 415},
		{"unknown fields", "POST", "signin", `{"password":"secret","x":1}`, ours(), 400},
		{"too long", "POST", "signin", `{"password":"` + strings.Repeat("x", maxBody) + `"}`, ours(), 400},
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
	if got := strings.Join(b.asked, ", "); got != "RL.HISTORY SINCE 0, RL.TOP COUNT 12, RL.RESET a" {
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
				b.sessions.begin(b.now, "secret", nil)
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

// bulk returns texts as a RESP array.
func bulk(words ...string) string {
	out := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		out += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	return out
}

// get asks for JSON.
func get[T any](t *testing.T, c *client, path string) (v T) {
	t.Helper()
	status, _, body := c.ask("GET", Path+"api/"+path, "")
	if err := json.Unmarshal([]byte(body), &v); err != nil || status != 200 {
		t.Fatalf("%s: %d %s", path, status, body)
	}
	return v
}

func TestState(t *testing.T) {
	b := newBoard()
	b.replies["RL.TOP"] = "*2\r\n*2\r\n$3\r\na\xffb\r\n:7\r\n*2\r\n$6\r\nuser:1\r\n:3\r\n"
	b.replies["RL.HISTORY SINCE 5"] = "%8\r\n$11\r\nholds_taken\r\n:7\r\n$6\r\nblocks\r\n:3\r\n$4\r\nnode\r\n$2\r\nn2\r\n$7\r\nallowed\r\n:110\r\n$7\r\nlimited\r\n:15\r\n$8\r\np99_nsec\r\n:2500\r\n" +
		"$7\r\nsamples\r\n*2\r\n*12\r\n:9\r\n:1000\r\n:50\r\n:5\r\n:20\r\n:3000\r\n:4000\r\n:5000\r\n:4\r\n:8\r\n:2\r\n:1\r\n*1\r\n:1\r\n$6\r\nchecks\r\n*1\r\n*4\r\n$4\r\nshop\r\n:8\r\n:3000\r\n:3980\r\n"
	b.replies["RL.RULES STATS"] = "*1\r\n%6\r\n$9\r\nnamespace\r\n$4\r\nshop\r\n$4\r\nname\r\n$1\r\nx\r\n$7\r\nlimited\r\n:3\r\n$14\r\nshadow_limited\r\n:2\r\n$6\r\nblocks\r\n:1\r\n$7\r\nblocked\r\n:2\r\n"
	c := b.serve(t)
	s := get[state](t, c, "state?since=5&over=")
	f := s.Figures
	if want := (sample{9, 1000, 50, 5, 20, 3, 4, 5, 4, 8, 2, 1}); f.Node != "n2" || f.Allowed != 110 || f.Limited != 15 || f.P99 != 2.5 || f.Holds != 7 || f.Blocks != 3 || len(f.Samples) != 1 || f.Samples[0] != want {
		t.Errorf("%+v", f)
	}
	if want := (checks{"shop", 8, 3, 3.98}); len(f.Checks) != 1 || f.Checks[0] != want {
		t.Errorf("%+v", f.Checks)
	}
	if len(s.Top) != 2 || s.Top[0].Text != `"a\xffb"` || s.Top[0].ID != "Yf9i" || s.Top[1].Text != "user:1" || s.Top[1].Count != 3 {
		t.Errorf("%+v", s.Top)
	}
	if len(s.Rules) != 1 || s.Rules[0].Name != "x" || s.Rules[0].Limited != 3 || s.Rules[0].Shadow != 2 || s.Rules[0].Blocks != 1 || s.Rules[0].Blocked != 2 {
		t.Errorf("%+v", s.Rules)
	}
	// They may be those of the last minutes, and are asked for only if the page wants them.
	b.replies["RL.RULES STATS OVER 1h"] = "*0\r\n"
	if s := get[state](t, c, "state?over=1h"); s.Rules == nil || len(s.Rules) != 0 {
		t.Errorf("%+v", s.Rules)
	}
	b.asked = nil
	if s := get[state](t, c, "state"); s.Rules != nil || slices.ContainsFunc(b.asked, func(a string) bool { return strings.HasPrefix(a, "RL.RULES") }) {
		t.Errorf("%+v", s.Rules)
	}
	// Minutes are asked for only if the page wants them, and only those that it has not.
	if s := get[state](t, c, "state"); s.Minutes != nil || slices.ContainsFunc(b.asked, func(a string) bool { return strings.Contains(a, "MINUTE") }) {
		t.Errorf("%+v, asked %q", s.Minutes, b.asked)
	}
	const row = "*12\r\n:%d\r\n:60000\r\n:50\r\n:5\r\n:20\r\n:3000\r\n:4000\r\n:5000\r\n:4\r\n:8\r\n:2\r\n:1\r\n"
	b.replies["RL.HISTORY SINCE 0 BY MINUTE"] = "%1\r\n$7\r\nsamples\r\n*2\r\n" + fmt.Sprintf(row, 60) + fmt.Sprintf(row, 120)
	b.replies["RL.HISTORY SINCE 60 BY MINUTE"] = "%1\r\n$7\r\nsamples\r\n*1\r\n" + fmt.Sprintf(row, 120)
	b.replies["RL.HISTORY SINCE 120 BY MINUTE"] = "-ERR there is no BY\r\n"
	one, two := sample{60, 60000, 50, 5, 20, 3, 4, 5, 4, 8, 2, 1}, sample{120, 60000, 50, 5, 20, 3, 4, 5, 4, 8, 2, 1}
	for since, want := range map[string]minutes{
		"0": {"", []sample{one, two}}, "-7": {"", []sample{one, two}}, "": {"", []sample{one, two}}, "x": {"", []sample{one, two}},
		"60": {"", []sample{two}}, "120": {"there is no BY", []sample{}},
	} {
		s := get[state](t, c, "state?since=5&minutes="+since)
		if m := s.Minutes; m == nil || m.Problem != want.Problem || !slices.Equal(m.Samples, want.Samples) || s.Figures.Problem != "" || len(s.Figures.Samples) != 1 {
			t.Errorf("minutes=%s: %+v, want %+v", since, m, want)
		}
	}
	// While nobody leads, the page says so, and shows the rest.
	b.Do = func(context.Context, ...[]byte) ([]byte, error) { return []byte("-CLUSTERDOWN no node leads\r\n"), nil }
	if s := get[state](t, c, "state"); s.Figures.Problem != "CLUSTERDOWN no node leads" || len(s.Top) != 0 {
		t.Errorf("%+v", s)
	}
	b.Do = func(ctx context.Context, _ ...[]byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }
	if s := get[state](t, c, "state"); s.Figures.Problem != errLate.Error() {
		t.Errorf("%+v", s)
	}
}

func TestNodes(t *testing.T) {
	b := newBoard()
	b.snapshot.Config.LastReloadOK = true
	b.snapshot.Replication = stats.Replication{On: true, ID: "n1", Leads: true, Leader: "a:1", Term: 3, Committed: 5000, Applied: 5000}
	server := func(id, role, state string, last, contact int) string {
		return "%7\r\n" + strings.TrimPrefix(bulk("id", id, "client", "a:1", "vote", "voter", "role", role, "state", state), "*10\r\n") +
			fmt.Sprintf("$10\r\nlast-index\r\n:%d\r\n$15\r\nlast-contact-ms\r\n:%d\r\n", last, contact)
	}
	b.replies["RAFT SERVER LIST"] = "*4\r\n" + server("n1", "leader", "online", 5000, 0) + server("n2", "follower", "online", 3000, 8) + server("n3", "follower", "unreachable", 4000, 12500) + server("n4", "follower", "unreachable", -1, -1)
	s := get[state](t, b.serve(t), "state")
	want := []Node{
		{ID: "n1", Client: "a:1", Self: true, Leads: true, Votes: true, Answers: true},
		{ID: "n2", Client: "a:1", Votes: true, Answers: true, Contact: 8, Behind: 2000},
		{ID: "n3", Client: "a:1", Votes: true, Contact: 12500, Behind: -1},
		{ID: "n4", Client: "a:1", Votes: true, Contact: -1, Behind: -1},
	}
	if !slices.Equal(s.Cluster.Nodes, want) {
		t.Errorf("%+v", s.Cluster.Nodes)
	}
	var said []string
	for _, c := range s.Concerns {
		said = append(said, c.Text)
	}
	if got := strings.Join(said, " "); got != "Node n2 is 2000 entries behind. Node n3 has not answered for 13s. Node n4 does not answer." {
		t.Error(got)
	}
}

// Of a cluster of several groups, the page has the nodes and groups of RAFT NODES and RAFT GROUPS, and asks for them in no other.
func TestGroups(t *testing.T) {
	b := newBoard()
	b.snapshot.Replication = stats.Replication{On: true, ID: "n1", Leads: true, Leader: "a:1"}
	b.replies["RAFT INFO"] = "%1\r\n$6\r\ngroups\r\n:1\r\n"
	c := b.serve(t)
	if s := get[state](t, c, "state"); s.Cluster.Groups == nil || s.Cluster.Placed == nil || len(s.Cluster.Groups)+len(s.Cluster.Placed) > 0 || slices.Contains(b.asked, "RAFT GROUPS") {
		t.Errorf("%+v, asked %q", s.Cluster, b.asked)
	}
	b.replies["RAFT INFO"] = "%1\r\n$6\r\ngroups\r\n:2\r\n"
	b.replies["RAFT NODES"] = "*2\r\n%8\r\n" + strings.TrimPrefix(bulk("id", "n1", "client", "a:1", "zone", "east", "state", "online"), "*8\r\n") +
		"$6\r\nweight\r\n:100\r\n$8\r\ndraining\r\n:0\r\n$8\r\nreplicas\r\n:2\r\n$5\r\nleads\r\n:1\r\n" +
		"%3\r\n" + strings.TrimPrefix(bulk("id", "n2", "state", "unreachable"), "*4\r\n") + "$8\r\ndraining\r\n:1\r\n"
	b.replies["RAFT GROUPS"] = "*2\r\n%10\r\n" + strings.TrimPrefix(bulk("leader", "n1", "wanted-leader", "n2"), "*4\r\n") +
		"$5\r\ngroup\r\n:1\r\n$10\r\nfirst-slot\r\n:0\r\n$9\r\nlast-slot\r\n:8191\r\n$5\r\nnodes\r\n" + bulk("n1", "n2", "n3") + "$8\r\nreplicas\r\n" + bulk("n1", "n3 (learner)", "n2") +
		"$7\r\nsettled\r\n:0\r\n$3\r\nlag\r\n:7\r\n$4\r\nkeys\r\n:42\r\n" +
		"%3\r\n" + strings.TrimPrefix(bulk("leader", ""), "*2\r\n") + "$5\r\ngroup\r\n:2\r\n$7\r\nsettled\r\n:1\r\n"
	s := get[state](t, c, "state").Cluster
	if want := []placedNode{{"n1", "a:1", "east", 100, false, true, 2, 1}, {ID: "n2", Draining: true}}; !slices.Equal(s.Placed, want) {
		t.Errorf("%+v", s.Placed)
	}
	want := []keyGroup{
		{1, 0, 8191, "n1", "n2", []string{"n1", "n3 (learner)", "n2"}, []string{"n3"}, false, 7, 42},
		{Number: 2, Settled: true, Replicas: []string{}, To: []string{}},
	}
	if !reflect.DeepEqual(s.Groups, want) {
		t.Errorf("%+v", s.Groups)
	}
}

// TestConcerns has each concern once, and none when all is well.
func TestConcerns(t *testing.T) {
	for _, test := range []struct {
		want  string // the beginning
		grave bool
		spoil func(s *observe.Snapshot, c *cluster, ready *error)
	}{
		{"", false, func(*observe.Snapshot, *cluster, *error) {}},
		{"No decisions are made here: loading.", true, func(_ *observe.Snapshot, _ *cluster, r *error) { *r = errors.New("loading") }},
		{"The log cannot be written", true, func(s *observe.Snapshot, _ *cluster, _ *error) { s.Refusing = true }},
		{"No node leads", true, func(_ *observe.Snapshot, c *cluster, _ *error) { c.On = true }},
		{"The certificate of x has expired.", true, func(s *observe.Snapshot, _ *cluster, _ *error) {
			s.Certificates = []observe.Certificate{{Directive: "x"}}
		}},
		{"The certificate of x expires in 3 days.", false, func(s *observe.Snapshot, _ *cluster, _ *error) {
			s.Certificates = []observe.Certificate{{Directive: "x", Left: 80 * time.Hour}, {Directive: "y", Left: 80 * 24 * time.Hour}}
		}},
		{"No node leads 2 of 3 groups", true, func(_ *observe.Snapshot, c *cluster, _ *error) {
			c.On, c.Leads, c.Groups = true, true, []keyGroup{{}, {Leader: "a"}, {}}
		}},
		{"No node leads group 0", false, func(_ *observe.Snapshot, c *cluster, _ *error) { c.On, c.Groups = true, []keyGroup{{Leader: "a"}} }},
		{"This node has still to apply 1001 entries.", false, func(_ *observe.Snapshot, c *cluster, _ *error) { c.Behind = 1001 }},
		{"The last snapshot failed", false, func(s *observe.Snapshot, _ *cluster, _ *error) { s.Durability.LastSnapshotFailed = true }},
		{"The last change of the rules had a mistake", false, func(s *observe.Snapshot, _ *cluster, _ *error) { s.RulesProblem = true }},
		{"The last reload of the configuration failed", false, func(s *observe.Snapshot, _ *cluster, _ *error) { s.Config.LastReloadOK = false }},
		{"91 of 100 clients are connected", false, func(s *observe.Snapshot, _ *cluster, _ *error) { s.Clients.Connected, s.Clients.Max = 91, 100 }},
		{"The clock of decisions is 1.5s off", false, func(s *observe.Snapshot, _ *cluster, _ *error) { s.ClockOffset = -1500 * time.Millisecond }},
	} {
		s, c, ready := observe.Snapshot{Config: observe.Config{LastReloadOK: true}}, cluster{}, error(nil)
		s.Clients.Max = 100
		test.spoil(&s, &c, &ready)
		got := concerns(&s, &c, ready)
		switch {
		case test.want == "" && len(got) > 0, test.want != "" && len(got) != 1:
			t.Errorf("%q: %+v", test.want, got)
		case len(got) == 1 && (!strings.HasPrefix(got[0].Text, test.want) || got[0].Grave != test.grave):
			t.Errorf("%+v, want %q", got[0], test.want)
		}
	}
}

func TestRules(t *testing.T) {
	b := newBoard()
	b.password = "secret"
	b.replies["RL.RULES MODE shop login bad"] = "-ERR mode must be enforce, shadow or off\r\n"
	b.replies["RL.RULES GET"] = "$27\r\nname: login\r\nlimit: 1/m\r\n\r\n\r\n"
	b.replies["RL.RULES VALIDATE"] = "%1\r\n$7\r\nchanged\r\n*1\r\n$10\r\nshop/login\r\n"
	b.replies["RL.RULES SET"] = b.replies["RL.RULES VALIDATE"]
	b.replies["RL.RULES VALIDATE shop login bad"] = "-ERR a rule must be a mapping\r\n"
	c := b.serve(t)
	c.ask("POST", Path+"api/signin", `{"password":"secret"}`, ours()...)
	for _, s := range []struct {
		call, body string
		status     int
		want       string // in the answer
		asked      string // last
	}{
		{"mode", `{"namespace":"shop","rule":"login","mode":"shadow"}`, 200, "{}", "RL.RULES MODE shop login shadow"},
		{"mode", `{"namespace":"shop","rule":"login","mode":"bad"}`, 409, "mode must be", "RL.RULES MODE shop login bad"},
		{"mode", `{"mode":1}`, 400, "", ""},
		{"rule/check", `{"namespace":"shop","name":"login","text":"limit: 2/m","how":"set"}`, 200, `"changed":["shop/login"]`, "RL.RULES VALIDATE shop login limit: 2/m"},
		{"rule/check", `{"namespace":"shop","name":"login","text":"bad","how":"set"}`, 409, "a rule must be a mapping", "RL.RULES VALIDATE shop login bad"},
		{"rule/set", `{"namespace":"shop","name":"login","text":"limit: 2/m","how":"set"}`, 200, `"changed":["shop/login"]`, "RL.RULES SET shop login limit: 2/m"},
		{"rule/set", `{"namespace":"shop","name":"login","text":"{name: login, limit: 2/m}","how":"try"}`, 200, `candidate: 2/m`, "RL.RULES SET shop login name: login\nlimit: 1/m\ncandidate: 2/m\n"},
		{"rule/set", `{"namespace":"shop","name":"login","text":"{name: login, limit: 2/m, key: [u]}","how":"try"}`, 409, `only another limit can be tried`, "RL.RULES GET shop login"},
		{"rule/set", `{"namespace":"shop","name":"login","how":"adopt"}`, 409, `no candidate`, "RL.RULES GET shop login"},
		{"rule/set", `{"namespace":"shop","name":"login","how":"other"}`, 409, `a change is set, try, adopt or drop`, "RL.RULES GET shop login"},
	} {
		b.asked = nil
		code, _, text := c.ask("POST", Path+"api/"+s.call, s.body, ours()...)
		last := ""
		if n := len(b.asked); n > 0 {
			last = b.asked[n-1]
		}
		if code != s.status || !strings.Contains(text, s.want) || last != s.asked {
			t.Errorf("%s %s: %d %s, asked %q", s.call, s.body, code, text, b.asked)
		}
	}
	for _, call := range []string{"mode", "rule/check", "rule/set"} {
		if code, _, _ := c.ask("POST", Path+"api/"+call, `{"namespace":"shop"}`, "Content-Type: application/json"); code != 403 {
			t.Errorf("%s from another site: %d", call, code)
		}
	}
	// The rules that limit most are shown, in the order of the file.
	var all []rule
	for i := range 3 * maxRules {
		all = append(all, rule{Limited: int64(i)})
	}
	if shown, more := most(all); len(shown) != maxRules || more != 2*maxRules || shown[0].Limited != 2*maxRules || shown[maxRules-1].Limited != 3*maxRules-1 {
		t.Errorf("%d are shown, the first with %d, and %d more", len(shown), shown[0].Limited, more)
	}
}

// post asks for JSON with a body.
func post[T any](t *testing.T, c *client, path string, body any) (v T) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	status, _, text := c.ask("POST", Path+"api/"+path, string(b), ours()...)
	if err := json.Unmarshal([]byte(text), &v); err != nil || status != 200 {
		t.Fatalf("%s: %d %.200s", path, status, text)
	}
	return v
}

func TestSearch(t *testing.T) {
	const other = "\x00rlcAbc:shop:api:u2:/b"
	b := newBoard()
	info := "%1\r\n$9\r\nalgorithm\r\n$4\r\ngcra\r\n"
	b.replies["RL.INFO"] = "_\r\n"
	for _, key := range []string{"user:1", "a\xffb", ruleKey} {
		b.replies["RL.INFO "+key] = info
	}
	b.replies["RL.RULES LIST"] = bulk("shop")
	b.replies["RL.RULES LIST shop"] = rulesList
	b.replies["RL.RULES KEYS shop api user u 1 path /a:b"] = bulk("gone", ruleKey)
	b.replies[`RL.RULES KEYS shop api user u path 1 /a:b`] = bulk("gone")
	b.replies["RL.TOP"] = "*2\r\n*2\r\n$6\r\nuser:7\r\n:7\r\n*2\r\n$93\r\n" + strings.Repeat("u", 82) + "...01234567" + "\r\n:3\r\n"
	b.replies["SCAN"] = "*2\r\n$1\r\n0\r\n*0\r\n"
	b.replies[`SCAN 0 MATCH user:*`] = "*2\r\n$2\r\n17\r\n" + bulk("user:8")
	b.replies[`SCAN 17 MATCH user:*`] = "*2\r\n$1\r\n0\r\n" + bulk("user:9", "user:8")
	b.replies["SCAN 0 MATCH \x00rl????:shop:api:u2*"] = "*2\r\n$1\r\n0\r\n" + bulk(other)
	b.replies[`SCAN 0 MATCH \[x\]\**`] = "*2\r\n$1\r\n0\r\n" + bulk("[x]*y")
	c := b.serve(t)
	for text, want := range map[string]string{
		"user:":                       "key user:7 (denied often), key user:8 (), key user:9 ()",
		"user:1":                      "key user:1 (gcra)",
		`"a\xffb"`:                    `key "a\xffb" (gcra)`,
		`shop/api "u 1" /a:b`:         "key shop/api u 1 /a:b (gcra)",
		"shop/api u2":                 "key shop/api u2 /b ()",
		"shop/":                       "rule shop/api (GCRA 10/m)",
		"api":                         "rule shop/api (GCRA 10/m)",
		"[x]*":                        "key [x]*y ()",
		"nothing":                     "",
		strings.Repeat("u", 40):       "",
		strings.Repeat("/", maxQuery): "",
	} {
		found := post[struct {
			Hits  []hit
			Whole bool
		}](t, c, "search", map[string]string{"q": text})
		var got []string
		for _, h := range found.Hits {
			got = append(got, h.Kind+" "+h.Text+" ("+h.Note+")")
		}
		if strings.Join(got, ", ") != want || !found.Whole {
			t.Errorf("%.50q finds %q, whole: %v", text, got, found.Whole)
		}
	}
	for _, text := range []string{"", strings.Repeat("x", maxQuery+1)} {
		if status, _, _ := c.ask("POST", Path+"api/search", `{"q":"`+text+`"}`, ours()...); status != 400 {
			t.Errorf("%.10q: %d", text, status)
		}
	}
	// A table without an end ends with the time for a search.
	b.replies[`SCAN 0 MATCH user:*`] = "*2\r\n$1\r\n1\r\n*0\r\n"
	b.replies[`SCAN 1 MATCH user:*`] = "*2\r\n$1\r\n1\r\n*0\r\n"
	if found := post[struct{ Whole bool }](t, c, "search", map[string]string{"q": "user:"}); found.Whole {
		t.Error("it has come to an end")
	}
}
