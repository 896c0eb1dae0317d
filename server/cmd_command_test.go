package server

import (
	"bytes"
	"strings"
	"testing"

	"limitdb/resp"
)

func TestCommandInfo(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	keySpec := func(flags, at, last string) string {
		return `[["flags" [` + flags + `] "begin_search" ["type" "index" "spec" ["index" ` + at + `]] ` +
			`"find_keys" ["type" "range" "spec" ["lastkey" ` + last + ` "keystep" 1 "limit" 0]]]]`
	}
	c.steps(ts,
		[2]string{"COMMAND INFO cl.throttle nosuch", `[["cl.throttle" -5 [write fast] 1 1 1 [@limit @write @fast] [] ` + keySpec("RW access update", "1", "0") + ` []] nil]`},
		[2]string{"COMMAND INFO Del", `[["del" -2 [write fast] 1 -1 1 [@keyspace @write @fast] [] ` + keySpec("RM delete", "1", "-1") + ` []]]`},
		[2]string{"COMMAND INFO memory|USAGE config|nosuch get|x", `[["memory|usage" -3 [readonly] 2 2 1 [@read @slow] [] ` + keySpec("RO", "2", "0") + ` []] nil nil]`},
		[2]string{"COMMAND INFO spublish", `[["spublish" 3 [pubsub loading stale fast] 1 1 1 [@pubsub @fast] [] ` + keySpec("not_key", "1", "0") + ` []]]`},
		[2]string{"COMMAND INFO rl.check", `[["rl.check" -3 [write blocking fast] 1 1 1 [@limit @rules @write @blocking @fast] [] ` + keySpec("not_key", "1", "0") + ` []]]`},
		[2]string{"COMMAND INFO rl.rules|get rl.rules|list", `[["rl.rules|get" -3 [readonly] 2 2 1 [@rules @read @slow] [] ` + keySpec("not_key", "2", "0") + ` []] ["rl.rules|list" -2 [readonly] 0 0 0 [@rules @read @slow] [] [] []]]`},
		[2]string{"COMMAND INFO config|get", `[["config|get" -3 [admin loading stale] 0 0 0 [@admin @dangerous @slow] [] [] []]]`},
		[2]string{"COMMAND INFO slowlog", `[["slowlog" -2 [] 0 0 0 [@slow] [] [] [` +
			`["slowlog|get" -2 [admin loading stale] 0 0 0 [@admin @dangerous @slow] [] [] []] ` +
			`["slowlog|len" 2 [admin loading stale] 0 0 0 [@admin @dangerous @slow] [] [] []] ` +
			`["slowlog|reset" 2 [admin loading stale] 0 0 0 [@admin @dangerous @slow] [] [] []] ` +
			`["slowlog|help" 2 [loading stale] 0 0 0 [@slow] [] [] []]]]]`},
		[2]string{"COMMAND NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try COMMAND HELP."},
		[2]string{"COMMAND COUNT x", "-ERR wrong number of arguments for 'command|count' command"},
	)
	all := c.do("COMMAND")
	if n := c.do("COMMAND", "COUNT").Int; n != int64(len(all.Elems)) || n != int64(len(ts.table.ByName)) {
		t.Errorf("COMMAND has %d rows, COUNT says %d, the table has %d", len(all.Elems), n, len(ts.table.ByName))
	}
	if info := c.do("COMMAND", "INFO"); line(info) != line(all) {
		t.Error("COMMAND INFO without names differs from COMMAND")
	}
	for _, row := range all.Elems {
		if len(row.Elems) != 10 {
			t.Errorf("a row of %d fields: %s", len(row.Elems), line(row))
		}
	}
}

// In RESP3 flags are sets and specs are maps, as in Redis.
func TestCommandInfoTypes(t *testing.T) {
	c := newTestServer(t).client()
	c.do("HELLO", "3")
	got := c.raw(string(encode("COMMAND", "INFO", "RL.PEEK", "nosuch")))
	want := "*2\r\n*10\r\n$7\r\nrl.peek\r\n:-4\r\n~2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n~3\r\n+@limit\r\n+@read\r\n+@fast\r\n~0\r\n" +
		"~1\r\n%3\r\n$5\r\nflags\r\n~2\r\n+RO\r\n+access\r\n$12\r\nbegin_search\r\n%2\r\n$4\r\ntype\r\n$5\r\nindex\r\n$4\r\nspec\r\n%1\r\n$5\r\nindex\r\n:1\r\n" +
		"$9\r\nfind_keys\r\n%2\r\n$4\r\ntype\r\n$5\r\nrange\r\n$4\r\nspec\r\n%3\r\n$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n~0\r\n_\r\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestCommandList(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"COMMAND LIST FILTERBY MODULE x", "[]"},
		[2]string{"COMMAND LIST FILTERBY ACLCAT nosuch", "[]"},
		[2]string{"COMMAND LIST FILTERBY aclcat PubSub", `["psubscribe" "publish" "pubsub|channels" "pubsub|numsub" "pubsub|numpat" "pubsub|shardchannels" "pubsub|shardnumsub" ` +
			`"punsubscribe" "spublish" "ssubscribe" "subscribe" "sunsubscribe" "unsubscribe"]`},
		[2]string{"COMMAND LIST FILTERBY PATTERN CONFIG*t", `["config|get" "config|set" "config|resetstat"]`},
		[2]string{"COMMAND LIST FILTERBY PATTERN *", line(c.do("COMMAND", "LIST"))},
		[2]string{"COMMAND LIST FILTERBY", "-ERR syntax error"},
		[2]string{"COMMAND LIST FILTERBY COLOUR x", "-ERR syntax error"},
		[2]string{"COMMAND LIST BY PATTERN x", "-ERR syntax error"},
	)
	if n := len(c.do("COMMAND", "LIST").Elems); n != len(ts.table.rows) {
		t.Errorf("COMMAND LIST has %d names, the table %d", n, len(ts.table.rows))
	}
}

func TestCommandGetKeys(t *testing.T) {
	ts := newTestServer(t)
	ts.client().steps(ts,
		[2]string{"COMMAND GETKEYS cl.throttle k 1 2 3", `["k"]`},
		[2]string{"COMMAND GETKEYS del a b c", `["a" "b" "c"]`},
		[2]string{"COMMAND GETKEYS memory usage k", `["k"]`},
		[2]string{"COMMAND GETKEYS ping a", "-ERR The command has no key arguments"},
		[2]string{"COMMAND GETKEYS config get", "-ERR The command has no key arguments"},
		[2]string{"COMMAND GETKEYS rl.check shop 0", "-ERR The command has no key arguments"},
		[2]string{"COMMAND GETKEYS sunsubscribe", "-ERR The command has no key arguments"},
		[2]string{"COMMAND GETKEYS nosuch a", "-ERR Invalid command specified"},
		[2]string{"COMMAND GETKEYS memory nosuch k", "-ERR Invalid command specified"},
		[2]string{"COMMAND GETKEYS memory|usage k", "-ERR Invalid command specified"},
		[2]string{"COMMAND GETKEYS ttl a b", "-ERR Invalid number of arguments specified for command"},
		[2]string{"COMMAND GETKEYS memory usage", "-ERR Invalid number of arguments specified for command"},
		[2]string{"COMMAND GETKEYS", "-ERR wrong number of arguments for 'command|getkeys' command"},
		[2]string{"COMMAND GETKEYSANDFLAGS unlink a b", `[["a" [RM delete]] ["b" [RM delete]]]`},
		[2]string{"COMMAND GETKEYSANDFLAGS rl.take a GCRA 1/s", `[["a" [RW access update]]]`},
		[2]string{"COMMAND GETKEYSANDFLAGS ttl a", `[["a" [RO access]]]`},
		[2]string{"COMMAND GETKEYSANDFLAGS nosuch", "-ERR Invalid command specified"},
	)
}

func TestCommandDocs(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	c.steps(ts,
		[2]string{"COMMAND DOCS nosuch", "[]"},
		[2]string{"COMMAND DOCS Ping PING", `["ping" ["summary" "Returns PONG, or its argument." "since" "1.0.0" "group" "connection" "complexity" "O(1)" ` +
			`"arguments" [["name" "message" "type" "string" "display_text" "message" "flags" [optional]]]]]`},
		[2]string{"COMMAND DOCS randomkey", `["randomkey" ["summary" "Returns a random key, or null if there is none." "since" "1.0.0" "group" "generic" "complexity" "O(1)"]]`},
		[2]string{"COMMAND DOCS config|set", `["config|set" ["summary" "Sets directives: all of those given, or none." "since" "1.0.0" "group" "server" "complexity" "O(n) for n directives" ` +
			`"arguments" [["name" "data" "type" "block" "flags" [multiple] "arguments" [` +
			`["name" "parameter" "type" "string" "display_text" "parameter"] ["name" "value" "type" "string" "display_text" "value"]]]]]]`},
		[2]string{"COMMAND DOCS flushall", `["flushall" ["summary" "Forgets every key." "since" "1.0.0" "group" "server" "complexity" "O(1)" ` +
			`"arguments" [["name" "flush-type" "type" "oneof" "flags" [optional] "arguments" [` +
			`["name" "async" "type" "pure-token" "display_text" "async" "token" "ASYNC"] ["name" "sync" "type" "pure-token" "display_text" "sync" "token" "SYNC"]]]]]]`},
		[2]string{"COMMAND DOCS del", `["del" ["summary" "Forgets keys; returns how many existed." "since" "1.0.0" "group" "generic" "complexity" "O(n) for n keys" ` +
			`"arguments" [["name" "key" "type" "key" "display_text" "key" "key_spec_index" 0 "flags" [multiple]]]]]`},
	)
	if got := line(c.do("COMMAND", "DOCS", "memory")); !strings.Contains(got, `"subcommands" ["memory|usage" ["summary"`) {
		t.Errorf("no subcommands: %s", got)
	}
	if n := len(c.do("COMMAND", "DOCS").Elems); n != 2*len(ts.table.ByName) {
		t.Errorf("%d elements for %d commands", n, len(ts.table.ByName))
	}

	c.do("HELLO", "3")
	got := c.raw(string(encode("COMMAND", "DOCS", "ping")))
	if !strings.HasPrefix(got, "%1\r\n$4\r\nping\r\n%5\r\n") || !strings.Contains(got, "*1\r\n%4\r\n$4\r\nname\r\n") || !strings.HasSuffix(got, "~1\r\n+optional\r\n") {
		t.Errorf("RESP3: %q", got)
	}
	all := c.do("COMMAND", "DOCS")
	if all.Kind != '%' {
		t.Errorf("COMMAND DOCS is a %q in RESP3", all.Kind)
	}
	checkMapKinds(t, all)
}

// checkMapKinds walks a reply of COMMAND DOCS as redis-cli does: every
// field must have the type that redis-cli expects.
func checkMapKinds(t *testing.T, docs resp.Value) {
	t.Helper()
	kinds := map[string]byte{
		"summary": '$', "since": '$', "group": '$', "complexity": '$', "arguments": '*', "subcommands": '%',
		"name": '$', "type": '$', "display_text": '$', "key_spec_index": ':', "token": '$', "flags": '~',
	}
	for i := 0; i < len(docs.Elems); i += 2 {
		for j := 0; j < len(docs.Elems[i+1].Elems); j += 2 {
			name, v := docs.Elems[i+1].Elems[j].Text, docs.Elems[i+1].Elems[j+1]
			if kinds[name] != v.Kind {
				t.Errorf("%s: %s is a %q", docs.Elems[i].Text, name, v.Kind)
			}
			switch name {
			case "subcommands":
				checkMapKinds(t, v)
			case "arguments":
				for _, a := range v.Elems {
					checkMapKinds(t, resp.Value{Elems: []resp.Value{docs.Elems[i], a}})
				}
			}
		}
	}
}

// Every container has HELP, which lists every subcommand with its arguments.
func TestHelp(t *testing.T) {
	ts := newTestServer(t)
	c := ts.client()
	for _, cmd := range ts.table.ByName {
		if len(cmd.Subs) == 0 {
			continue
		}
		v := c.do(cmd.Name, "help")
		if len(v.Elems) != 1+2*len(cmd.Subs) || v.Elems[0].Kind != '+' {
			t.Errorf("%s HELP: %s", cmd.Name, line(v))
		}
	}
	if b := allCommands().FindFull([]byte("Config|Get")).AppendSyntax(nil); !bytes.Equal(b, []byte("CONFIG GET parameter [parameter ...]")) {
		t.Errorf("%s", b)
	}
	if got := line(c.do("SLOWLOG", "HELP")); !strings.Contains(got, "GET [count]") {
		t.Error(got)
	}
}
