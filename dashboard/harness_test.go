package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

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
