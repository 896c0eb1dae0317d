package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// The roles of docs/acl.md, each as rules.
const (
	appRules      = "on >app-pw ~app:* ~rl:shop:* +@limit +@connection -@dangerous"
	operatorRules = "on >op-pw ~* &* +@all -@dangerous +@rules +info +client +slowlog +latency"
	monitorRules  = "on >mon-pw %R~* +@read +@connection -@dangerous +info +client|list +slowlog|get"
)

// as runs a command as a user, and returns the text of the reply or error.
func as(t *testing.T, addr, user, password string, words ...string) string {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, Username: user, Password: password, MaxRetries: -1, Protocol: 3, ReadTimeout: deadline})
	defer c.Close()
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
	}
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(v)
}

// expect checks the beginning of a reply.
func expect(t *testing.T, what, got, begin string) {
	t.Helper()
	if !strings.HasPrefix(got, begin) {
		t.Errorf("%s: %q, want %q", what, got, begin)
	}
}

func setUser(name, rules string) []string {
	return append([]string{"ACL", "SETUSER", name}, strings.Fields(rules)...)
}

// Users that go-redis has set sign in with go-redis, redis-cli, ioredis and over HTTP, and are there after a restart.
func TestUsers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := func() *proc {
		t.Helper()
		o := options{bin: plainBinary(t), ready: func(p *proc) bool { return answers(p.Addr) && get("http://"+p.HTTPAddr+"/readyz") != "" }}
		for range 3 {
			if p := launch(t, o, dir, []string{"--requirepass", "root-pw", "--http-password", "http-pw", "--appendfsync", "always", "--http-decisions", "yes"}); p != nil {
				t.Cleanup(p.Stop)
				return p
			}
		}
		t.Fatal("no port stayed free")
		return nil
	}
	p := begin()
	root := func(words ...string) string { return as(t, p.Addr, "", "root-pw", words...) }
	for name, rules := range map[string]string{"app": appRules, "operator": operatorRules, "monitor": monitorRules} {
		expect(t, name, root(setUser(name, rules)...), "OK")
	}
	cli := need(t, "redis-cli")
	check := func() {
		t.Helper()
		expect(t, "its key", as(t, p.Addr, "app", "app-pw", "RL.TAKE", "app:1", "GCRA", "1000/m"), "[0 1000 ")
		expect(t, "another's key", as(t, p.Addr, "app", "app-pw", "RL.TAKE", "x", "GCRA", "10/m"), `NOPERM this user has no permissions to access one of the keys used as arguments (user app lacks a pattern ~ that matches "x")`)
		expect(t, "FLUSHALL", as(t, p.Addr, "operator", "op-pw", "FLUSHALL"), "NOPERM")
		expect(t, "a reset", as(t, p.Addr, "operator", "op-pw", "RL.RESET", "nothing"), "0")
		expect(t, "INFO", as(t, p.Addr, "monitor", "mon-pw", "INFO", "server"), "# Server")
		expect(t, "a write", as(t, p.Addr, "monitor", "mon-pw", "SET", "a", "b"), "NOPERM")
		expect(t, "a wrong password", as(t, p.Addr, "app", "op-pw", "PING"), "WRONGPASS")
		got := run(t, "", cli, "-p", p.Port(), "--user", "app", "--pass", "app-pw", "--no-auth-warning", "CONFIG", "GET", "requirepass")
		expect(t, "redis-cli", got.Stdout, "NOPERM")
		got = run(t, "", cli, "-p", p.Port(), "--user", "app", "--pass", "app-pw", "--no-auth-warning", "RL.TAKE", "app:cli", "GCRA", "10/m")
		expect(t, "redis-cli", got.Stdout, "0\n10\n")
	}
	check()
	ask := func(user, password, method, path, body string) (int, string) {
		t.Helper()
		req, _ := http.NewRequest(method, "http://"+p.HTTPAddr+path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		if user != "" {
			req.SetBasicAuth(user, password)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	const take = `{"key":"%s","limit":"GCRA 1000/m"}`
	for _, c := range []struct {
		user, password, method, path, body string
		status                             int
	}{
		{"app", "app-pw", "POST", "/v1/take", fmt.Sprintf(take, "app:1"), 200},
		{"app", "app-pw", "POST", "/v1/take", fmt.Sprintf(take, "x"), 403},
		{"app", "http-pw", "POST", "/v1/take", fmt.Sprintf(take, "x"), 200}, // as default, with any name
		{"app", "wrong", "POST", "/v1/take", fmt.Sprintf(take, "app:1"), 401},
		{"nobody", "app-pw", "POST", "/v1/take", fmt.Sprintf(take, "app:1"), 401},
		{"", "", "POST", "/v1/take", fmt.Sprintf(take, "app:1"), 401},
		{"app", "app-pw", "GET", "/metrics", "", 403},
		{"monitor", "mon-pw", "GET", "/metrics", "", 200},
		{"monitor", "mon-pw", "POST", "/v1/take", fmt.Sprintf(take, "app:1"), 403},
	} {
		if status, text := ask(c.user, c.password, c.method, c.path, c.body); status != c.status {
			t.Errorf("%s as %s: %d %.300s", c.path, c.user, status, text)
		}
	}
	script := filepath.Join(t.TempDir(), "user.js")
	node, modules := need(t, "node"), must(t)(filepath.Abs("clients/node/node_modules"))
	code := `const Redis = require(process.argv[2] + "/ioredis6");
const r = new (Redis.default || Redis)({port: +process.argv[3], username: "app", password: "app-pw", retryStrategy: () => null});
(async () => {
  console.log((await r.call("RL.TAKE", "app:node", "GCRA", "10/m"))[1]);
  try { await r.flushall(); } catch (e) { console.log(e.message); }
  r.disconnect();
})();`
	if err := os.WriteFile(script, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, "ioredis", run(t, "", node, script, modules, p.Port()).Stdout, "10\nNOPERM")
	before := root("ACL", "LIST")
	p.Stop()
	p = begin()
	if got := root("ACL", "LIST"); got != before || !strings.Contains(before, "user app on #") {
		t.Errorf("%s before the restart, %s after it", before, got)
	}
	check()
	if log := p.Log(); strings.Contains(log, "-pw") {
		t.Errorf("a password is in the log:\n%s", log)
	}
}

// All nodes of a cluster have the same users, whichever node a client has changed them on.
func TestUsersOfACluster(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3)
	expect(t, "SETUSER on a follower", nodes[1].ask(t, setUser("app", appRules+" +eval +@transaction +get")...), "OK")
	same := func(want string) {
		t.Helper()
		for _, n := range nodes {
			eventually(t, n.id+" has the users", func() bool { return strings.Contains(n.ask(t, "ACL", "LIST"), want) })
		}
	}
	same("user app on #")
	for _, n := range nodes {
		expect(t, n.id, as(t, n.Addr, "app", "app-pw", "RL.TAKE", "app:1", "GCRA", "1000/m"), "[0 1000 ")
		expect(t, n.id, as(t, n.Addr, "app", "app-pw", "RL.TAKE", "x", "GCRA", "1000/m"), "NOPERM")
		expect(t, n.id+": a script", as(t, n.Addr, "app", "app-pw", "EVAL", "return redis.call('get','x')", "0"), "ERR The user executing the script can't access")
		expect(t, n.id+": FLUSHALL", as(t, n.Addr, "app", "app-pw", "FLUSHALL"), "NOPERM")
	}
	connected := goredis.NewClient(&goredis.Options{Addr: nodes[2].Addr, Username: "app", Password: "app-pw", MaxRetries: -1, PoolSize: 1, Protocol: 2, DisableIdentity: true})
	defer connected.Close()
	if err := connected.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	expect(t, "a right on a follower", nodes[2].ask(t, "ACL", "SETUSER", "app", "+rl.reset"), "OK")
	same("+rl.reset")
	nodes[0].Kill()
	nodes[0].gone = true
	nodes = nodes[1:]
	eventually(t, "another node leads", func() bool { return nodes[0].askOnce(t, "ACL", "SETUSER", "late", "on") == "OK" })
	same("user late on")
	same("+rl.reset")
	expect(t, "after the failover", as(t, nodes[0].Addr, "app", "app-pw", "RL.TAKE", "x", "GCRA", "1000/m"), "NOPERM")
	expect(t, "DELUSER", nodes[0].ask(t, "ACL", "DELUSER", "app"), "1")
	eventually(t, "the deleted user's connection is closed", func() bool { return connected.Ping(t.Context()).Err() != nil })
	nodes[0].Kill()
	nodes[0].Stop()
	nodes[0].restart(t)
	same("user late on")
	eventually(t, "the user is gone there, too", func() bool { return strings.HasPrefix(as(t, nodes[0].Addr, "app", "app-pw", "PING"), "WRONGPASS") })
}

// A client is the user whose name its certificate has.
func TestUserOfACertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certificate(t, dir, "server")
	clientCert, clientKey := certificate(t, dir, "app")
	port := freePort(t)
	p := start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "optional", "--tls-ca-cert-file", clientCert, "--tls-auth-clients-user", "CN")
	conf := trust(t, cert)
	who := func() string {
		c, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", port), conf)
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(deadline))
		fmt.Fprint(c, "ACL WHOAMI\r\nFLUSHALL\r\nQUIT\r\n")
		b, _ := io.ReadAll(c)
		return string(b)
	}
	expect(t, "without a certificate", who(), "$7\r\ndefault\r\n+OK")
	pair, err := tls.LoadX509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	conf.Certificates = []tls.Certificate{pair}
	expect(t, "before there is the user", who(), "$7\r\ndefault\r\n+OK")
	expect(t, "SETUSER", as(t, p.Addr, "", "", setUser("app", "on resetpass +acl|whoami")...), "OK")
	expect(t, "with a certificate", who(), "$3\r\napp\r\n-NOPERM")
	expect(t, "SETUSER", as(t, p.Addr, "", "", "ACL", "SETUSER", "app", "off"), "OK")
	expect(t, "of a user that is off", who(), "$7\r\ndefault\r\n+OK")
	if got := as(t, p.Addr, "", "", "ACL", "LOG"); !strings.Contains(got, "tls-cert") {
		t.Error(got)
	}
}

// Users of an ACL file, and of lines of the configuration.
func TestUsersOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, conf := filepath.Join(dir, "users.acl"), filepath.Join(dir, "limitdb.conf")
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o640), os.Chmod(path, 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "user app "+appRules+"\nuser default on >root-pw ~* &* +@all\n")
	p := start(t, "--aclfile", file)
	root := func(words ...string) string { return as(t, p.Addr, "", "root-pw", words...) }
	expect(t, "app", as(t, p.Addr, "app", "app-pw", "RL.TAKE", "app:1", "GCRA", "10/m"), "[0 10 ")
	expect(t, "default", as(t, p.Addr, "", "", "PING"), "NOAUTH")
	expect(t, "SETUSER", root(setUser("more", "on >more-pw +ping")...), "OK")
	expect(t, "SAVE", root("ACL", "SAVE"), "OK")
	text, err := os.ReadFile(file)
	info, _ := os.Stat(file)
	if err != nil || !strings.Contains(string(text), "user more on #") || strings.Contains(string(text), "-pw") || info.Mode().Perm() != 0o640 {
		t.Errorf("%v %v\n%s", err, info.Mode(), text)
	}
	write(file, strings.ReplaceAll(string(text), "user more", "user other"))
	expect(t, "LOAD", root("ACL", "LOAD"), "OK")
	expect(t, "a new user", as(t, p.Addr, "other", "more-pw", "PING"), "PONG")
	expect(t, "an old one", as(t, p.Addr, "more", "more-pw", "PING"), "WRONGPASS")
	write(file, "user app on nonsense\n")
	expect(t, "a mistake", root("ACL", "LOAD"), "ERR aclfile: line 1: Error in ACL SETUSER modifier 'nonsense': Syntax error. The users are as they were")

	write(conf, "user app "+appRules+"\nuser default off\n")
	p = startWith(t, options{first: []string{conf}})
	expect(t, "app of a line", as(t, p.Addr, "app", "app-pw", "RL.TAKE", "app:1", "GCRA", "10/m"), "[0 10 ")
	expect(t, "default that is off", as(t, p.Addr, "", "", "PING"), "NOAUTH")
	expect(t, "CONFIG", as(t, p.Addr, "app", "app-pw", "CONFIG", "GET", "user"), "NOPERM")
	for _, c := range [][2]string{
		{"user app on >secret +nosuch\n", "Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL"},
		{"user app >secret ~a:*\nuser app on\n", "there are two lines for user"},
		{"user app on\naclfile x\n", "aclfile and user are both given"},
	} {
		write(conf, c[0])
		got := run(t, "", plainBinary(t), conf, "--port", freePort(t), "--http-port", "0", "--dir", t.TempDir())
		if got.Code == 0 || !strings.Contains(got.Stderr, c[1]) || strings.Contains(got.Stderr, "secret") {
			t.Errorf("%q: %+v", c[0], got)
		}
	}
}
