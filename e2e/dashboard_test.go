package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser is a page in Chromium. An error of its scripts or of the browser fails the test.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// chromium finds the browser, which Debian calls chromium.
func chromium(t *testing.T) string { return need(t, "chromium") }

// openBrowser starts Chromium with an empty profile.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-background-networking", true), chromedp.WSURLReadTimeout(deadline))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), o...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	var listening sync.WaitGroup
	t.Cleanup(func() { cancel(); listening.Wait() })
	b := &browser{t: t, ctx: ctx}
	complain := func(what string) {
		// 401 is the page's question before somebody signs in, and 409 what the server refuses, such as a rule with a mistake.
		if !strings.Contains(what, "status of 401") && !strings.Contains(what, "status of 409") {
			t.Errorf("the browser complains: %s", what)
		}
	}
	b.do(chromedp.Func(func(_ context.Context, s *chromedp.Target) error {
		thrown := cdp.Events(ctx, s, runtime.ExceptionThrown)
		printed := cdp.Events(ctx, s, runtime.ConsoleAPICalled)
		logged := cdp.Events(ctx, s, cdplog.EntryAdded)
		listening.Go(func() {
			for e, err := range thrown {
				if err == nil {
					complain(e.ExceptionDetails.Text)
				}
			}
		})
		listening.Go(func() {
			for e, err := range printed {
				if err == nil {
					complain("console." + string(e.Type))
				}
			}
		})
		listening.Go(func() {
			for e, err := range logged {
				if err == nil {
					complain(e.Entry.Text + " " + e.Entry.URL)
				}
			}
		})
		if _, err := cdp.Call(ctx, s, cdplog.Enable, cdp.Empty{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, s, runtime.Enable, cdp.Empty{})
		return err
	}))
	return b
}

// do runs actions.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of a JavaScript expression.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

// until waits until a JavaScript expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	eventually(b.t, expression, func() bool { return b.eval(expression) == "true" })
}

// look sets the width of the window and the scheme of colours.
func (b *browser) look(width int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// shoot takes a picture of the whole page, which LIMITDB_SCREENSHOTS keeps in a folder. It must not be blank.
func (b *browser) shoot(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if len(png) < 10_000 {
		b.t.Errorf("%s is blank: %d bytes", name, len(png))
	}
	if dir := os.Getenv("LIMITDB_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
			b.t.Error(err)
		}
	}
}

// badKeys are keys that must not break the page: bytes that cannot be printed, markup, 8 kB, and letters that are written from right to left.
var badKeys = [...]string{"tenant:<b>x</b>", "user:\xff\x00", "user:" + strings.Repeat("long", 1990), "user:שלום\u202eabc", "'\"><script>alert(1)</script>"}

// load keeps a server busy until the end of the test: many callers, a few of them above their limit. It returns a function that stops it.
func load(t *testing.T, addr string) (end func()) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	c := dial(t, addr)
	c.SetDeadline(time.Time{}) // pictures take long
	if got := c.do("RL.RULES", "LOAD", `
version: 1
plans:
  free: {day: 100/d}
  pro: {day: 100000/d}
namespaces:
  shop:
    - {name: global, limit: 20000/s}
    - name: user-api
      key: [user]
      limit: 60/m   # for everybody
      overrides:
        - {match: {user: acme}, limit: 5000/m}
    - {name: login, match: {path: /login}, key: [user], limit: log 50/m, mode: shadow}
    - {name: user-day, key: [user], plan: {field: plan, limit: day, default: free}}
    - {name: exports-of-whole-tenants-to-another-region, match: {path: /export/*}, key: [user], limit: 3/h, mode: "off"}
  mail:
    - {name: senders, key: [from, to], limit: fixed 20/m}`); strings.HasPrefix(got, "-") {
		t.Fatal(got)
	}
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond): // a pace, so that the machine has time for the browser
			}
			var batch strings.Builder
			for j := range 20 {
				batch.WriteString(command("RL.TAKE", fmt.Sprintf("user:%d", (i*20+j)%5000), "GCRA", "100/m"))
			}
			for j := range 1 + i/8%7 {
				batch.WriteString(command("RL.TAKE", []string{"user:acme-batch", "ip:203.0.113.9", badKeys[0], badKeys[1], badKeys[2], badKeys[3], badKeys[4]}[j], "GCRA", "30/m"))
			}
			for j := range 4 {
				batch.WriteString(command("RL.CHECK", "shop", "2", "user", fmt.Sprint("u", i%7*j), "path", "/login"))
			}
			batch.WriteString(command("RL.CHECK", "mail", "2", "from", "news letter", "to", fmt.Sprint("t", i%3)))
			c.send(batch.String())
			for range strings.Count(batch.String(), "\r\nRL.") {
				c.reply()
			}
		}
	}()
	end = sync.OnceFunc(func() { close(stop); <-done })
	t.Cleanup(end)
	return end
}

// open signs in.
func (b *browser) open(addr string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://" + addr + "/"))
	b.until(`!document.getElementById("signin").hidden`)
	b.do(chromedp.SendKeys(chromedp.CSS("#password"), password+"\n"))
	b.until(`document.getElementById("status").textContent === "ready"`)
}

// visit goes to a view, and waits until it shows something.
func (b *browser) visit(hash, until string) {
	b.t.Helper()
	b.eval(fmt.Sprintf("location.hash = %q", hash))
	b.until(until)
}

// callerHash is the address of the page of a key.
func callerHash(key string) string {
	return "#/caller?id=" + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// pictures takes pictures of a view at the width of a phone and of a desk, light and dark. Nothing may be wider than the window, and everybody
// must be able to use it.
func (b *browser) pictures(name string) {
	b.t.Helper()
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.look(width, scheme)
			b.until(fits(width))
			if got := b.eval(`document.documentElement.scrollWidth`); got != fmt.Sprint(width) {
				b.t.Errorf("%s is %s wide in a window of %d: %s", name, got, width, b.eval(`[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120)).slice(0, 5).join(" ")`))
			}
			if got := b.eval(`[...document.querySelectorAll("#rules-table tbody *")].filter(e => e.checkVisibility() && (e.getBoundingClientRect().right > innerWidth || e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline" && !e.closest("svg"))).map(e => e.outerHTML).join(" ")`); got != "" {
				b.t.Errorf("in a window of %d, these do not fit into the table of rules: %s", width, got)
			}
			if got := b.eval(`[...document.querySelectorAll("button")].filter(b => b.clientHeight > 50).map(b => b.textContent).join()`); got != "" {
				b.t.Errorf("%s in a window of %d, these buttons have several lines: %s", name, width, got)
			}
			if got := b.eval(`document.body.innerText.split("\n").filter(l => /\b(null|undefined|NaN|\[object)\b/.test(l)).join()`); got != "" {
				b.t.Errorf("%s says %q", name, got)
			}
			checkAccess(b.t, b, name+" "+scheme)
			b.shoot(fmt.Sprintf("%s-%s-%d", name, scheme, width))
		}
	}
}

// fits is true once the window has a width, and the charts have followed it.
func fits(width int64) string {
	return fmt.Sprintf(`innerWidth === %d && [...document.querySelectorAll(".view canvas")].every(c => c.clientWidth < %[1]d)`, width)
}

// ripe waits until a picture has something in it, if it will be looked at.
func ripe(seconds int) {
	if os.Getenv("LIMITDB_SCREENSHOTS") != "" {
		time.Sleep(time.Duration(seconds) * time.Second)
	}
}

// TestDashboard drives the dashboard under load, in Chromium. Scripts must not fail.
func TestDashboard(t *testing.T) {
	t.Parallel()
	p := start(t, "--http-password", password, "--max-key-len", "8kb")
	b := openBrowser(t)
	b.look(1280, "light")
	b.do(chromedp.Navigate("http://" + p.HTTPAddr + "/"))
	b.until(`!document.getElementById("signin").hidden`)
	b.shoot("signin")
	b.do(chromedp.SendKeys(chromedp.CSS("#password"), "wrong\n"))
	b.until(`document.getElementById("signin-error").textContent === "the name or the password is wrong"`)
	b.eval(`document.getElementById("password").value = ""`)
	b.do(chromedp.SendKeys(chromedp.CSS("#password"), password+"\n"))

	// Nothing has been decided yet: the page has a command to paste, and the key in it is there for long.
	b.until(`!document.getElementById("empty").hidden && document.getElementById("status").textContent === "ready"`)
	if got, want := b.eval(`document.getElementById("command").textContent`), "redis-cli -p "+p.Port()+" RL.TAKE user:42 GCRA 10/h"; got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
	if got := b.eval(`document.getElementById("well").textContent`); !strings.HasPrefix(got, "All is well: decisions are made") {
		t.Errorf("it says %q", got)
	}
	b.pictures("empty")
	if got := dial(t, p.Addr).do("RL.TAKE", "user:42", "GCRA", "10/h"); got != "[0 10 9 -1 360000]" && !strings.Contains(got, "360000") {
		t.Error(got)
	}
	b.until(`document.getElementById("empty").hidden`)
	b.visit(callerHash("user:42"), `document.getElementById("caller-kept") && document.getElementById("caller-kept").textContent.includes("gcra")`)

	// What is held of a key, by which ids.
	dial(t, p.Addr).do("RL.HOLD", "tokens:acme", "FIXED", "9000/d", "COST", "4000", "TTL", "30m", "ID", "request-<b>1")
	b.visit(callerHash("tokens:acme"), `document.getElementById("caller-held-ids") && !document.getElementById("caller-holds").hidden && document.getElementById("caller-held-ids").textContent.includes("request-<b>1 holds 4")`)

	load(t, p.Addr)
	b.visit("#/", `document.querySelectorAll("#top li").length >= 8 && document.querySelectorAll("#busy li").length >= 2 && parseFloat(document.getElementById("share").textContent) > 0`)
	if got := b.eval(`[...document.querySelectorAll("#top .key")].map(e => e.textContent).sort().join(" ")`); !strings.Contains(got, `"user:\xff\x00"`) || !strings.Contains(got, "tenant:<b>x</b>") {
		t.Errorf("the keys that are denied are %q", got)
	}
	ripe(20)
	b.pictures("load")
	b.look(1280, "light")

	// Pause: nothing moves, until the button is pressed again.
	b.do(chromedp.Click(chromedp.CSS("#pause")))
	b.until(`document.getElementById("status").textContent.startsWith("paused at ")`)
	before := b.eval(`document.getElementById("rate-more").title`)
	b.eval(`new Promise((done) => setTimeout(done, 2500))`)
	if now := b.eval(`document.getElementById("rate-more").title`); now != before || before == "" {
		t.Errorf("while it pauses, %q became %q", before, now)
	}
	b.do(chromedp.Click(chromedp.CSS("#pause")))
	b.until(fmt.Sprintf(`document.getElementById("rate-more").title !== %q`, before))

	searches(t, b)
	rulesPages(t, b, p)
	callerPages(t, b, p)
	trial(t, b)

	b.visit("#/", `!document.getElementById("overview").hidden`)
	keyboard(t, b)
	b.do(chromedp.Click(chromedp.CSS("#account")))
	b.until(`!document.getElementById("signin").hidden`)
}

// searches finds callers by the names that the page shows, by mouse and by keys.
func searches(t *testing.T, b *browser) {
	t.Helper()
	find := func(text string) string {
		t.Helper()
		b.eval(fmt.Sprintf(`(() => { const q = document.getElementById("q"); q.focus(); q.value = %q; q.dispatchEvent(new Event("input")); })()`, text))
		b.until(`!document.getElementById("hits").hidden && document.getElementById("search-said").textContent !== ""`)
		found := ""
		eventually(t, "search of "+text, func() bool {
			found = b.eval(`[...document.querySelectorAll("#hits .key")].map(e => e.textContent).join(" | ")`)
			return strings.Contains(found, strings.Trim(text, `"`)) || strings.Contains(text, "nobody") && found == ""
		})
		return found
	}
	for _, text := range []string{"shop/login u0", "shop/user-api u1", "user:acme", "mail/senders news letter", "tenant:<b>", "shop/us", "exports", "user:שלום"} {
		if got := find(text); !strings.Contains(got, text) && text != "exports" {
			t.Errorf("%q finds %q", text, got)
		}
	}
	if got := find("nobody at all"); got != "" {
		t.Errorf("nobody is %q", got)
	}
	find("shop/")
	b.look(1280, "light")
	b.shoot("search-light-1280")
	b.look(390, "dark")
	b.shoot("search-dark-390")
	b.look(1280, "light")
	find("shop/login u0")
	b.until(`document.querySelector("#hits .key").textContent === "shop/login u0"`)
	b.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	b.until(`location.hash.startsWith("#/caller?id=") && document.getElementById("caller-title") && document.getElementById("caller-title").textContent === "shop/login u0"`)
}

// rulesPages looks at rules, and changes them.
func rulesPages(t *testing.T, b *browser, p *proc) {
	t.Helper()
	b.visit("#/rules", `document.querySelectorAll("#rules-table tbody th[scope=row]").length === 6`)
	ripe(4)
	// The times of the namespace's checks are beside its name.
	b.until(`[...document.querySelectorAll("#rules-table .namespace")].some(e => /^shop[0-9].* checks in the last minutes: half within .* µs, 99 of 100 within /.test(e.textContent))`)
	b.pictures("rules")
	b.look(1280, "light")
	b.visit("#/rules?filter=log", `document.querySelectorAll("#rules-table tbody th[scope=row]").length === 1`)
	b.visit("#/rules", `document.querySelectorAll("#rules-table tbody th[scope=row]").length === 6`)

	// Set a rule's mode.
	b.eval(`(() => { const s = document.querySelector("#rules-table [aria-label='Mode of login']"); s.value = "enforce"; s.onchange({ target: s }); })()`)
	b.until(`document.getElementById("sure").open`)
	b.shoot("sure")
	b.do(chromedp.Click(chromedp.CSS("#sure-yes")))
	eventually(t, "the rule is enforced", func() bool { return strings.Contains(p.Log(), `rule=login mode=enforce`) })

	// Change a rule: a mistake, then another limit as a candidate, which is then put in force.
	b.visit("#/rule?ns=shop&name=user-api", `document.querySelector("#rule-text button") !== null && document.querySelectorAll("#rule-callers li").length > 0`)
	ripe(6)
	b.pictures("rule")
	b.look(1280, "light")
	b.do(chromedp.Click(chromedp.CSS("#rule-text button")))
	button := func(text string) {
		t.Helper()
		at := fmt.Sprintf(`[...document.querySelectorAll("#rule button")].find(b => b.textContent === %q && !b.disabled)`, text)
		b.until(at + " !== undefined")
		b.eval(at + ".click()")
	}
	typed := func(from, to string) {
		t.Helper()
		b.eval(fmt.Sprintf(`(() => { const a = document.getElementById("rule-edit"); a.value = a.value.replace(%q, %q); a.dispatchEvent(new Event("input")); })()`, from, to))
		button("Check")
	}
	typed("60/m", "60/parsec")
	b.until(`document.querySelector("#rule-said .wrong") && document.querySelector("#rule-said .wrong").textContent.includes("the rules stay as they are: line ")`)
	b.shoot("rule-mistake-light-1280")
	typed("60/parsec", "90/m")
	b.until(`document.querySelectorAll("#rule-said .new").length === 1 && document.querySelectorAll("#rule-said .gone").length === 1`)
	b.pictures("rule-change")
	b.look(1280, "light")
	button("Try it first, as a candidate")
	b.until(`document.getElementById("rule-candidate").textContent.includes("90/m")`)
	ripe(3)
	b.pictures("rule-candidate")
	b.look(1280, "light")
	if got := dial(t, p.Addr).do("RL.RULES", "GET", "shop", "user-api"); !strings.Contains(got, "limit: 60/m") || !strings.Contains(got, "candidate: 90/m") {
		t.Errorf("the rule is %q", got)
	}
	button("Put it in force")
	b.until(`document.getElementById("sure").open`)
	b.do(chromedp.Click(chromedp.CSS("#sure-yes")))
	b.until(`document.getElementById("rule-candidate").textContent === "" && document.querySelector("#rule-text pre").textContent.includes("limit: 90/m")`)
}

// callerPages looks at callers, also at those with keys that would break a careless page, and resets one of a rule.
func callerPages(t *testing.T, b *browser, p *proc) {
	t.Helper()
	b.visit(callerHash("ip:203.0.113.9"), `document.getElementById("caller-kept") && document.getElementById("caller-kept").textContent.includes("gcra")`)
	ripe(6)
	b.pictures("key")
	b.look(1280, "light")
	for i, key := range badKeys {
		b.visit(callerHash(key), fmt.Sprintf(`document.getElementById("caller-title") && document.getElementById("caller-title").title.length >= %d`, min(10, len(key))))
		b.until(`document.getElementById("caller-kept").textContent.includes("gcra")`)
		if got := b.eval(`document.querySelectorAll("main script, main b b, #caller-title *").length`); got != "0" {
			t.Errorf("%q became %s elements", key, got)
		}
		for _, width := range []int64{390, 1280} {
			b.look(width, "light")
			b.until(fits(width))
			if got := b.eval(`document.documentElement.scrollWidth`); got != fmt.Sprint(width) {
				t.Errorf("%.40q: the page is %s wide in a window of %d", key, got, width)
			}
		}
		b.shoot(fmt.Sprintf("hostile-%d-light-1280", i))
	}
	// A caller of a rule: its limits, and a reset.
	b.visit("#/", `[...document.querySelectorAll("#top .key")].some(e => e.textContent === "shop/login u0")`)
	b.eval(`[...document.querySelectorAll("#top .key")].find(e => e.textContent === "shop/login u0").click()`)
	b.until(`document.querySelectorAll("#caller-limits .answers li").length >= 2`)
	ripe(6)
	b.pictures("caller")
	b.look(1280, "light")
	b.do(chromedp.Click(chromedp.CSS("#caller-reset button")))
	b.until(`document.getElementById("sure").open`)
	b.do(chromedp.Click(chromedp.CSS("#sure-yes")))
	b.until(`!document.getElementById("sure").open`)
	eventually(t, "the key is reset", func() bool { return strings.Contains(p.Log(), `a key was reset on the dashboard`) })
	// A key that is not there, and one that is too long.
	b.visit(callerHash(strings.Repeat("x", 10_000)), `document.getElementById("caller").textContent.includes("key is longer than max-key-len")`)
	b.visit(callerHash("nobody"), `document.getElementById("caller-said") && document.getElementById("caller-said").textContent.startsWith("There is no such key now.")`)
}

// trial tries requests.
func trial(t *testing.T, b *browser) {
	t.Helper()
	b.visit("#/try?ns=shop&f.user=u0&f.path=/login", `document.querySelectorAll("#try-said .answers li").length >= 3`)
	if got := b.eval(`document.querySelector("#try-said .verdict").textContent`); !strings.HasPrefix(got, "It would be ") {
		t.Errorf("it says %q", got)
	}
	b.pictures("try")
	b.look(1280, "light")
	if got := b.eval(`document.querySelectorAll("#try-fields .field").length`); got != "2" {
		t.Errorf("the link makes %s fields", got)
	}
}

// TestDashboardOfNodes looks at three nodes by the page of one that does not lead, before and after another is killed.
func TestDashboardOfNodes(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3, "--http-password", password, "--max-key-len", "8kb")
	at, other, third := roles(t, nodes)
	stop := load(t, at.Addr)
	b := openBrowser(t)
	b.look(1280, "light")
	b.open(other.HTTPAddr)
	// The figures are those of the leader.
	b.until(`document.getElementById("nodes-pill").textContent === "3 of 3 nodes" && document.querySelectorAll("#top li").length > 0 && document.getElementById("rate").textContent !== "–"`)
	if got := b.eval(`document.getElementById("uptime").textContent`); !strings.Contains(got, other.id+" follows "+at.id) {
		t.Errorf("it says %q", got)
	}
	ripe(15)
	b.pictures("follower")
	b.look(1280, "light")
	b.visit("#/rules", `document.querySelectorAll("#rules-table tbody th[scope=row]").length === 6`)
	b.visit("#/", `!document.getElementById("overview").hidden`)
	third.Kill()
	b.until(fmt.Sprintf(`document.getElementById("nodes-pill").textContent === "2 of 3 nodes" && document.querySelectorAll("#nodes .dead").length === 1 && document.getElementById("concerns").textContent.includes("Node %s has not answered")`, third.id))
	ripe(5)
	b.pictures("dead-node")
	b.look(1280, "light")
	// Without a majority, the page says that nobody leads.
	stop()
	at.Kill()
	b.until(`document.getElementById("nodes-pill").textContent === "1 of 3 nodes" && document.getElementById("verdict").classList.contains("bad")`)
	b.pictures("no-leader")
}

// TestDashboardOfGroups looks at the page of a cluster whose keys are divided among four groups.
func TestDashboardOfGroups(t *testing.T) {
	t.Parallel()
	n := &raftNode{id: "n1", raft: "127.0.0.1:" + freePort(t)}
	n.args = []string{"--raft-addr", n.raft, "--raft-id", n.id, "--raft-bootstrap", "yes", "--raft-groups", "4", "--raft-zone", "east", "--http-password", password}
	n.begin(t, t.TempDir())
	eventually(t, "it is ready", func() bool { return get("http://"+n.HTTPAddr+"/readyz") != "" })
	for i := range 40 {
		n.ask(t, "RL.TAKE", fmt.Sprint("user:", i), "GCRA", "10/h")
	}
	b := openBrowser(t)
	b.look(1280, "light")
	b.open(n.HTTPAddr)
	b.until(`!document.getElementById("groups-link").hidden`)
	b.visit("#/groups", `document.querySelectorAll("#groups-table tbody tr").length === 4 && document.querySelectorAll("#placed tbody tr").length === 1`)
	b.until(`[...document.querySelectorAll("#groups-table tbody td:nth-last-child(2)")].reduce((sum, e) => sum + Number(e.textContent), 0) === 40`)
	if got := b.eval(`document.querySelector("#placed tbody tr").textContent`); !strings.HasPrefix(got, "n1answers") || !strings.HasSuffix(got, "east10044") {
		t.Errorf("the node: %q", got)
	}
	b.pictures("groups")
}

// TestDashboardCounts compares the numbers of the page with what clients were answered.
func TestDashboardCounts(t *testing.T) {
	t.Parallel()
	p := start(t, "--http-password", password)
	c := dial(t, p.Addr)
	if got := c.do("RL.RULES", "LOAD", "version: 1\nnamespaces: {shop: [{name: user-api, key: [user], limit: fixed 7/d first}]}"); strings.HasPrefix(got, "-") {
		t.Fatal(got)
	}
	allowed, denied := 0, 0
	for i := range 500 {
		for _, words := range [][]string{{"RL.TAKE", fmt.Sprint("k", i%11), "FIXED", "9/d", "FIRST"}, {"RL.CHECK", "shop", "1", "user", fmt.Sprint("u", i%13)}} {
			if got := c.do(words...); strings.HasPrefix(got, "[:1 ") {
				denied++
			} else {
				allowed++
			}
		}
	}
	if allowed != 11*9+13*7 {
		t.Errorf("%d were allowed", allowed)
	}
	b := openBrowser(t)
	b.open(p.HTTPAddr)
	b.until(fmt.Sprintf(`document.getElementById("rate-more").title === "%d allowed, %d denied"`, allowed, denied))
	b.visit("#/rule?ns=shop&name=user-api", fmt.Sprintf(`document.getElementById("rule-allowed") && document.getElementById("rule-allowed").title === "%d" && document.getElementById("rule-limited").title === "%d"`, 13*7, 500-13*7))
	if got, want := b.eval(`document.getElementById("rule-share-more").textContent`), fmt.Sprintf("%d of 500", 500-13*7); got != want {
		t.Errorf("the share is %q, want %q", got, want)
	}
	b.visit("#/try?ns=shop&f.user=u0", `document.querySelector("#try-said .answers p") !== null`)
	if got := b.eval(`document.querySelector("#try-said .answers p").textContent`); !strings.HasPrefix(got, "denies: 0 of 7 left, again in ") {
		t.Errorf("it says %q", got)
	}
}

// checkAccess checks the needs of screen readers and keyboards: everything that can be used has a name, each
// field has a label, and texts contrast with their backgrounds.
func checkAccess(t *testing.T, b *browser, where string) {
	t.Helper()
	if got := b.eval(`[...document.querySelectorAll("button, a, input, select, textarea, [role=img], meter")]
		.filter(e => e.checkVisibility() && !(e.textContent.trim() || e.getAttribute("aria-label") || (e.labels && e.labels.length))).map(e => e.outerHTML).join(" ")`); got != "" {
		t.Errorf("%s: these have no name: %s", where, got)
	}
	if got := b.eval(`[...document.querySelectorAll("[aria-labelledby]")].filter(e => !document.getElementById(e.getAttribute("aria-labelledby"))).length`); got != "0" {
		t.Errorf("%s: %s are labelled by nothing", where, got)
	}
	if got := b.eval(`document.querySelectorAll("h1").length + " " + document.documentElement.lang + " " + document.querySelectorAll("[tabindex]:not([tabindex='0']):not([tabindex='-1'])").length`); got != "1 en 0" {
		t.Errorf("%s: headings, language and order of focus: %s", where, got)
	}
	if got := b.eval(`(() => {
		const light = (c) => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => { x /= 255; return x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
		const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$/.test(c) && c !== "transparent") return c; } return "rgb(255,255,255)"; };
		return [...document.querySelectorAll("h1, h2, p, small, th, td, dt, dd, li, a, button, .key, .count, .pill, label, code, pre span")].filter(e => e.checkVisibility() && e.textContent.trim()).filter(e => {
			const a = light(getComputedStyle(e).color), b = light(behind(e));
			return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5;
		}).map(e => e.outerHTML.slice(0, 80)).join(" ");
	})()`); got != "" {
		t.Errorf("%s: these are hard to read: %s", where, got)
	}
}

// keyboard checks that the key Tab comes from the search field to the list of the callers that are denied.
func keyboard(t *testing.T, b *browser) {
	t.Helper()
	b.until(`document.querySelectorAll("#top .key").length > 0`)
	b.eval(`document.getElementById("q").focus()`)
	for range 60 {
		b.do(chromedp.KeyEvent("\t"))
		if b.eval(`document.activeElement.closest("#top") !== null`) == "true" {
			return
		}
	}
	t.Error("the keyboard does not reach the callers that are denied")
}
