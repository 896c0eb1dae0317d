package e2e

import (
	"context"
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
		if !strings.Contains(what, "status of 401") { // the page's question before somebody signs in
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

// load keeps a server busy until the end of the test: many callers, a few of them above their limit.
func load(t *testing.T, addr string) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	c := dial(t, addr)
	if got := c.do("RL.RULES", "LOAD", `
version: 1
namespaces:
  shop:
    - {name: global, limit: 20000/s}
    - {name: user-api, key: [user], limit: 60/m, candidate: 20/m}
    - {name: login, match: {path: /login}, key: [user], limit: log 50/m, mode: shadow}
    - {name: exports-of-whole-tenants-to-another-region, match: {path: /export/*}, key: [user], limit: 3/h, mode: "off"}`); strings.HasPrefix(got, "-") {
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
			for j := range 1 + i/8%5 {
				batch.WriteString(command("RL.TAKE", []string{"user:acme-batch", "ip:203.0.113.9", "tenant:<b>x</b>", "user:\xff\x00", "user:" + strings.Repeat("long", 40)}[j], "GCRA", "30/m"))
			}
			for j := range 4 {
				batch.WriteString(command("RL.CHECK", "shop", "2", "user", fmt.Sprint("u", i%7*j), "path", "/login"))
			}
			c.send(batch.String())
			for range strings.Count(batch.String(), "\r\nRL.") {
				c.reply()
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

// TestDashboard drives the dashboard under load, in Chromium at the width of a phone and of a desk, light and
// dark. Scripts must not fail, and nothing may be wider than the window.
func TestDashboard(t *testing.T) {
	t.Parallel()
	p := start(t, "--http-password", password)
	b := openBrowser(t)
	b.look(1280, "light")
	b.do(chromedp.Navigate("http://" + p.HTTPAddr + "/"))
	b.until(`!document.getElementById("signin").hidden`)
	b.shoot("signin")
	b.do(chromedp.SendKeys(chromedp.CSS("#password"), "wrong\n"))
	b.until(`document.getElementById("signin-error").textContent === "the password is wrong"`)
	b.eval(`document.getElementById("password").value = ""`)
	b.do(chromedp.SendKeys(chromedp.CSS("#password"), password+"\n"))

	// Nothing has been decided yet: the page has a command to paste.
	b.until(`!document.getElementById("empty").hidden && document.getElementById("status").textContent === "ready"`)
	if got, want := b.eval(`document.getElementById("command").textContent`), "redis-cli -p "+p.Port()+" RL.TAKE user:42 GCRA 10/m"; got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
	b.shoot("empty")

	load(t, p.Addr)
	b.until(`document.getElementById("empty").hidden && document.querySelectorAll("#top li").length >= 6 && document.querySelectorAll("#rules th[scope=row]").length === 4 && parseFloat(document.getElementById("share").textContent) > 0`)
	if got := b.eval(`[...document.querySelectorAll("#top .key")].map(e => e.textContent).sort().join(" ")`); !strings.Contains(got, `"user:\xff\x00"`) || !strings.Contains(got, "tenant:<b>x</b>") {
		t.Errorf("the keys that are limited are %q", got)
	}
	// Look at a key, and reset it.
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), "ip:203.0.113.9\n"))
	b.until(`document.querySelector("#found dl") && document.querySelector("#found dl").textContent.includes("gcra")`)
	b.do(chromedp.Click(chromedp.CSS("#found button")))
	b.until(`document.getElementById("sure").open`)
	b.shoot("sure")
	b.do(chromedp.Click(chromedp.CSS("#sure-yes")))
	b.until(`!document.getElementById("sure").open`)
	eventually(t, "the key is reset", func() bool { return strings.Contains(p.Log(), `a key was reset on the dashboard`) })

	// The times of the namespace's checks are beside its name.
	b.until(`/^shop[0-9].* checks in the last minutes: half within .* µs, 99 of 100 within /.test(document.querySelector("#rules .namespace").textContent)`)

	// Set a rule's mode.
	b.eval(`(() => { const s = document.querySelector("#rules [aria-label='Mode of login']"); s.value = "enforce"; s.onchange({ target: s }); })()`)
	b.until(`document.getElementById("sure").open`)
	b.do(chromedp.Click(chromedp.CSS("#sure-yes")))
	eventually(t, "the rule is enforced", func() bool { return strings.Contains(p.Log(), `rule=login mode=enforce`) })

	if os.Getenv("LIMITDB_SCREENSHOTS") != "" {
		b.until(`uPlot && document.querySelectorAll("canvas").length === 2`)
		time.Sleep(20 * time.Second) // for a picture with something in it
	}
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.look(width, scheme)
			b.until(fmt.Sprintf(`innerWidth === %d && document.querySelector("canvas").clientWidth < %[1]d`, width))
			if got := b.eval(`document.documentElement.scrollWidth`); got != fmt.Sprint(width) {
				t.Errorf("the page is %s wide in a window of %d", got, width)
			}
			if got := b.eval(`[...document.querySelectorAll("#rules tbody *")].filter(e => e.getBoundingClientRect().right > innerWidth || e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline").map(e => e.outerHTML).join(" ")`); got != "" {
				t.Errorf("in a window of %d, these do not fit into the table of rules: %s", width, got)
			}
			if got := b.eval(`[...document.querySelectorAll("button")].filter(b => b.clientHeight > 50).map(b => b.textContent).join()`); got != "" {
				t.Errorf("in a window of %d, these buttons have several lines: %s", width, got)
			}
			b.shoot(fmt.Sprintf("%s-%d", scheme, width))
		}
	}
	checkAccess(t, b)
	b.do(chromedp.Click(chromedp.CSS("#account")))
	b.until(`!document.getElementById("signin").hidden`)
}

// checkAccess checks the needs of screen readers and keyboards: everything that can be used has a name, each
// field has a label, and texts contrast with their backgrounds.
func checkAccess(t *testing.T, b *browser) {
	t.Helper()
	if got := b.eval(`[...document.querySelectorAll("button, a, input, select, [role=img], meter")]
		.filter(e => e.checkVisibility() && !(e.textContent.trim() || e.getAttribute("aria-label") || (e.labels && e.labels.length))).map(e => e.outerHTML).join(" ")`); got != "" {
		t.Errorf("these have no name: %s", got)
	}
	if got := b.eval(`[...document.querySelectorAll("[aria-labelledby]")].filter(e => !document.getElementById(e.getAttribute("aria-labelledby"))).length`); got != "0" {
		t.Errorf("%s are labelled by nothing", got)
	}
	if got := b.eval(`document.querySelectorAll("h1").length + " " + document.documentElement.lang + " " + document.querySelectorAll("[tabindex]:not([tabindex='0']):not([tabindex='-1'])").length`); got != "1 en 0" {
		t.Errorf("headings, language and order of focus: %s", got)
	}
	if got := b.eval(`(() => {
		const light = (c) => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => { x /= 255; return x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
		const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$/.test(c) && c !== "transparent") return c; } return "rgb(255,255,255)"; };
		return [...document.querySelectorAll("h1, h2, p, small, th, td, dt, dd, button, .key, .count, label, code, .legend li")].filter(e => e.checkVisibility() && e.textContent.trim()).filter(e => {
			const a = light(getComputedStyle(e).color), b = light(behind(e));
			return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5;
		}).map(e => e.outerHTML.slice(0, 80)).join(" ");
	})()`); got != "" {
		t.Errorf("these are hard to read: %s", got)
	}
	// The key Tab reaches the search field.
	b.eval(`document.querySelector("#top .key").focus()`) // in one step, since the list is made anew every second
	for range 60 {
		b.do(chromedp.KeyEvent("\t"))
		if b.eval(`document.activeElement.id`) == "key" {
			return
		}
	}
	t.Error("the keyboard does not reach the field for a key")
}
