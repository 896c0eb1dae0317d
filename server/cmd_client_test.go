package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"limitdb/server/clients"
	"limitdb/server/durable"
	"limitdb/server/spec"
)

func TestClientNamesAndInfo(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"CLIENT GETNAME", "nil"},
		[2]string{"CLIENT SETNAME me", "OK"},
		[2]string{"CLIENT GETNAME", `"me"`},
		[2]string{"CLIENT SETINFO lib-name go-redis", "OK"},
		[2]string{"CLIENT SETINFO LIB-VER 9", "OK"},
		[2]string{"CLIENT SETINFO colour red", "-ERR Unrecognized option 'colour'"},
		[2]string{"CLIENT ID", fmt.Sprint(c.s.pub.ID)},
		[2]string{"CLIENT NO-EVICT ON", "OK"},
		[2]string{"CLIENT NO-TOUCH on", "OK"},
		[2]string{"CLIENT NO-EVICT maybe", "-" + spec.ErrSyntax},
		[2]string{"CLIENT TRACKING ON OPTIN", "OK"},
		[2]string{"CLIENT CACHING YES", "OK"},
		[2]string{"CLIENT UNBLOCK 5", "0"},
		[2]string{"CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP."},
		[2]string{"CLIENT", "-ERR wrong number of arguments for 'client' command"},
	)
	if got := line(c.do("CLIENT", "SETNAME", "two words")); got != "-"+errClientName {
		t.Errorf("a name with a blank: %s", got)
	}
	ts.clock.Advance(3 * time.Second)
	info := c.do("CLIENT", "INFO").Text
	for _, want := range []string{" name=me ", " age=3 ", " flags=te ", " lib-name=go-redis ", " lib-ver=9", " addr=127.0.0.1:40000 ", " resp=2 ", " cmd=client|info "} {
		if !strings.Contains(info, want) {
			t.Errorf("CLIENT INFO lacks %q: %s", want, info)
		}
	}
}

func TestClientListAndKill(t *testing.T) {
	ts := newTestServer(t)
	c, a, b := ts.client(), ts.clientFrom("127.0.0.1:1001"), ts.clientFrom("127.0.0.1:1002")
	b.do("SUBSCRIBE", "ch")
	ids := func(words ...string) string {
		var out []string
		for _, l := range strings.Split(strings.TrimSpace(c.do(append([]string{"CLIENT", "LIST"}, words...)...).Text), "\n") {
			id, _, _ := strings.Cut(strings.TrimPrefix(l, "id="), " ")
			out = append(out, id)
		}
		return strings.Join(out, " ")
	}
	all := fmt.Sprint(c.s.pub.ID, " ", a.s.pub.ID, " ", b.s.pub.ID)
	if got := ids(); got != all {
		t.Errorf("CLIENT LIST: %s, want %s", got, all)
	}
	if got := ids("TYPE", "pubsub"); got != fmt.Sprint(b.s.pub.ID) {
		t.Errorf("TYPE pubsub: %s", got)
	}
	if got := ids("ID", fmt.Sprint(a.s.pub.ID), "77"); got != fmt.Sprint(a.s.pub.ID) {
		t.Errorf("ID: %s", got)
	}
	c.steps(ts,
		[2]string{"CLIENT LIST TYPE nosuch", "-ERR Unknown client type 'nosuch'"},
		[2]string{"CLIENT LIST ID 0", "-ERR Invalid client ID"},
		[2]string{"CLIENT KILL 127.0.0.1:9", "-" + errNoSuchClient},
		[2]string{"CLIENT KILL ADDR 127.0.0.1:9", "0"},
		[2]string{"CLIENT KILL ID 0", "-ERR client-id should be greater than 0"},
		[2]string{"CLIENT KILL USER nobody", "-ERR No such user 'nobody'"},
		[2]string{"CLIENT KILL TYPE", "-" + errNoSuchClient},
		[2]string{"CLIENT KILL 127.0.0.1:1001", "OK"},
		[2]string{"CLIENT KILL TYPE pubsub MAXAGE 1", "0"},
		[2]string{"CLIENT KILL TYPE pubsub MAXAGE -1", "-ERR maxage should be greater than 0"},
		[2]string{"CLIENT KILL TYPE pubsub MAXAGE x", "-ERR maxage is not an integer or out of range"},
		[2]string{"CLIENT KILL TYPE pubsub", "1"},
	)
	for _, k := range []*testClient{a, b} {
		if !errors.Is(k.conn.reason(), clients.ErrKilled) {
			t.Errorf("closed for %v", k.conn.reason())
		}
	}
	if got := line(c.do("CLIENT", "KILL", "ID", fmt.Sprint(c.s.pub.ID), "SKIPME", "no")); got != "1" || !errors.Is(c.conn.reason(), clients.ErrKilled) {
		t.Errorf("killing itself: %s, closed for %v", got, c.conn.reason())
	}
}

// The old form of CLIENT KILL can close its own client, after the reply.
func TestClientKillsItself(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	if got := c.raw("CLIENT KILL 127.0.0.1:40000\r\nPING\r\n"); got != "+OK\r\n" || !errors.Is(c.conn.reason(), clients.ErrKilled) || !c.conn.flushed {
		t.Errorf("%q, closed for %v", got, c.conn.reason())
	}
}

func TestMonitorShowsCommandsWithoutSecrets(t *testing.T) {
	ts := newTestServer(t, "requirepass secret")
	m, c := ts.client(), ts.client()
	m.do("AUTH", "secret")
	m.do("MONITOR")
	c.do("AUTH", "secret")
	c.do("HELLO", "2", "AUTH", "default", "secret")
	c.do("CONFIG", "SET", "requirepass", "secret")
	c.do("ECHO", "a\"b\r\n")
	got := string(m.conn.take())
	if strings.Contains(got, "secret") {
		t.Errorf("MONITOR shows the password: %s", got)
	}
	if want := `+1600000000.000000 [0 127.0.0.1:40000] "ECHO" "a\"b\r\n"` + "\r\n"; !strings.HasSuffix(got, want) {
		t.Errorf("MONITOR shows %q, want it to end in %q", got, want)
	}
	if got := m.raw("PING\r\nRESET\r\nPING\r\n"); got != "+PONG\r\n+1600000000.000000 [0 127.0.0.1:40000] \"PING\"\r\n+RESET\r\n-"+errUnauthenticated+"\r\n" {
		t.Errorf("a monitor's own commands: %q", got)
	}
	c.do("PING")
	if more := string(m.conn.take()); more != "" {
		t.Errorf("after RESET: %q", more)
	}
}

func TestConfigCommands(t *testing.T) {
	ts := newTestServer(t, "requirepass secret")
	c := ts.client()
	c.do("AUTH", "secret")
	c.steps(ts,
		[2]string{"CONFIG GET maxclients", `["maxclients" "10000"]`},
		[2]string{"CONFIG SET maxclients 5 timeout 7", "OK"},
		[2]string{"CONFIG GET maxclients timeout", `["timeout" "7" "maxclients" "5"]`},
		[2]string{"CONFIG SET maxclients", "-ERR wrong number of arguments for 'config|set' command"},
		[2]string{"CONFIG GET requirepass", `["requirepass" "(redacted)"]`},
		[2]string{"CONFIG GET appendonly", `["appendonly" "yes"]`},
		[2]string{"CONFIG RESETSTAT", "OK"},
	)
	for _, set := range [][]string{{"nosuch", "1"}, {"tls-port", "7000"}, {"maxclients", "9", "timeout", "x"}} {
		if got := line(c.do(append([]string{"CONFIG", "SET"}, set...)...)); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("CONFIG SET %v: %s", set, got)
		}
	}
	if got := line(c.do("CONFIG", "GET", "maxclients")); got != `["maxclients" "5"]` {
		t.Errorf("a CONFIG SET that failed left %s", got)
	}
	c.raw("CONFIG REWRITE\r\n")
	if got := c.resume(); !strings.Contains(got, "without a config file") {
		t.Errorf("CONFIG REWRITE: %s", got)
	}
}

func TestInfo(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.do("RL.TAKE", "k", "GCRA", "1/m")
	c.do("RL.TAKE", "k", "GCRA", "1/m")
	c.do("NOSUCH")
	all := c.do("INFO", "everything").Text
	for _, want := range []string{
		"# Server\r\nredis_version:7.4.0\r\nlimitdb_version:test\r\n", "\r\nconnected_clients:1\r\n", "\r\nloading:0\r\n",
		"\r\nrole:master\r\n", "\r\ncmdstat_rl.take:calls=2,", "\r\nerrorstat_ERR:count=1\r\n", "\r\ndecisions_allowed:1\r\ndecisions_limited:1\r\n",
		"\r\ndb0:keys=1,expires=1,", "\r\ncluster_enabled:0\r\n",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("INFO everything lacks %q", want)
		}
	}
	if def := c.do("INFO").Text; strings.Contains(def, "cmdstat_") || !strings.Contains(def, "# Limiter") {
		t.Errorf("INFO without a section: %.300s", def)
	}
	if one := c.do("INFO", "keyspace").Text; !strings.HasPrefix(one, "# Keyspace\r\n") || strings.Contains(one, "# Server") {
		t.Errorf("INFO keyspace: %q", one)
	}
	c.do("CONFIG", "RESETSTAT")
	if after := c.do("INFO", "everything").Text; strings.Contains(after, "cmdstat_rl.take") || !strings.Contains(after, "\r\ndecisions_allowed:0\r\n") {
		t.Error("CONFIG RESETSTAT did not reset all figures")
	}
	for _, f := range ts.Figures().Commands {
		if f.Name == "rl.take" && f.Calls() != 2 {
			t.Errorf("published figures went back to %d", f.Calls())
		}
	}
}

func TestShutdownAndNoPersistence(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"SAVE", "-" + durable.ErrNone},
		[2]string{"BGSAVE", "-" + durable.ErrNone},
		[2]string{"BGREWRITEAOF", "-" + durable.ErrNone},
		[2]string{"LASTSAVE", "1600000000"},
		[2]string{"SHUTDOWN SAVE", "-" + durable.ErrNone},
		[2]string{"SHUTDOWN SOON", "-" + spec.ErrSyntax},
		[2]string{"SHUTDOWN SAVE NOSAVE", "-" + spec.ErrSyntax},
	)
}

// MONITOR sends what is in front of it before the first line. If CLIENT REPLY silences it, neither its reply nor a part of its own
// line is sent.
func TestMonitorIsSilenced(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	line := func(words string) string { return "+1600000000.000000 [0 127.0.0.1:40000] " + words + "\r\n" }
	want := "$20\r\n" + strings.Repeat("x", 20) + "\r\n"
	if got := c.raw("ECHO " + strings.Repeat("x", 20) + "\r\nCLIENT REPLY SKIP\r\nMONITOR\r\n"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	want = "+PONG\r\n" + line(`"PING"`) + line(`"CLIENT" "REPLY" "SKIP"`)
	if got := c.raw("PING\r\nCLIENT REPLY SKIP\r\nMONITOR\r\n"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// While a change of the configuration takes its time, as to look up a host name, the others' CONFIG holds up nobody.
func TestConfigWhileItChanges(t *testing.T) {
	ts := newTestServer(t)
	looking, found := make(chan bool), make(chan bool)
	ts.registry.OnChange(func() error {
		looking <- true
		<-found
		return nil
	}, ts.set.Bind)
	one, two := ts.client(), ts.client()
	if got := one.raw("CONFIG SET bind some.host\r\n"); got != "" {
		t.Fatalf("%q before the change", got)
	}
	<-looking
	two.steps(ts, [2]string{"CONFIG GET hz", `["hz" "10"]`})
	if got := two.raw("CONFIG SET hz 20\r\nCONFIG GET hz\r\n"); got != "" {
		t.Errorf("%q beside another change", got)
	}
	found <- true
	if got := one.resume(); got != "+OK\r\n" {
		t.Errorf("%q", got)
	}
	if got := two.resume(); got != "+OK\r\n*2\r\n$2\r\nhz\r\n$2\r\n20\r\n" {
		t.Errorf("%q", got)
	}
}
