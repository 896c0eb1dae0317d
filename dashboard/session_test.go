package dashboard

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

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
