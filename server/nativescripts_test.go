package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"limitdb/script"
)

// published is a script in the package that publishes it.
type published struct {
	sha  string
	file string // with {MODULE} in place of the folder of a Go module
	text string // what is around the script in the file: a regular expression with one group
	trim bool   // the package strips the blanks at the beginning of lines
	args string // the kinds of its arguments: n a count, m milliseconds, s seconds, f floating point, t text, b true or 1
}

const npm = "../e2e/clients/node/node_modules/"

var publishedScripts = []published{
	{"f52a5b566060d79fd321d695df55bc918339c4aa", "{github.com/go-redis/redis_rate/v10}/lua.go", "(?s)allowN = redis.NewScript\\(`(.*?)`\\)", false, "cpsc"},
	{"054143318f521948424aa25df61d7f7ba835a9d7", "{github.com/go-redis/redis_rate/v10}/lua.go", "(?s)allowAtMost = redis.NewScript\\(`(.*?)`\\)", false, "cpsc"},
	{"a1de965f42e177aa339706bd580f049065eca79a", npm + "rate-limiter-flexible/lib/RateLimiterRedis.js", "(?s)incrTtlLuaScript = `(.*?)`", false, "nscs"},
	{"81dbecea94d2d10514719b20ed51faf711529d9d", npm + "rate-limit-redis/dist/index.cjs", "(?s)increment: `(.*?)`", true, "bm"},
	{"3f481dd9e75a7c63c2facb091af19e1ab17f2cc7", npm + "@fastify/rate-limit/store/RedisStore.js", "(?s)const lua = `(.*?)`", false, "mcnb"},
	{"f74233f556d3f99c50b61169cf8aa8d5deb63fb2", "{github.com/ulule/limiter/v3}/drivers/store/redis/store.go", "(?s)luaIncrScript = `(.*?)`", false, "nm"},
	{"566f5c6a17e5fddb9a10bf389f754edd0d899c61", "{github.com/ulule/limiter/v3}/drivers/store/redis/store.go", "(?s)luaPeekScript = `(.*?)`", false, ""},
	{"ebd682e30de074a6919bde872b507734c7c3ebe5", "{github.com/throttled/throttled/v2}/store/goredisstore.v9/goredisstore.go", "(?s)redisCASScript     = `(.*?)`", false, "ncs"},
	{"628bd136a573a06b346879695681af12ccef300f", "/usr/lib/python3/dist-packages/limits/resources/redis/lua_scripts/incr_expire.lua", "(?s)(.*)", false, "sn"},
	{"a08c9c69b7c07ae2485190873b90d128a23e502d", "/usr/share/php/Illuminate/Cache/RedisStore.php", `\$lua = "(.*?)";`, false, "ns"},
	{"647c65a442733a1aa440f99908d249d13b4d6c4a", "/usr/share/php/Illuminate/Cache/LuaScripts.php", "(?s)<<<'LUA'\n(.*?)\nLUA;", false, "n"},
	{"e5a322e2634ef59a516e8ea150cb085afafee684", npm + "redlock/redlock.js", "(?s)lockScript = `(.*?)`", false, "nm"},
	{"ce46f80993d5dac20dd066eb301a4e37994bdbed", npm + "redlock/redlock.js", "(?s)extendScript = `(.*?)`", false, "nm"},
	{"0f0f23b9048b36752b5be114f357ba083449f908", npm + "redlock/redlock.js", "(?s)unlockScript = `(.*?)`", false, "n"},
}

// source reads the script from its package. Where that is not installed, the test is skipped, but not in CI, which sets
// LIMITDB_E2E=1.
func (p *published) source(t *testing.T) string {
	path := p.file
	if module, rest, found := strings.Cut(strings.TrimPrefix(p.file, "{"), "}"); found {
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(strings.TrimSpace(string(dir)), rest)
	}
	data, err := os.ReadFile(path)
	if err != nil && os.Getenv("LIMITDB_E2E") != "1" {
		t.Skipf("scripts/install-test-tools installs it: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(p.text).FindSubmatch(data)
	if found == nil {
		t.Fatalf("no script in %s", path)
	}
	text := string(found[1])
	if p.trim {
		text = strings.TrimSpace(regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(text, ""))
	}
	text = strings.ReplaceAll(text, "\\\n", "") // a line of a template in JavaScript goes on
	return text
}

// TestNativeScripts compares each handler with its script, which runs in Lua once it has a comment more, from random
// states and with random arguments: the replies, and what the key holds afterwards.
func TestNativeScripts(t *testing.T) {
	for _, p := range publishedScripts {
		t.Run(p.sha[:8], func(t *testing.T) {
			source := p.source(t)
			if sha := script.SHA([]byte(source)); sha != p.sha {
				t.Fatalf("the SHA-1 is %s, want %s:\n%q", sha, p.sha, source)
			}
			if nativeScript(p.sha) == nil {
				t.Fatal("no handler")
			}
			ts := newTestServer(t)
			pairs := [2][2]*testClient{{ts.client(), ts.client()}, {ts.client(), ts.client()}}
			for _, c := range pairs[1] {
				c.do("HELLO", "3")
			}
			n := 0
			rapid.Check(t, func(rt *rapid.T) {
				n++
				pair := pairs[rapid.IntRange(0, 1).Draw(rt, "RESP3")]
				p.compare(rt, ts, pair[0], pair[1], fmt.Sprint("key", n), source)
			})
		})
	}
}

func (p *published) compare(rt *rapid.T, ts *testServer, fast, slow *testClient, key, source string) {
	other := key + "-lua"
	texts := []string{"", "0", "1", "2", "5", "-1", "x", "1.5", "007", "99999999999999999", "116800000.5", "9223372036854775807"}
	for range rapid.IntRange(1, 6).Draw(rt, "steps") {
		if rapid.Bool().Draw(rt, "set") {
			set := p.state(rt, texts)
			for _, words := range set {
				fast.do(slices.Replace(slices.Clone(words), 1, 2, key)...)
				fast.do(slices.Replace(slices.Clone(words), 1, 2, other)...)
			}
		}
		ts.clock.Advance(time.Duration(rapid.Int64Range(0, 3000).Draw(rt, "ms")) * time.Millisecond)
		var args []string
		for _, kind := range p.args {
			args = append(args, p.argument(rt, kind, texts))
		}
		run := func(c *testClient, source, key string) string {
			got := line(c.do(slices.Concat([]string{"EVAL", source, "1", key}, args)...))
			return strings.ReplaceAll(got, script.SHA([]byte(source)), "SHA")
		}
		quick, lua := run(fast, source, key), run(slow, source+" ", other)
		if quick != lua {
			rt.Fatalf("%q: replies %s, in Lua %s", args, quick, lua)
		}
		for _, words := range [][]string{{"GET"}, {"PTTL"}, {"TYPE"}} {
			a, b := line(fast.do(words[0], key)), line(slow.do(words[0], other))
			if a != b {
				rt.Fatalf("%q: %s is %s, in Lua %s", args, words[0], a, b)
			}
		}
	}
}

// state returns commands that set a key, their second word, to a random state.
func (p *published) state(rt *rapid.T, texts []string) [][]string {
	text := rapid.SampledFrom(texts).Draw(rt, "text")
	switch rapid.IntRange(0, 5).Draw(rt, "state") {
	case 0:
		return [][]string{{"DEL", "key"}}
	case 1:
		return [][]string{{"SET", "key", text}}
	case 2:
		return [][]string{{"DEL", "key"}, {"RPUSH", "key", text}}
	case 3:
		return [][]string{{"DEL", "key"}, {"RL.TAKE", "key", "GCRA", "5/m"}}
	}
	return [][]string{{"SET", "key", text, "PX", fmt.Sprint(rapid.IntRange(1, 5000).Draw(rt, "ttl"))}}
}

func (p *published) argument(rt *rapid.T, kind rune, texts []string) string {
	if rapid.IntRange(0, 9).Draw(rt, "odd") == 0 {
		return rapid.SampledFrom(texts).Draw(rt, "argument")
	}
	switch kind {
	case 'b':
		return rapid.SampledFrom([]string{"true", "false", "1", "0"}).Draw(rt, "flag")
	case 'm':
		return fmt.Sprint(rapid.IntRange(1, 3000).Draw(rt, "ms"))
	case 's':
		return fmt.Sprint(rapid.IntRange(1, 3).Draw(rt, "s"))
	case 'p':
		return fmt.Sprint(rapid.IntRange(1, 100).Draw(rt, "rate"))
	case 'c':
		return fmt.Sprint(rapid.IntRange(0, 10).Draw(rt, "count"))
	}
	return rapid.SampledFrom(texts).Draw(rt, "text")
}
