package dashboard

import (
	"net/http/httptest"
	"strings"
	"testing"
)

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
