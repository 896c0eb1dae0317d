package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// takesOverHTTP takes from a key again and again until stop is closed. It returns the answers, and counts the grants meanwhile.
func takesOverHTTP(t *testing.T, url, body string, stop <-chan struct{}, granted *atomic.Int64) (all counts) {
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	for {
		select {
		case <-stop:
			return all
		default:
		}
		res, err := c.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return all
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		var answer struct {
			Limited bool
			Error   struct{ Code string }
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Errorf("%d %s: %v", res.StatusCode, text, err)
		}
		switch code := answer.Error.Code; {
		case res.StatusCode == http.StatusOK && !answer.Limited:
			all.granted++
			granted.Add(1)
		case res.StatusCode == http.StatusOK:
			all.denied++
		case res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "":
			all.other++
			t.Errorf("%d %s", res.StatusCode, text)
		case code == "UNKNOWNOUTCOME":
			all.unknown++
		case code == "CLUSTERDOWN":
			all.down++
		default:
			all.other++
		}
	}
}

// A node that does not lead answers /v1/check and /auth as well: the rules are those of the leader.
func rulesOverHTTP(t *testing.T, n *raftNode) {
	t.Helper()
	if status, body := post(t, http.DefaultClient, "http://"+n.HTTPAddr+"/v1/check", `{"namespace": "none"}`, ""); status != 404 || !strings.Contains(body, "NORULE") {
		t.Errorf("/v1/check: %d %s", status, body)
	}
	req, _ := http.NewRequest(http.MethodGet, "http://"+n.HTTPAddr+"/auth?limit=GCRA+100/m", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("RateLimit"), `"default";r=`) {
		t.Fatalf("/auth: %v, %v", res, err)
	}
	_ = res.Body.Close()
}
