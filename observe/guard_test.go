package observe

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestGuard checks who may ask for /metrics and /v1/, by where a request comes from and what it says of itself.
func TestGuard(t *testing.T) {
	const here, elsewhere = "127.0.0.1:4000", "192.0.2.1:4000"
	for _, c := range []struct {
		name, remote, host string
		headers            string // "Name: value|…"
		metrics, take      int    // the statuses without a password, in protected mode
	}{
		{"curl", here, "127.0.0.1:6380", "", 200, 200},
		{"curl, by name", here, "localhost:6380", "", 200, 200},
		{"curl, IPv6", "[::1]:4000", "[::1]:6380", "", 200, 200},
		{"curl, by this machine's name", here, "Limits.example:6380", "", 200, 200},
		{"curl, a port that is published", "172.17.0.1:4000", "localhost:6380", "", 200, 200},
		{"Prometheus", elsewhere, "192.0.2.2:6380", "Accept: text/plain|User-Agent: Prometheus/2.42.0", 200, 200},
		{"Prometheus, by a name in its network", elsewhere, "limitdb.monitoring.svc:6380", "User-Agent: Prometheus/2.42.0", 200, 200},
		{"Node.js, by name", elsewhere, "limitdb:6380", "Accept-Language: *|Sec-Fetch-Mode: cors", 421, 200},
		{"a proxy elsewhere", elsewhere, "limitdb:6380", "X-Forwarded-For: 198.51.100.1", 200, 200},

		{"another name that resolves to this machine", here, "evil.example:6380", "", 421, 421},
		{"the same in a browser", here, "evil.example:6380", "Origin: http://evil.example:6380|Accept-Language: de", 421, 421},
		{"the same from another machine", elsewhere, "evil.example:6380", "Origin: http://evil.example:6380|Accept-Language: ", 421, 421},
		{"names that look known", here, "localhost.evil.example", "", 421, 421},
		{"an address in a name", here, "127.0.0.1.evil.example", "", 421, 421},

		{"a proxy on this machine", here, "127.0.0.1:6380", "X-Forwarded-For: 198.51.100.1", 403, 403},
		{"a proxy on this machine, Via", here, "127.0.0.1:6380", "Via: 1.1 cache", 403, 403},
		{"a proxy on this machine, Forwarded", "[::1]:4000", "[::1]:6380", "Forwarded: for=198.51.100.1", 403, 403},
		{"a proxy on this machine, X-Real-IP", here, "127.0.0.1:6380", "X-Real-IP: ", 403, 403},

		{"a page of another site", here, "127.0.0.1:6380", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: no-cors", 403, 403},
		{"a page of the same site", here, "localhost:6380", "Sec-Fetch-Site: same-site|Sec-Fetch-Mode: cors", 403, 403},
		{"a frame of another site", here, "127.0.0.1:6380", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: iframe", 403, 403},
		{"a link", here, "127.0.0.1:6380", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: document", 200, 403},
		{"an older browser", here, "127.0.0.1:6380", "Origin: https://evil.example", 403, 403},
		{"an older browser, no origin", here, "127.0.0.1:6380", "Origin: null", 403, 403},
		{"the page itself", here, "127.0.0.1:6380", "Sec-Fetch-Site: same-origin|Origin: http://127.0.0.1:6380|Accept-Language: de", 200, 200},
		{"a bookmark", here, "127.0.0.1:6380", "Sec-Fetch-Site: none|Sec-Fetch-Mode: navigate", 200, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			password, protected := "", true
			h := guardedHandler(t, &password, &protected)
			// ask returns the statuses of both.
			ask := func() (metrics, take int) {
				for _, one := range []struct {
					method, path string
					status       *int
				}{{"GET", "/metrics", &metrics}, {"POST", "/v1/take", &take}} {
					r := httptest.NewRequest(one.method, one.path, strings.NewReader("{}"))
					r.RemoteAddr, r.Host = c.remote, c.host
					for field := range strings.SplitSeq(c.headers, "|") {
						name, value, _ := strings.Cut(field, ": ")
						if name != "" {
							r.Header.Set(name, value)
						}
					}
					r.SetBasicAuth("", password)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					*one.status = w.Code
					if w.Code != 200 && one.path == "/v1/take" && !json.Valid(w.Body.Bytes()) {
						t.Errorf("%q", w.Body)
					}
				}
				return metrics, take
			}
			if metrics, take := ask(); metrics != c.metrics || take != c.take {
				t.Errorf("without a password: %d and %d, want %d and %d", metrics, take, c.metrics, c.take)
			}
			unless := func(allowed, status int) int {
				if status == allowed {
					return 200
				}
				return status
			}
			protected = false
			isProxy := strings.HasPrefix(c.name, "a proxy")
			if metrics, take := ask(); isProxy && (metrics != 200 || take != 200) || !isProxy && (metrics != c.metrics || take != c.take) {
				t.Errorf("without a password, not protected: %d and %d", metrics, take)
			}
			password = "secret"
			crossSite := strings.Contains(c.headers, "Sec-Fetch") || strings.HasPrefix(c.name, "an older")
			metrics, take := ask()
			if want := unless(421, c.metrics); crossSite && (metrics != want || take != c.take) || !crossSite && (metrics != 200 || take != 200) {
				t.Errorf("with the password: %d and %d", metrics, take)
			}
		})
	}
}

// guardedHandler returns a handler whose calls of /v1/ are all answered with 200.
func guardedHandler(t *testing.T, password *string, protected *bool) http.Handler {
	t.Helper()
	h, err := newHandler(&Options{
		Source: testSource(), Password: func() string { return *password }, Protected: func() bool { return *protected },
		Hosts: func() []string { return []string{"limits.example"} }, Decisions: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	}, newPlaces(1, 1), discard())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestGuardLeavesTheRest checks that health checks and proxies' questions pass, whatever they say.
func TestGuardLeavesTheRest(t *testing.T) {
	password, protected := "", true
	h := guardedHandler(t, &password, &protected)
	for _, path := range []string{"/livez", "/readyz", "/auth?limit=GCRA+1/m"} {
		r := httptest.NewRequest("GET", path, http.NoBody)
		r.RemoteAddr, r.Host = "127.0.0.1:4000", "shop.example"
		for _, name := range []string{"X-Forwarded-For", "Via", "Origin", "Accept-Language"} {
			r.Header.Set(name, "198.51.100.1")
		}
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// While http-hosts has names, /auth is served under these, whatever the headers of the proxy's caller say.
func TestHostOfAuth(t *testing.T) {
	names := []string(nil)
	h, err := newHandler(&Options{
		Source: testSource(), Password: func() string { return "secret" }, AuthHosts: func() []string { return names },
		Decisions: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	}, newPlaces(1, 1), discard())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		names []string
		host  string
		want  int
	}{
		{nil, "shop.example", 200},
		{[]string{"limits.example"}, "shop.example", 421},
		{[]string{"limits.example"}, "limits.example.shop.example:6380", 421},
		{[]string{"limits.example"}, "", 421},
		{[]string{"limits.example"}, "Limits.Example:6380", 200},
		{[]string{"limits.example"}, "localhost", 200},
		{[]string{"limits.example"}, "[2001:db8::1]:6380", 200},
	} {
		names = step.names
		r := httptest.NewRequest("GET", "/auth?limit=GCRA+1/m", http.NoBody)
		r.RemoteAddr, r.Host = "127.0.0.1:4000", step.host
		r.Header.Set("Sec-Fetch-Site", "cross-site") // of the proxy's caller
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != step.want || w.Code != 200 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s under %q: %d %s, want %d", step.names, step.host, w.Code, w.Body, step.want)
		}
	}
}
