// Package knowntest calls the known scripts, for tests: it finds their texts in the
// packages that publish them, and makes calls at random.
package knowntest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"limitdb/script"
)

// Spec says where a script is published and how it is called.
type Spec struct {
	SHA  string
	Keys int    // how many; -1: any number
	Args string // the kinds of its arguments, one letter each: see argument

	holds kind // what its keys hold

	place  string // of its text; "": in no package that the tests install
	around string // what is around the script in the file: a regular expression with one group
}

// kind is what a key holds.
type kind int

const (
	text    kind = iota
	times        // a list of times
	window       // a hash with the beginning, the end and the count of a window
	tokens       // a hash with tokens and the time of their last refill
	sliding      // a hash with the beginning of a window and the counts of two
)

const (
	npm  = "e2e/clients/node/node_modules/"
	debs = "/usr/lib/python3/dist-packages/"
	php  = "/usr/share/php/Illuminate/"

	redisRate = "{github.com/go-redis/redis_rate/v10}/lua.go"
	ulule     = "{github.com/ulule/limiter/v3}/drivers/store/redis/store.go"
	throttled = "{github.com/throttled/throttled/v2}/store/goredisstore.v9/goredisstore.go"
	hits      = npm + "rate-limit-redis/dist/index.cjs"
	fastify   = npm + "@fastify/rate-limit/store/RedisStore.js"
	flexible  = npm + "rate-limiter-flexible/lib/"
	redlock   = npm + "redlock/redlock.js"
	limits    = debs + "limits/resources/redis/lua_scripts/"
	lock      = debs + "redis/lock.py"
)

// Specs returns the calls of all scripts that have a handler.
func Specs() []Spec { return specs[:] }

var specs = [...]Spec{
	{"f52a5b566060d79fd321d695df55bc918339c4aa", 1, "cpsc", text, redisRate, "(?s)allowN = redis.NewScript\\(`(.*?)`\\)"},
	{"054143318f521948424aa25df61d7f7ba835a9d7", 1, "cpsc", text, redisRate, "(?s)allowAtMost = redis.NewScript\\(`(.*?)`\\)"},
	{"b51fcf1fec2622e401ecd1495ba719a525362891", 1, "cpsc", text, "", ""},
	{"a6aad3b47e739a75dad60abfc23778c5cf863397", 1, "cpsc", text, "", ""},
	{"ed56c8a55853f0875fb1b3ec6a5f0d599ae50fb7", 1, "cpsc", text, "", ""},
	{"879df209aa81c6045299275bd92eddc98dc3ba7d", 1, "cpsc", text, "", ""},
	{"c63c96596849c7e5dd745dda1f81821c2f36a85d", 1, "cpsc", text, "", ""},
	{"a9981050630e3925a2c740c80f07a1d0e24e78fb", 1, "cpsc", text, "", ""},
	{"87d3712ed6eb1ea48f2afdba5473ef21b3ddb03c", 1, "cpsc", text, "", ""},
	{"7f098c7a5a829f0b66bbfc3601a83fd2c5a8e174", 1, "cpsc", text, "", ""},
	{"4628336da5ca85d07cc6b1964e2a7468f2d9febb", 1, "cpsc", text, "", ""},
	{"d9221875db05e13f52cb59c413f98b1f4f55bec0", 1, "cps", text, "", ""},
	{"9dea6282b5030c1dcb7d3a2a13f22f4591591895", 1, "cps", text, "", ""},
	{"eec5cb1afecb11ab103c09edf26092d6f0f04fc4", 1, "cps", text, "", ""},

	{"a1de965f42e177aa339706bd580f049065eca79a", 1, "cs", text, flexible + "RateLimiterRedis.js", "(?s)incrTtlLuaScript = `(.*?)`"},
	{"0aa93fe6a34317527000a66828426c0ae2104618", 1, "cs", text, flexible + "RateLimiterValkey.js", "(?s)incrTtlLuaScript = `(.*?)`"},

	{"895b92e1712734e1b464999be23953485475357b", 1, "m", text, hits, "(?s)increment: `(.*?)`"},
	{"81dbecea94d2d10514719b20ed51faf711529d9d", 1, "bm", text, "", ""},
	{"b829ec02dca78a148dfc75dd3c86f488ed007c68", 1, "bm", text, "", ""},
	{"3f424a504987d231baa2e19159bb5def8ad32f87", 1, "bm", text, "", ""},
	{"6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a", 1, "", text, hits, "(?s)get: `(.*?)`"},

	{"b8a19d47785922bb04e7a9fdb49e90d89be1b8af", 1, "mcbb", text, fastify, "(?s)const lua = `(.*?)`"},
	{"4c7d9ef62b3d4f8efd8d11d5d2fd1a56b1e723bc", 1, "", text, fastify, "(?s)const luaRead = `(.*?)`"},
	{"b72d57bf75a045b8d6f72ca5b553e356583723f0", 1, "mcbb", text, "", ""},
	{"f80d0c65a05e27559602a2b43fbe989df31fc5f6", 1, "mcb", text, "", ""},
	{"3f481dd9e75a7c63c2facb091af19e1ab17f2cc7", 1, "mccb", text, "", ""},

	{"f74233f556d3f99c50b61169cf8aa8d5deb63fb2", 1, "cm", text, ulule, "(?s)luaIncrScript = `(.*?)`"},
	{"566f5c6a17e5fddb9a10bf389f754edd0d899c61", 1, "", text, ulule, "(?s)luaPeekScript = `(.*?)`"},
	{"ebd682e30de074a6919bde872b507734c7c3ebe5", 1, "tts", text, throttled, "(?s)redisCASScript     = `(.*?)`"},
	{"6bdec824e189de50c67af6376ce88933ad7728a3", 1, "ttz", text, "", ""},

	{"628bd136a573a06b346879695681af12ccef300f", 1, "sc", text, limits + "incr_expire.lua", "(?s)(.*)"},
	{"ab9a35aa62ed8fa50cf1c655a522698512c9b126", 1, "s", text, "", ""},
	{"3136f0028c572d2959b5cdc5ec15b287fab6a9ff", 1, "Wl", times, limits + "moving_window.lua", "(?s)(.*)"},
	{"bf95c654b6be0a54713252ef2362a25546faf877", 1, "Wl", times, "", ""},
	{"f2ef2962263bbe72f66f5bbd0da234e74d880068", 1, "Wl", times, "", ""},
	{"ad795214f59fe26d6fdec07973836dd16586f5ec", 1, "Wl", times, "", ""},
	{"d19f37c18768a509dbf1310a257bfc35be65609f", 1, "Ulsa", times, limits + "acquire_moving_window.lua", "(?s)(.*)"},
	{"d2a3aeb88bc5648c36fed2636c03c52d5ae2ce18", 1, "Ulsa", times, "", ""},
	{"bec85d5af0739203306474d2cac591c3d6f907d2", 1, "Ulsa", times, "", ""},
	{"19c9778cd6391e2ee9f90aa518bf56256d15b4ae", 1, "Ulsa", times, "", ""},
	{"741eab638ba93ed71020bb821c45c022d0fa02c4", 1, "Ulsa", times, "", ""},
	{"e7a0a27d4101baabb124af209bb0245197a359a1", 2, "s", text, "", ""},
	{"e8ac2a60cb040b0dbb56815a1e9c6fd032ce62e7", 2, "lsa", text, "", ""},

	{"86c69f51986a343841432495d8b97ac7ebdd7cfc", 2, "acea", text, "", ""},
	{"0ad5736ed1c04aae6ec194376c784b89b8c08a7a", 2, "acea", text, "", ""},
	{"775635cca91092477cbcee85fd800accb6adc4b2", 2, "acea", text, "", ""},
	{"76a566c51f92d8f643d16e0ef0101663d5380dba", 2, "acea", text, "", ""},
	{"9d491aea731237273f4274f9ed9660b432b23791", 2, "acua", text, "", ""},
	{"eec77786d43c65f7fd568900b5d2b63b692318dc", 2, "acua", text, "", ""},
	{"5d30863604236a151eb61aae06fd7c8ba051d3e0", 1, "cw", text, "", ""},
	{"c0c8112b7b72f6e62996d9728dce30fac38286b6", 1, "s", text, "", ""},
	{"4d1cce2e153d24bd33d85877f6eb28065aa92546", 1, "cs", text, "", ""},

	{"a08c9c69b7c07ae2485190873b90d128a23e502d", 1, "ts", text, php + "Cache/RedisStore.php", `\$lua = "(.*?)";`},
	{"647c65a442733a1aa440f99908d249d13b4d6c4a", 1, "t", text, php + "Cache/LuaScripts.php", "(?s)<<<'LUA'\n(.*?)\nLUA;"},
	{"d5f94f1848f0c54fff99d99dbc4d54184a157c02", 1, "tz", text, "", ""},
	{"29cc07bd431ccbf64637e5dcb60484560fdfa2da", 1, "Uusl", window, php + "Redis/Limiters/DurationLimiter.php", "(?s)function luaScript.*?<<<'LUA'\n(.*?)\nLUA;"},
	{"1c5d436d6863e949247f4fa66fa1e32b7fa18da9", 1, "Uusl", window, php + "Redis/Limiters/DurationLimiter.php", "(?s)function tooManyAttemptsLuaScript.*?<<<'LUA'\n(.*?)\nLUA;"},
	{"a37c0266ffc78deeac63f8b030f49a040114114b", 1, "Uusl", sliding, "", ""},
	{"cf0152574376c3e3b27c274bf506925dc96e8be5", 1, "Uusl", sliding, "", ""},
	{"420ca604de4310d8301943a71390ee669720d640", -1, "tst", text, php + "Redis/Limiters/ConcurrencyLimiter.php", "(?s)function lockScript.*?<<<'LUA'\n(.*?)\nLUA;"},
	{"da2d0debfcb15563d58979b79fcb9fd1ee01a3d2", -1, "kst", text, "", ""},
	{"f019fadb2be7f759e6da999f739efe1250879ebd", -1, "ks", text, "", ""},
	{"a50243715157b186c5162c69e02eff3bf0c7994a", 1, "t", text, php + "Redis/Limiters/ConcurrencyLimiter.php", "(?s)function releaseScript.*?<<<'LUA'\n(.*?)\nLUA;"},

	{"9450de540565d89de15092a716555821601f128b", 1, "tt", text, "", ""},
	{"535b2fd00a12a23393fe15cf99599ecc51cd3007", 1, "ttm", text, "", ""},
	{"1fed031c105d7c0315b3fc2e4a75e697247264f5", 1, "t", text, "", ""},
	{"c0569386b0382069581dfaa1a8d241140bc0eeb4", 1, "tm", text, "", ""},
	{"6cad3abd039c32c68cc4638ca3513684cd302a58", 1, "t", text, "", ""},
	{"70b34c1df15244e38adcc5356cabe59b8aca7254", 1, "tm", text, "", ""},

	{"96da70f7716f27d278a5218544df37fd8b0a5e4c", -1, "tm", text, "", ""},
	{"aed6f382e410db8ba7926d4e5e9aab410bf2a78a", -1, "tm", text, "", ""},
	{"e4612211c9f8f51c257e26e056b0a654b3187242", -1, "t", text, "", ""},
	{"e5a322e2634ef59a516e8ea150cb085afafee684", -1, "tm", text, redlock, "(?s)lockScript = `(.*?)`"},
	{"ce46f80993d5dac20dd066eb301a4e37994bdbed", -1, "tm", text, redlock, "(?s)extendScript = `(.*?)`"},
	{"0f0f23b9048b36752b5be114f357ba083449f908", -1, "t", text, redlock, "(?s)unlockScript = `(.*?)`"},
	{"c3f8721cbb97f72bc19e972846bd7aaf91901658", 1, "t", text, lock, `(?s)LUA_RELEASE_SCRIPT = """(.*?)"""`},
	{"a4e8783852e6b949f9ef3a97212805108459a890", 1, "tmz", text, lock, `(?s)LUA_EXTEND_SCRIPT = """(.*?)"""`},
	{"1cac51482acf5858da00f6d685d68f886cd6b6b2", 1, "tm", text, lock, `(?s)LUA_REACQUIRE_SCRIPT = """(.*?)"""`},

	{"472e55443b62f60d0991028456c57815a387066d", 2, "lmc", text, "", ""},
	{"b13943e359636db027ad280f1def143f02158c13", 1, "mc", text, "", ""},
	{"40515c9dd0a08f8584f5f9b593935f6a87c1c1c3", 2, "l", text, "", ""},
	{"8c4c341934502aee132643ffbe58ead3450e5208", 1, "", text, "", ""},
	{"977fb636fb5ceb7e98a96d1b3a1272ba018efdae", 3, "lMmc", text, "", ""},
	{"9b7842963bd73721f1a3011650c23c0010848ee3", 2, "lMmc", text, "", ""},
	{"e1391e429b699c780eb0480350cd5b7280fd9213", 2, "lMmc", text, "", ""},
	{"ee3a3265fad822f83acad23f8a1e2f5c0b156b03", 3, "lMm", text, "", ""},
	{"65a73ac5a05bf9712903bc304b77268980c1c417", 2, "Mm", text, "", ""},
	{"b35c5bc0b7fdae7dd0573d4529911cabaf9d1d89", 2, "lmpMa", tokens, "", ""},
	{"d1f857ebbdaeca90ccd2cd4eada61d7c8e5db1ca", 1, "lmpMa", tokens, "", ""},
	{"5bece90aeef8189a8cfd28995b479529e270b3c6", 1, "lmpMa", tokens, "", ""},
	{"deb03663e8af5a968deee895dd081be553d2611b", 2, "l", tokens, "", ""},
	{"a15be2bb1db2a15f7c82db06146f9d08983900d0", 1, "l", tokens, "", ""},
	{"c26b12703dd137939b9a69a3a9b18e906a2d940f", 1, "mc", text, "", ""},
	{"8e8f222ccae68b595ee6e3f3bf2199629a62b91a", 1, "", text, "", ""},
}

// Published reports whether the script is in a package that the tests install.
func (s *Spec) Published() bool { return s.place != "" }

// Source returns the text of the script. It is in the folder of texts, in a file named by
// the SHA-1 and .lua, or in the package that publishes the script; root is the folder of
// this module. The error is fs.ErrNotExist if it is in neither.
func (s *Spec) Source(root, texts string) (string, error) {
	if texts != "" {
		data, err := os.ReadFile(filepath.Join(texts, s.SHA+".lua"))
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return s.check(string(data), err)
		}
	}
	path := s.place
	if module, rest, found := strings.Cut(strings.TrimPrefix(path, "{"), "}"); found {
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			return "", err
		}
		path = filepath.Join(strings.TrimSpace(string(dir)), rest)
	} else if strings.HasPrefix(path, npm) {
		path = filepath.Join(root, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(s.around).FindSubmatch(data)
	if found == nil {
		return "", fmt.Errorf("no script in %s", path)
	}
	text := string(found[1])
	if s.place == hits { // its package strips the blanks around lines
		text = strings.TrimSpace(regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(text, ""))
	}
	return s.check(strings.ReplaceAll(text, "\\\n", ""), nil) // a line of a template in JavaScript goes on
}

// check returns the text if it is that of the script.
func (s *Spec) check(text string, err error) (string, error) {
	if sha := script.SHA([]byte(text)); err == nil && sha != s.SHA {
		return "", fmt.Errorf("the SHA-1 is %s, want %s:\n%q", sha, s.SHA, text)
	}
	return text, err
}
