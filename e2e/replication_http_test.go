package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// takesOverHTTP takes from a key again and again until stop is closed.
func takesOverHTTP(t *testing.T, url, body string, stop <-chan struct{}) (all counts) {
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

// Callers over HTTP take through the nodes that do not lead, while the leader is killed. Each gets an answer, and the
// nodes count exactly the grants, except for those with unknown outcomes.
func TestHTTPDecisionsSeeTheLeaderKilled(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3, "--http-decisions", "yes")
	at := leader(t, nodes)
	const burst = 1_000_000
	limit := []string{"GCRA", "1/h", "BURST", fmt.Sprint(burst)}
	stop := make(chan struct{})
	var mu sync.Mutex
	var sum counts
	var all sync.WaitGroup
	for _, n := range nodes {
		if n == at {
			continue
		}
		for range 3 {
			all.Go(func() {
				c := takesOverHTTP(t, "http://"+n.HTTPAddr+"/v1/take", `{"key": "key", "limit": "`+strings.Join(limit, " ")+`"}`, stop)
				mu.Lock()
				defer mu.Unlock()
				sum.add(c)
			})
		}
		// /auth and /v1/check as well: the rules are those of the leader.
		if status, body := post(t, http.DefaultClient, "http://"+n.HTTPAddr+"/v1/check", `{"namespace": "none"}`, ""); status != 404 || !strings.Contains(body, "NORULE") {
			t.Errorf("/v1/check: %d %s", status, body)
		}
		req, _ := http.NewRequest(http.MethodGet, "http://"+n.HTTPAddr+"/auth?limit=GCRA+100/m", nil)
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("RateLimit"), `"default";r=`) {
			t.Errorf("/auth: %v, %v", res, err)
		}
		_ = res.Body.Close()
	}
	uses(t, at, limit, burst, 100)
	at.Kill()
	at.proc = nil
	next := leader(t, nodes)
	uses(t, next, limit, burst, usedOf(t, next, limit, burst)+100)
	close(stop)
	all.Wait()
	used := usedOf(t, next, limit, burst)
	t.Logf("%+v, %d used", sum, used)
	if used < sum.granted || used > sum.granted+sum.unknown || sum.denied+sum.other > 0 {
		t.Errorf("%d are used; %+v", used, sum)
	}
}
