package server

import (
	"strings"
	"testing"

	"limitdb/server/spec"
)

// The server refuses modes whose invalidations it does not send.
func TestTrackingArguments(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	tracks := func(want string) {
		if info := c.do("CLIENT", "INFO").Text; !strings.Contains(info, want) {
			t.Errorf("CLIENT INFO: %s", info)
		}
	}
	never := "-" + errTrackingNever
	c.steps(ts,
		[2]string{"CLIENT TRACKING", "-ERR wrong number of arguments for 'client|tracking' command"},
		[2]string{"CLIENT TRACKING maybe", "-" + spec.ErrSyntax},
		[2]string{"CLIENT TRACKING OFF FOO", "-" + spec.ErrSyntax},
		[2]string{"CLIENT CACHING YES", "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"},
		[2]string{"CLIENT CACHING maybe", "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"},
		[2]string{"CLIENT CACHING", "-ERR wrong number of arguments for 'client|caching' command"},
		[2]string{"CLIENT TRACKING ON", never},
		[2]string{"CLIENT TRACKING ON OPTOUT", never},
		[2]string{"CLIENT TRACKING ON BCAST PREFIX a PREFIX b", never},
		[2]string{"CLIENT TRACKING ON OPTIN REDIRECT 1", never},
		[2]string{"CLIENT TRACKING ON OPTIN NOLOOP", never},
		[2]string{"CLIENT TRACKING OFF", "OK"},
	)
	tracks(" redir=-1 ")
	c.steps(ts,
		[2]string{"CLIENT TRACKING ON OPTIN", "OK"},
		[2]string{"CLIENT TRACKING on optin", "OK"},
		[2]string{"CLIENT TRACKING ON", never},
		[2]string{"CLIENT CACHING maybe", "-" + spec.ErrSyntax},
		[2]string{"CLIENT CACHING NO", "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."},
		[2]string{"CLIENT CACHING YES", "OK"},
	)
	tracks(" flags=t ")
	tracks(" redir=0 ")
	c.do("CLIENT", "TRACKING", "OFF")
	tracks(" redir=-1 ")
	c.do("CLIENT", "TRACKING", "ON", "OPTIN")
	c.do("RESET")
	tracks(" redir=-1 ")
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
		{"CLIENT CACHING YES\r\nCLIENT NO-TOUCH ON\r\nEXISTS k\r\n", "+OK\r\n+OK\r\n:0\r\n" + gone + "*1\r\n$1\r\nk\r\n"},
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

// RESP2 has no pushes.
func TestNoInvalidationInRESP2(t *testing.T) {
	c := newTestServer(t).client()
	c.do("CLIENT", "TRACKING", "ON", "OPTIN")
	if got := c.raw("CLIENT CACHING YES\r\nEXISTS k\r\n"); got != "+OK\r\n:0\r\n" {
		t.Error(got)
	}
}
