package server

import (
	"fmt"
	"strings"
	"testing"

	"limitdb/server/spec"
	"limitdb/transport"
)

// The errors for bad arguments are those of redis-server 7.0, in its order. The server refuses modes
// whose invalidations it does not send.
func TestTrackingArguments(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"CLIENT TRACKING", "-ERR wrong number of arguments for 'client|tracking' command"},
		[2]string{"CLIENT TRACKING maybe", "-" + spec.ErrSyntax},
		[2]string{"CLIENT TRACKING ON FOO", "-" + spec.ErrSyntax},
		[2]string{"CLIENT TRACKING ON REDIRECT", "-" + spec.ErrSyntax},
		[2]string{"CLIENT TRACKING OFF FOO", "-" + spec.ErrSyntax},
		[2]string{"CLIENT TRACKING ON REDIRECT 99", "-ERR The client ID you want redirect to does not exist"},
		[2]string{"CLIENT TRACKING ON REDIRECT x", "-" + spec.ErrNotInt},
		[2]string{fmt.Sprintf("CLIENT TRACKING ON REDIRECT %d REDIRECT 2", c.s.pub.ID), "-ERR A client can only redirect to a single other client"},
		[2]string{"CLIENT TRACKING ON PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled"},
		[2]string{"CLIENT TRACKING ON OPTIN OPTOUT", "-ERR You can't specify both OPTIN mode and OPTOUT mode"},
		[2]string{"CLIENT TRACKING ON BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST"},
		[2]string{"CLIENT CACHING YES", "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"},
		[2]string{"CLIENT CACHING maybe", "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"},
		[2]string{"CLIENT CACHING", "-ERR wrong number of arguments for 'client|caching' command"},
		[2]string{"CLIENT TRACKING ON", "-" + errTrackingNever},
		[2]string{"CLIENT TRACKING ON OPTOUT", "-" + errTrackingNever},
		[2]string{"CLIENT TRACKING ON BCAST", "-" + errTrackingNever},
		[2]string{"CLIENT TRACKING ON BCAST PREFIX a PREFIX b", "-" + errTrackingNever},
		[2]string{"CLIENT TRACKINGINFO", `["flags" ["off"] "redirect" -1 "prefixes" []]`},
		[2]string{"CLIENT GETREDIR", "-1"},
		[2]string{"CLIENT TRACKING OFF OPTIN BCAST", "OK"},
		[2]string{"CLIENT TRACKING ON OPTIN", "OK"},
		[2]string{"CLIENT TRACKING ON optin noloop", "OK"},
		[2]string{"CLIENT TRACKING ON", "-" + errTrackingNever},
		[2]string{"CLIENT TRACKING ON OPTOUT", "-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."},
		[2]string{"CLIENT TRACKING ON BCAST", "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."},
		[2]string{"CLIENT CACHING maybe", "-" + spec.ErrSyntax},
		[2]string{"CLIENT CACHING NO", "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."},
		[2]string{"CLIENT CACHING YES", "OK"},
		[2]string{"CLIENT TRACKINGINFO", `["flags" ["on" "optin" "caching-yes" "noloop"] "redirect" 0 "prefixes" []]`},
		[2]string{"PING", "PONG"},
		[2]string{"CLIENT TRACKINGINFO", `["flags" ["on" "optin" "noloop"] "redirect" 0 "prefixes" []]`},
		[2]string{"CLIENT GETREDIR", "0"},
		[2]string{"CLIENT TRACKING OFF", "OK"},
		[2]string{"CLIENT GETREDIR", "-1"},
		[2]string{"CLIENT TRACKING ON OPTIN", "OK"},
		[2]string{"RESET", "RESET"},
		[2]string{"CLIENT GETREDIR", "-1"},
	)
}

// The keys that CLIENT CACHING YES announces are invalidated after the reply.
func TestInvalidation(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("HELLO", "3")
	c.do("CLIENT", "TRACKING", "ON", "OPTIN")
	peeked := c.raw("RL.PEEK k GCRA 1/s\r\n")
	const gone = ">2\r\n$10\r\ninvalidate\r\n"
	for _, test := range []struct{ in, want string }{
		{"EXISTS k\r\n", ":0\r\n"},
		{"CLIENT CACHING YES\r\nEXISTS k\r\nEXISTS k\r\n", "+OK\r\n:0\r\n" + gone + "*1\r\n$1\r\nk\r\n:0\r\n"},
		{"CLIENT CACHING YES\r\nEXISTS a bc\r\n", "+OK\r\n:0\r\n" + gone + "*2\r\n$1\r\na\r\n$2\r\nbc\r\n"},
		{"CLIENT CACHING YES\r\nCLIENT GETREDIR\r\nEXISTS k\r\n", "+OK\r\n:0\r\n:0\r\n" + gone + "*1\r\n$1\r\nk\r\n"},
		{"CLIENT CACHING YES\r\nOBJECT ENCODING k\r\n", "+OK\r\n_\r\n" + gone + "*1\r\n$1\r\nk\r\n"},
		// as rueidis' DoCache
		{"CLIENT CACHING YES\r\nMULTI\r\nPTTL k\r\nGET l\r\nEXEC\r\nGET k\r\n", "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:-2\r\n_\r\n" + gone + "*2\r\n$1\r\nk\r\n$1\r\nl\r\n_\r\n"},
		{"CLIENT CACHING YES\r\nMULTI\r\nGET k\r\nDISCARD\r\nGET k\r\n", "+OK\r\n+OK\r\n+QUEUED\r\n+OK\r\n_\r\n"},
		{"CLIENT CACHING YES\r\nPING\r\nEXISTS k\r\n", "+OK\r\n+PONG\r\n:0\r\n"},
		{"CLIENT CACHING YES\r\nEXISTS\r\nEXISTS k\r\n", "+OK\r\n-ERR wrong number of arguments for 'exists' command\r\n:0\r\n"},
		{"CLIENT CACHING YES\r\nCLIENT REPLY SKIP\r\nEXISTS k\r\n", "+OK\r\n" + gone + "*1\r\n$1\r\nk\r\n"},
		// Otherwise, commands of one key in a pipeline are decided together.
		{"RL.PEEK k GCRA 1/s\r\nCLIENT CACHING YES\r\nRL.PEEK k GCRA 1/s\r\n", peeked + "+OK\r\n" + peeked + gone + "*1\r\n$1\r\nk\r\n"},
	} {
		if got := c.raw(test.in); got != test.want {
			t.Errorf("%q\n got %q\nwant %q", test.in, got, test.want)
		}
	}

	// A command that a pause holds back, and one that waits for its turn.
	admin := ts.client()
	admin.do("CLIENT", "PAUSE", "1000000")
	if got := c.raw("CLIENT CACHING YES\r\nEXISTS k\r\n"); got != "+OK\r\n" {
		t.Errorf("under PAUSE: %q", got)
	}
	admin.do("CLIENT", "UNPAUSE")
	if got := c.resume(); got != ":0\r\n"+gone+"*1\r\n$1\r\nk\r\n" {
		t.Errorf("after PAUSE: %q", got)
	}
}

func TestInvalidationInRESP2(t *testing.T) {
	ts := newTestServer(t)
	c, two, three := ts.client(), ts.client(), ts.client()
	c.do("CLIENT", "TRACKING", "ON", "OPTIN")
	if got := c.raw("CLIENT CACHING YES\r\nEXISTS k\r\n"); got != "+OK\r\n:0\r\n" {
		t.Errorf("without REDIRECT: %q", got)
	}
	redirect := func(to *testClient) {
		c.raw("CLIENT TRACKING OFF\r\n")
		c.do("CLIENT", "TRACKING", "ON", "OPTIN", "REDIRECT", fmt.Sprint(to.s.pub.ID))
		to.conn.take()
		if got := c.raw("CLIENT CACHING YES\r\nEXISTS k\r\n"); got != "+OK\r\n:0\r\n" {
			t.Errorf("with REDIRECT: %q", got)
		}
	}
	redirect(two)
	if got := string(two.conn.take()); got != "" {
		t.Errorf("to a client that does not listen: %q", got)
	}
	two.do("SUBSCRIBE", invalidateChannel)
	redirect(two)
	if got := string(two.conn.take()); got != "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n" {
		t.Errorf("to a subscriber: %q", got)
	}
	three.do("HELLO", "3")
	redirect(three)
	if got := string(three.conn.take()); got != ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n" {
		t.Errorf("to RESP3: %q", got)
	}
	if info := c.do("CLIENT", "INFO").Text; !strings.Contains(info, " flags=t ") || !strings.Contains(info, fmt.Sprintf(" redir=%d ", three.s.pub.ID)) {
		t.Errorf("CLIENT INFO: %s", info)
	}
	three.hangUp(transport.ErrPeerClosed)
	c.do("HELLO", "3")
	if got := c.raw("CLIENT CACHING YES\r\nEXISTS k\r\n"); got != fmt.Sprintf("+OK\r\n:0\r\n>2\r\n$21\r\ntracking-redir-broken\r\n:%d\r\n", three.s.pub.ID) {
		t.Errorf("to a client that has gone: %q", got)
	}
	if got := line(c.do("CLIENT", "TRACKINGINFO")); !strings.Contains(got, `"broken_redirect"`) {
		t.Errorf("CLIENT TRACKINGINFO: %s", got)
	}
}
