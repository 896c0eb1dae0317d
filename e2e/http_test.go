package e2e

import (
	"crypto/tls"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
)

// post sends a JSON object and returns the status and the answer.
func post(t *testing.T, c *http.Client, url, body, user string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if user != "" {
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user)))
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(b))
}

// TestHTTPDecisions takes from one key over HTTP with TLS and over RESP.
func TestHTTPDecisions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, "http")
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	p := startWith(t, options{ready: func(p *proc) bool { return answers(p.Addr) }},
		"--http-decisions", "yes", "--http-tls", "yes", "--tls-cert-file", cert, "--tls-key-file", key, "--appendfsync", "always", "--http-password", "secret")
	url := "https://" + p.HTTPAddr
	take := `{"key": "user:42", "limit": "GCRA 3/h"}`
	if status, _ := post(t, c, url+"/v1/take", take, "x:wrong"); status != 401 {
		t.Errorf("a wrong password: %d", status)
	}
	for i, want := range []string{
		`{"limited":false,"limit":3,"remaining":2,"wait_ms":-1,"reset_ms":1200000}`,
		`{"limited":false,"limit":3,"remaining":0,"wait_ms":-1,"reset_ms":`,
		`{"limited":true,"limit":3,"remaining":0,"wait_ms":`,
	} {
		if status, body := post(t, c, url+"/v1/take", take, "x:secret"); status != 200 || !strings.HasPrefix(body, want) {
			t.Errorf("request %d: %d %s, want %s", i+1, status, body, want)
		}
		if i == 0 {
			dial(t, p.Addr).do("RL.TAKE", "user:42", "GCRA", "3/h")
		}
	}
	dial(t, p.Addr).do("RL.RULES", "LOAD", "version: 1\nnamespaces: {shop: [{name: user, key: [user], limit: 2/h}, {name: all, limit: 100/h}]}")
	for i, want := range []string{`"limited":false,"limit":2,"remaining":1,`, `"limited":false,"limit":2,"remaining":0,`, `"limited":true,"limit":2,"remaining":0,`} {
		status, body := post(t, c, url+"/v1/check", `{"namespace": "shop", "fields": {"user": "u17"}, "explain": true}`, "x:secret")
		if status != 200 || !strings.Contains(body, want) || !strings.Contains(body, `"rule":"user","rules":[{"rule":"user","mode":"enforce","spelling":"GCRA 2/h"`) {
			t.Errorf("check %d: %d %s", i+1, status, body)
		}
	}
	if status, body := post(t, c, url+"/v1/check", `{"namespace": "nothing"}`, "x:secret"); status != 404 || !strings.Contains(body, "NORULE") {
		t.Errorf("no namespace: %d %s", status, body)
	}
	if status, body := post(t, c, url+"/v1/take", `{"key": "user:42", "limit": "LOG 3/h"}`, "x:secret"); status != 409 {
		t.Errorf("another family: %d %s", status, body)
	}
	if r := run(t, "", plainBinary(t), "--http-tls", "yes", "--port", "0"); r.Code != 1 || !strings.Contains(r.Stderr, "http-tls needs tls-cert-file and tls-key-file") {
		t.Errorf("without a certificate: %d %s", r.Code, r.Stderr)
	}
}

// TestHTTPGuard asks a server without a password as curl, as a page that rebinds its name, and as a proxy do.
func TestHTTPGuard(t *testing.T) {
	t.Parallel()
	p := start(t, "--http-decisions", "yes", "--http-hosts", "limits.example")
	status := func(method, path, host, header, value string) int {
		t.Helper()
		req, err := http.NewRequest(method, "http://"+p.HTTPAddr+path, strings.NewReader(`{"key": "user:42", "limit": "GCRA 1/h"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if host != "" {
			req.Host = host
		}
		if header != "" {
			req.Header.Set(header, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	for _, c := range []struct {
		host, header, value string
		want                int
	}{
		{"evil.example:6380", "", "", 421},
		{"", "Sec-Fetch-Site", "cross-site", 403},
		{"", "Via", "1.1 cache", 403},
		{"", "X-Forwarded-For", "198.51.100.1", 403},
		{"limits.example", "", "", 200},
		{"localhost", "", "", 200},
	} {
		if metrics, take := status("GET", "/metrics", c.host, c.header, c.value), status("POST", "/v1/take", c.host, c.header, c.value); metrics != c.want || take != c.want {
			t.Errorf("%q %s: %d and %d, want %d", c.host, c.header, metrics, take, c.want)
		}
	}
	if got := dial(t, p.Addr).do("RL.PEEK", "user:42", "GCRA", "1/h"); !strings.HasPrefix(got, "[:1 :1 :0") {
		t.Errorf("the requests that passed took: %s", got)
	}
}
