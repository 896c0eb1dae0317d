package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"limitdb/known/knowntest"
)

// as returns a client that is a user with the password pw, which the user default makes by rules.
func (ts *testServer) as(name string, rules ...string) *testClient {
	ts.t.Helper()
	c := ts.client()
	if got := line(c.do(append([]string{"ACL", "SETUSER", name, "reset", "on", ">pw"}, rules...)...)); got != "OK" {
		ts.t.Fatal(got)
	}
	user := ts.client()
	if got := line(user.do("AUTH", name, "pw")); got != "OK" {
		ts.t.Fatal(got)
	}
	return user
}

// The rights of a user, by steps: each with its client, its words and its reply.
func TestRights(t *testing.T) {
	ts := newTestServer(t)
	root := ts.client()
	app := ts.as("app", "~app:*", "%R~read:*", "%W~write:*", "~rl:shop:*", "&news.*", "+@limit", "+get", "+set", "+mget", "+rename", "+eval", "+evalsha", "+multi", "+exec", "+subscribe", "+psubscribe", "+publish", "+scan", "+keys", "+randomkey", "+copy", "+rl.top", "+rl.rules|info", "+acl|whoami")
	if _, err := ts.rules.Load([]byte("{version: 1, namespaces: {shop: [{name: all, limit: GCRA 10/m}]}}")); err != nil {
		t.Fatal(err)
	}
	const noKey = "-NOPERM this user has no permissions to access one of the keys used as arguments (user app lacks a pattern "
	const noRun = "-NOPERM this user has no permissions to run the '%s' command (user app lacks +%[1]s)"
	for i, step := range []struct {
		who  *testClient
		line string
		want string
	}{
		{app, "ACL WHOAMI", `"app"`},
		{app, "RL.TAKE app:1 GCRA 10/m", "[0 10 9 -1 6000]"},
		{app, "RL.TAKE other GCRA 10/m", noKey + `~ that matches "other")`},
		{app, "RL.TAKE app:1 GCRA 10/m", "[0 10 8 -1 12000]"},
		{app, "RL.PEEK read:1 GCRA 10/m", "[0 10 9 -1 6000]"},
		{app, "RL.TAKE read:1 GCRA 10/m", noKey + `~ that matches "read:1")`},
		{app, "SET write:1 x", "OK"},
		{app, "GET write:1", noKey + `%R~ that matches "write:1")`},
		{app, "SET write:1 y GET", noKey + `~ that matches "write:1")`},
		{app, "SET read:1 x", noKey + `%W~ that matches "read:1")`},
		{app, "RENAME app:1 other", noKey + `%W~ that matches "other")`},
		{app, "COPY read:1 write:1", "0"},
		{app, "COPY write:1 read:1", noKey + `%R~ that matches "write:1")`},
		{app, "MGET app:1 other", noKey + `%R~ that matches "other")`},
		{app, "RL.TAKEALL 2 app:1 other GCRA 1/m GCRA 1/m", noKey + `~ that matches "other")`},
		{app, "FLUSHALL", fmt.Sprintf(noRun, "flushall")},
		{app, "CONFIG GET maxclients", fmt.Sprintf(noRun, "config|get")},
		{app, "ACL LIST", fmt.Sprintf(noRun, "acl|list")},
		{app, "RL.CHECK shop 0", `[0 10 9 -1 6000 "all"]`},
		{app, "RL.CHECK other 0", noKey + `~ that matches "rl:other:", the callers of the namespace)`},
		{app, "RL.RULES INFO shop all", `["algorithm" "gcra" "state" 1600000006000000000 "level" 6000000000 "resets_in" 6000 "memory" 52]`},
		{app, "RL.RULES INFO other all", noKey + `%R~ that matches "rl:other:", the callers of the namespace)`},
		{app, "PUBLISH news.1 x", "0"},
		{app, "PUBLISH old x", `-NOPERM this user has no permissions to access one of the channels used as arguments (user app lacks a channel & that matches "old")`},
		{app, "PSUBSCRIBE news.1*", `-NOPERM this user has no permissions to access one of the channels used as arguments (user app lacks a channel & that matches "news.1*")`},
		{root, "SET other secret", "OK"},
		{app, "EVAL return{redis.call('GET',KEYS[1])} 1 app:none", "[nil]"},
		{app, "EVAL return{redis.call('GET',ARGV[1])} 0 other", `-ERR The user executing the script can't access at least one of the keys mentioned in the command arguments (user app lacks a pattern %R~ that matches "other") script: cb6a69b8cd0eb5ddb2fe66cf3d7d2f9ea5cf5bd3, on @user_script:1.`},
		{app, "EVAL return{redis.call('DEL',KEYS[1])} 1 app:1", "-ERR The user executing the script can't run this command or subcommand (user app lacks +del) script: 9eb5ba32f1bfcd5a1fa2fd3bc4d9dc7d5d9a6dc1, on @user_script:1."},
		{app, "MULTI", "OK"},
		{app, "GET app:none", "QUEUED"},
		{app, "GET other", noKey + `%R~ that matches "other")`},
		{app, "EXEC", "-EXECABORT Transaction discarded because of previous errors."},
		// Rights that change between MULTI and EXEC, and in the middle of a pipeline.
		{app, "MULTI", "OK"},
		{app, "GET app:1", "QUEUED"},
		{root, "ACL SETUSER app -get", "OK"},
		{app, "EXEC", "-EXECABORT Transaction discarded because of: " + fmt.Sprintf(noRun, "get")[1:]},
		{app, "RL.TAKE app:1 GCRA 10/m", "[0 10 7 -1 18000]"},
		{root, "ACL SETUSER app resetkeys ~other", "OK"},
		{app, "RL.TAKE app:1 GCRA 10/m", noKey + `~ that matches "app:1")`},
		{root, "ACL SETUSER app off", "OK"},
		{app, "ACL WHOAMI", `"app"`}, // it has signed in
		{app, "AUTH app pw", "-" + errWrongPass},
	} {
		words := strings.Fields(step.line)
		got := line(step.who.do(words...))
		if a, b, ok := strings.Cut(step.want, " script: "); ok && b != "" { // its hash
			got, _, _ = strings.Cut(got, " script: ")
			step.want = a
		}
		if strings.HasPrefix(step.line, "RL.RULES INFO shop") {
			step.want, _, _ = strings.Cut(step.want, ` "memory"`)
			got, _, _ = strings.Cut(got, ` "memory"`)
		}
		if got != step.want {
			t.Errorf("step %d: %s\n got %s\nwant %s", i, step.line, got, step.want)
		}
	}
}

// A pipeline asks only what it must, so that its way differs from that of single commands. Both decide alike.
func TestRightsInPipelines(t *testing.T) {
	ts := newTestServer(t)
	app := ts.as("app", "~app:*", "+rl.take", "+evalsha", "+script|load")
	var in strings.Builder
	var want []string
	for i := range 200 {
		key := "app:1"
		if i%7 == 3 {
			key = "other"
		}
		fmt.Fprintf(&in, "RL.TAKE %s FIXED 1000/d\r\n", key)
		want = append(want, map[bool]string{true: "granted", false: "NOPERM"}[key == "app:1"])
	}
	n, granted := 0, 0
	for l := range strings.Lines(app.all(in.String())) {
		switch {
		case strings.HasPrefix(l, "*5"):
			if want[n] != "granted" {
				t.Errorf("command %d is granted", n)
			}
			n, granted = n+1, granted+1
		case strings.HasPrefix(l, "-NOPERM"):
			if want[n] != "NOPERM" {
				t.Errorf("command %d: %s", n, l)
			}
			n++
		}
	}
	if n != 200 || granted != 171 {
		t.Errorf("%d replies, %d granted", n, granted)
	}
	if got := line(ts.client().do("EXISTS", "other")); got != "0" {
		t.Error("a denied command has made a key")
	}
	// Rights that the client itself changes hold from the next command of its pipeline on.
	self := ts.as("self", "~*", "+@all")
	got := self.all("RL.TAKE a FIXED 9/d\r\nACL SETUSER self -rl.take\r\nRL.TAKE a FIXED 9/d\r\nRL.TAKE a FIXED 9/d\r\n")
	if strings.Count(got, "*5") != 1 || strings.Count(got, "-NOPERM") != 2 {
		t.Errorf("%q", got)
	}
}

// A user who is deleted is gone at once, also if another one gets its name, and so is who receives what it may no longer.
func TestDeletedUsers(t *testing.T) {
	ts := newTestServer(t)
	root := ts.client()
	idle, busy, monitor, subscriber, other := ts.as("idle", "+@all"), ts.as("busy", "+@all", "~*"), ts.as("monitor", "+@all", "~*"), ts.as("sub", "+@all", "&*"), ts.as("other", "+@all", "&*")
	monitor.do("MONITOR")
	subscriber.do("SUBSCRIBE", "news")
	other.do("SUBSCRIBE", "news")
	root.do("ACL", "SETUSER", "monitor", "-monitor")
	root.do("ACL", "SETUSER", "sub", "resetchannels")
	root.do("ACL", "SETUSER", "other", "resetchannels", "&new*")
	if got := line(root.do("ACL", "DELUSER", "idle", "nobody")); got != "1" {
		t.Error(got)
	}
	root.do("ACL", "SETUSER", "idle", "on", "nopass", "+@all")
	for name, c := range map[string]*testClient{"idle": idle, "monitor": monitor, "sub": subscriber} {
		if c.s.life.Open() {
			t.Errorf("%s is still connected", name)
		}
	}
	if !other.s.life.Open() {
		t.Error("a subscriber that may still hear was closed")
	}
	got := busy.all("ACL DELUSER busy\r\nPING\r\n")
	if got != ":1\r\n" || busy.s.life.Open() {
		t.Errorf("a user that deletes itself: %q", got)
	}
	if got := line(root.do("ACL", "DELUSER", "default")); got != "-ERR The 'default' user cannot be removed" {
		t.Error(got)
	}
}

// What clients are before they sign in, and how default is guarded.
func TestDefaultUser(t *testing.T) {
	ts := newTestServer(t)
	old := ts.client()
	old.steps(ts,
		[2]string{"AUTH x", "-" + errNoPassword},
		[2]string{"AUTH default x", "OK"}, // any password
		[2]string{"ACL SETUSER default >secret", "OK"},
		[2]string{"PING", "PONG"}, // as in Redis: it has signed in
	)
	next := ts.client()
	next.steps(ts,
		[2]string{"PING", "-" + errUnauthenticated},
		[2]string{"AUTH default x", "-" + errWrongPass},
		[2]string{"AUTH secret", "OK"},
		[2]string{"CONFIG SET requirepass second", "OK"},
		[2]string{"AUTH second", "OK"},
		[2]string{"AUTH secret", "OK"}, // both, so that a password can be changed without a gap
		[2]string{"ACL SETUSER default nopass", `-ERR requirepass is a password of the user default: make that empty first, with CONFIG SET requirepass ""`},
		[2]string{"ACL SETUSER default resetpass", "OK"},
		[2]string{"AUTH secret", "-" + errWrongPass},
		[2]string{"AUTH second", "OK"},
		[2]string{"ACL SETUSER default off", "OK"},
		[2]string{"RESET", "RESET"},
		[2]string{"AUTH second", "-" + errWrongPass},
	)
}

// HELLO with a user, and several passwords at a time.
func TestPasswords(t *testing.T) {
	ts := newTestServer(t)
	hash := "#d74ff0ee8da3b9806b18c877dbf29bbde50b5bd8e4dad7a3a725000feb82e8f1" // of pass
	root := ts.client()
	root.steps(ts,
		[2]string{"ACL SETUSER u on >one " + hash + " +@connection", "OK"},
		[2]string{"HELLO 2 AUTH u nope", "-" + errWrongPass},
		[2]string{"HELLO 2 AUTH nobody pass", "-" + errWrongPass},
		[2]string{"AUTH u one", "OK"},
		[2]string{"AUTH u pass", "OK"},
		[2]string{"RESET", "RESET"},
		[2]string{"ACL SETUSER u <one", "OK"},
		[2]string{"ACL SETUSER u <one", "-ERR Error in ACL SETUSER modifier '<(redacted)': The password you are trying to remove from the user does not exist"},
		[2]string{"ACL SETUSER u !" + hash[1:], "OK"},
		[2]string{"ACL SETUSER u !" + hash[1:], "-ERR Error in ACL SETUSER modifier '!(redacted)': The password you are trying to remove from the user does not exist"},
		[2]string{"AUTH u one", "-" + errWrongPass},
	)
	if got := root.do("HELLO", "3", "AUTH", "default", "any", "SETNAME", "me"); len(got.Elems) != 14 {
		t.Error(line(got))
	}
}

// ACL LOG counts denials that are alike, and has no password.
func TestACLLog(t *testing.T) {
	ts := newTestServer(t, "acllog-max-len 4")
	root, app := ts.client(), ts.as("app", "~app:*", "+get", "+multi", "+discard", "+eval")
	for range 3 {
		app.do("GET", "other")
	}
	app.do("MULTI")
	app.do("FLUSHALL")
	app.do("DISCARD")
	app.do("EVAL", "return redis.call('flushall')", "0")
	app.do("AUTH", "app", "hunter2")
	app.do("AUTH", "pw", "app") // in the wrong order
	var got []string
	for _, e := range root.do("ACL", "LOG").Elems {
		f := map[string]string{}
		for i := 0; i+1 < len(e.Elems); i += 2 {
			f[e.Elems[i].Text] = line(e.Elems[i+1])
		}
		got = append(got, fmt.Sprint(f["count"], f["reason"], f["context"], f["object"], f["username"]))
		if text := line(e); strings.Contains(text, "hunter2") || strings.Contains(text, `"pw"`) {
			t.Error(text)
		}
	}
	want := []string{`1"auth""toplevel""AUTH""(redacted)"`, `1"auth""toplevel""AUTH""app"`, `1"command""lua""flushall""app"`, `1"command""multi""flushall""app"`}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := root.do("ACL", "LOG", "1").Elems; len(got) != 1 {
		t.Error(got)
	}
	root.do("ACL", "LOG", "RESET")
	if got := root.do("ACL", "LOG").Elems; len(got) != 0 {
		t.Error(got)
	}
	root.do("ACL", "SETUSER", "app", "+rl.rules|list")
	app.do("RL.RULES", "LIST", "shop")
	if got := root.do("ACL", "LOG").Elems; len(got) != 1 || !strings.Contains(line(got[0]), `"object" "shop"`) {
		t.Error(got)
	}
	root.do("ACL", "LOG", "RESET")
	app.do("GET", "other")
	ts.clock.Advance(61 * time.Second)
	app.do("GET", "other")
	if got := root.do("ACL", "LOG").Elems; len(got) != 2 {
		t.Errorf("%d entries after a minute", len(got))
	}
	if got := root.do("INFO", "stats").Text; !strings.Contains(got, "acl_access_denied_auth:2\r\nacl_access_denied_cmd:2\r\nacl_access_denied_key:6\r\nacl_access_denied_channel:0\r\n") {
		t.Error(got)
	}
}

// Passwords of users are in no log and no reply.
func TestPasswordsOfUsersAreHidden(t *testing.T) {
	const secret = "hunter2"
	ts := newTestServer(t, "slowlog-log-slower-than 0")
	monitor, c := ts.client(), ts.client()
	monitor.do("MONITOR")
	for _, words := range [][]string{
		{"ACL", "SETUSER", "u", ">" + secret},
		{"ACL", "SETUSER", "u", secret},
		{"ACL", "SETUSER", "u", "+@all", "<" + secret},
		{"acl", "setuser", "u", "on", "#" + secret},
		{"ACL", "DRYRUN", "u", "AUTH", "u", secret},
		{"ACL", "DRYRUN", "u", "ACL", "SETUSER", "x", ">" + secret},
		{"AUTH", "u", secret},
		{"CONFIG", "SET", "user", "x on >" + secret},
		{"EVAL", "return redis.call('ACL','SETUSER','u','>" + secret + "')", "0"},
	} {
		if got := line(c.do(words...)); strings.Contains(got, secret) && words[0] != "ACL" {
			t.Errorf("%q: %s", words, got)
		}
	}
	seen := string(monitor.conn.take())
	for _, words := range [][]string{{"SLOWLOG", "GET", "-1"}, {"ACL", "LOG"}, {"CONFIG", "GET", "*"}, {"ACL", "LIST"}, {"INFO", "everything"}} {
		seen += line(c.do(words...))
	}
	if i := strings.Index(seen, secret); i >= 0 {
		t.Errorf("...%s", seen[max(0, i-200):i+20])
	}
}

// A caller of Do is default, or the user in its context.
func TestDoAsUser(t *testing.T) {
	ts := newTestServer(t)
	root := ts.client()
	root.do("ACL", "SETUSER", "app", "on", ">pw", "~app:*", "+rl.take")
	ask := func(ctx context.Context, words ...string) string {
		args := make([][]byte, len(words))
		for i, w := range words {
			args[i] = []byte(w)
		}
		b, err := ts.Do(ctx, args...)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	u := ts.Accounts().SignIn("app", "pw")
	if u == nil || ts.Accounts().SignIn("app", "nope") != nil || ts.Accounts().SignIn("nobody", "pw") != nil {
		t.Fatal("passwords are not compared")
	}
	ctx := u.In(context.Background())
	expect := func(what, got, begin string) {
		t.Helper()
		if !strings.HasPrefix(got, begin) {
			t.Errorf("%s: %q", what, got)
		}
	}
	expect("its key", ask(ctx, "RL.TAKE", "app:1", "GCRA", "10/m"), "*5")
	expect("another's", ask(ctx, "RL.TAKE", "x", "GCRA", "10/m"), "-NOPERM")
	expect("another command", ask(ctx, "FLUSHALL"), "-NOPERM")
	expect("nobody", ask(context.Background(), "FLUSHALL"), "+OK")
	if text := ts.May(ctx, "RL.RULES", "MODE", "a", "b", "off"); !strings.HasPrefix(text, "NOPERM") || ts.May(ctx, "RL.TAKE", "app:2", "GCRA", "1/m") != "" {
		t.Error(text)
	}
	root.do("ACL", "SETUSER", "default", "-flushall")
	expect("default without the right", ask(context.Background(), "FLUSHALL"), "-NOPERM")
	root.do("ACL", "SETUSER", "app", "off")
	expect("a user that is off", ask(ctx, "RL.TAKE", "app:1", "GCRA", "10/m"), "-NOPERM")
	root.do("ACL", "SETUSER", "app", "on")
	expect("on again", ask(ctx, "RL.TAKE", "app:1", "GCRA", "10/m"), "*5")
	root.do("ACL", "DELUSER", "app")
	root.do("ACL", "SETUSER", "app", "on", "+@all", "~*", "nopass")
	expect("another user of the name", ask(ctx, "RL.TAKE", "app:1", "GCRA", "10/m"), "-NOPERM")
	root.do("ACL", "SETUSER", "default", "off")
	expect("default that is off", ask(context.Background(), "PING"), "-NOPERM")
}

// Scripts of known limiters run in Go for who may run all commands that they would call, and in Lua for others.
func TestRightsOfKnownScripts(t *testing.T) {
	ts := newTestServer(t)
	source := "local c=redis.call('INCR',KEYS[1]) return c"
	limited, plain := ts.as("limited", "~a:*", "+eval", "+incr"), ts.as("plain", "~a:*", "+@all", "-@dangerous")
	for _, c := range []struct {
		who  *testClient
		key  string
		want string
	}{
		{limited, "a:1", "1"},
		{plain, "a:1", "2"},
		{limited, "b:1", "-NOPERM"},
		{plain, "b:1", "-NOPERM"},
	} {
		if got := line(c.who.do("EVAL", source, "1", c.key)); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s", c.key, got)
		}
	}
	// The script of a library that runs in Go: the keys that it names, and those that it comes to by itself.
	at := slices.IndexFunc(knowntest.Specs(), func(s knowntest.Spec) bool { return s.SHA == "f74233f556d3f99c50b61169cf8aa8d5deb63fb2" }) // ulule/limiter
	ulule, err := knowntest.Specs()[at].Source("..", "")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"a:ulule": "[1 60000]", "b:ulule": "-NOPERM"} {
		if got := line(plain.do("EVAL", ulule, "1", key, "1", "60000")); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", key, got)
		}
	}
	store := (*scriptStore)(&plain.s.call)
	if _, ok := store.Get([]byte("b:1")); ok {
		t.Error("a handler is told of a key of another user")
	}
	if got := line(plain.do("EVAL", "return {redis.call('INCR',KEYS[1]), redis.call('GET','b:1')}", "1", "a:1")); !strings.HasPrefix(got, "-ERR The user executing the script can't access") {
		t.Error(got)
	}
	if !plain.s.call.Rights.Plain() || limited.s.call.Rights.Plain() {
		t.Error("which users run scripts in Go")
	}
}

// The replies about users are those of redis-server, but for what limitdb adds.
func TestUsersAreThoseOfRedis(t *testing.T) {
	redis, ours := startRedis(t), newTestServer(t).client()
	for _, l := range []string{
		"ACL WHOAMI", "ACL USERS", "ACL LIST", "ACL GETUSER default", "ACL GETUSER nobody",
		"ACL SETUSER a", "ACL LIST", "ACL GETUSER a",
		"ACL SETUSER a on >pw ~x:* ~y* &ch +get", "ACL LIST", "ACL GETUSER a",
		"ACL SETUSER a %R~r %W~w %RW~rw", "ACL GETUSER a", "ACL SETUSER a %W~r", "ACL GETUSER a",
		"ACL SETUSER a nopass", "ACL GETUSER a", "ACL SETUSER a resetpass off", "ACL GETUSER a",
		"ACL SETUSER a resetkeys allkeys allchannels", "ACL LIST", "ACL SETUSER a ~more", "ACL SETUSER a &more",
		"ACL SETUSER a +@all", "ACL LIST", "ACL SETUSER a -flushall", "ACL GETUSER a", "ACL SETUSER a -@all +config|get", "ACL GETUSER a",
		"ACL SETUSER a reset", "ACL LIST",
		"ACL SETUSER b #d74ff0ee8da3b9806b18c877dbf29bbde50b5bd8e4dad7a3a725000feb82e8f1", "ACL LIST",
		"ACL SETUSER b #short", "ACL SETUSER b bad", "ACL SETUSER b %Z~k", "ACL SETUSER b %~k", "ACL SETUSER b +@nosuch", "ACL SETUSER b +nosuch", "ACL SETUSER b +config|nosuch",
		"ACL SETUSER c on >p ~k:* +get +set +mget +subscribe &ch* +@transaction", "ACL DRYRUN c get k:1", "ACL DRYRUN c get x", "ACL DRYRUN c flushall", "ACL DRYRUN c set k:1 v", "ACL DRYRUN c mget k:1 x",
		"ACL DRYRUN c config get x", "ACL DRYRUN nobody get x", "ACL DRYRUN c nosuch", "ACL DRYRUN c get", "ACL DRYRUN c subscribe ch1 other", "ACL DRYRUN c auth x",
		"ACL GENPASS 0", "ACL GENPASS 4097", "ACL GENPASS x", "ACL CAT nosuch", "ACL DELUSER default", "ACL DELUSER b nobody", "ACL USERS", "ACL LOG", "ACL LOG RESET", "ACL LOG x",
		"AUTH c nope", "AUTH nobody p", "AUTH c p", "ACL WHOAMI", "GET x", "GET k:1", "SET k:1 v", "MULTI", "GET x", "GET k:1", "EXEC", "FLUSHALL", "CLIENT LIST", "PUBLISH other x",
	} {
		words := strings.Split(l, " ")
		a, b := line(ours.do(words...)), line(redis.do(words)[0])
		if c, _, ok := strings.Cut(a, " (user "); ok { // what limitdb adds
			a = c
		}
		if l == "ACL SETUSER b #short" {
			a = strings.Replace(a, "(redacted)", "short", 1)
		}
		b = strings.ReplaceAll(b, "sanitize-payload ", "") // Redis shows it for new users only
		if a != b {
			t.Errorf("%s\n got %s\nwant %s", l, a, b)
		}
	}
	if got := line(ours.do("ACL", "GENPASS", "5")); got != "-NOPERM this user has no permissions to run the 'acl|genpass' command (user c lacks +acl|genpass)" {
		t.Error(got)
	}
}

// Users that were set by command are kept before they come into force, and are the same after they were loaded.
func TestUsersAreKept(t *testing.T) {
	var kept []byte
	fail := error(nil)
	ts := newTestServerWith(t, func(o *Options) {
		o.Users.Keep = func(text []byte) error {
			if fail == nil {
				kept = slices.Clone(text)
			}
			return fail
		}
	})
	c := ts.client()
	c.steps(ts,
		[2]string{"ACL SETUSER app on >pw ~app:* %R~r &c +@limit -rl.info +acl|whoami", "OK"},
		[2]string{"ACL SAVE", "-ERR This Redis instance is not configured to use an ACL file. Users that are set by command are kept with the data, unless the configuration has user lines"},
	)
	before := line(c.do("ACL", "LIST"))
	fail = fmt.Errorf("it cannot be kept")
	c.steps(ts,
		[2]string{"ACL SETUSER app off", "-ERR it cannot be kept"},
		[2]string{"ACL DELUSER app", "-ERR it cannot be kept"},
	)
	if got := line(c.do("ACL", "LIST")); got != before {
		t.Errorf("%s, then %s", before, got)
	}
	app := ts.client()
	app.do("AUTH", "app", "pw")
	other := newTestServer(t)
	if err := other.Users().Load(kept); err != nil {
		t.Fatal(err)
	}
	if got := line(other.client().do("ACL", "LIST")); got != before {
		t.Errorf("kept as %s\nloaded as %s", before, got)
	}
	// A client stays the user that was loaded again, and one whose line cannot be read may do nothing.
	if err := ts.Users().Load(append(kept, "user new on +nosuch\n"...)); err == nil || !strings.Contains(err.Error(), "line 3: Error in ACL SETUSER modifier '+nosuch'") {
		t.Error(err)
	}
	if got := line(app.do("ACL", "WHOAMI")); got != `"app"` || ts.Users().Get("new") != nil {
		t.Error(got)
	}
	if err := ts.Users().Load([]byte("user default on +nosuch")); err == nil {
		t.Error("a wrong line of default is loaded")
	}
	if ts.Users().Default().On() || ts.Users().Get("app") != nil {
		t.Error("default may do everything because its line cannot be read")
	}
}

// A client that came while the users were being loaded does not stay default if that needs a password.
func TestClientsBeforeUsersAreLoaded(t *testing.T) {
	ts := newTestServer(t)
	ts.Users().Await()
	ts.SetLoading(true)
	early := ts.client()
	if got := line(early.do("ACL", "WHOAMI")); got != `"default"` {
		t.Error(got)
	}
	if err := ts.Users().Load([]byte("user default on #d74ff0ee8da3b9806b18c877dbf29bbde50b5bd8e4dad7a3a725000feb82e8f1 ~* &* +@all\n")); err != nil {
		t.Fatal(err)
	}
	ts.SetLoading(false)
	early.steps(ts,
		[2]string{"GET x", "-" + errUnauthenticated},
		[2]string{"AUTH pass", "OK"},
		[2]string{"GET x", "nil"},
	)
}

// The ACL file.
func TestACLFile(t *testing.T) {
	file := "# users\n\nuser app on nopass ~* +get\n"
	ts := newTestServerWith(t, func(o *Options) {
		o.Users.Read = func() ([]byte, error) { return []byte(file), nil }
		o.Users.Write = func(text []byte) error { file = string(text); return nil }
	})
	if err := ts.Users().Reload(); err != nil {
		t.Fatal(err)
	}
	c := ts.client()
	do := func(line, want string) {
		t.Helper()
		c.conn.take()
		c.s.Data([]byte(line + "\r\n"))
		for c.s.pending != nil {
			<-c.conn.woken
			c.s.Resume()
		}
		if got := string(c.conn.take()); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", line, got)
		}
	}
	do("ACL USERS", "*2\r\n$3\r\napp\r\n$7\r\ndefault")
	do("ACL SETUSER more on nopass", "+OK")
	do("ACL SAVE", "+OK")
	if want := "user app on nopass ~* resetchannels -@all +get\nuser default on nopass ~* &* +@all\nuser more on nopass resetchannels -@all\n"; file != want {
		t.Error(file)
	}
	file = strings.ReplaceAll(file, "user more", "user most")
	do("ACL LOAD", "+OK")
	do("ACL USERS", "*3\r\n$3\r\napp\r\n$7\r\ndefault\r\n$4\r\nmost")
	file += "user most on\nnonsense\n"
	do("ACL LOAD", `-ERR aclfile: line 4: there are two lines for user "most"; line 5: a line must begin with the word user and a name. The users are as they were`)
	do("ACL USERS", "*3\r\n$3\r\napp\r\n$7\r\ndefault\r\n$4\r\nmost")
}

// Commands that a follower forwards run with the rights of the user on the node that leads, too.
func TestRightsAreForwarded(t *testing.T) {
	n := newTwoNodes(t)
	for _, ts := range []*testServer{n.leader, n.follower} {
		if err := ts.Users().Load([]byte("user default on nopass ~* &* +@all\nuser app on nopass ~app:* +get +set +eval\nuser gone on nopass ~* +get\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.leader.Users().Load([]byte("user default on nopass ~* &* +@all\nuser app on nopass ~app:* +get +set +eval\n")); err != nil {
		t.Fatal(err)
	}
	c := n.follower.client()
	c.gets("AUTH app x\r\n", "OK")
	c.gets("SET app:1 x\r\n", "OK")
	for _, in := range []string{"GET other\r\n", "FLUSHALL\r\n"} {
		if got := c.send(in, 1); !strings.HasPrefix(got[0], "-NOPERM") {
			t.Errorf("%q: %q", in, got)
		}
	}
	if got := c.send(string(encode("EVAL", "return redis.call('get','other')", "0")), 1); !strings.HasPrefix(got[0], "-ERR The user executing the script can't access") {
		t.Errorf("%q", got)
	}
	c.gets("AUTH gone x\r\n", "OK")
	if got := c.send("GET x\r\n", 1); !strings.HasPrefix(got[0], "-NOPERM") {
		t.Errorf("a user that the leader does not have: %q", got)
	}
}
