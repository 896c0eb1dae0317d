package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ruleKey is the key of a caller of the rule shop/api, by user and path.
const ruleKey = "\x00rlcAbc:shop:api:u 1:/a%3Ab"

// rulesList is the reply to RL.RULES LIST shop.
const rulesList = "*1\r\n%3\r\n$4\r\nname\r\n$3\r\napi\r\n$5\r\nlimit\r\n$9\r\nGCRA 10/m\r\n$3\r\nkey\r\n*2\r\n$4\r\nuser\r\n$4\r\npath\r\n"

func TestKey(t *testing.T) {
	b := newBoard()
	b.replies["RL.RULES LIST shop"] = rulesList
	b.replies["RL.PEEK k GCRA 5/m BURST 2"] = "*5\r\n:1\r\n:5\r\n:0\r\n:300\r\n:900\r\n"
	c := b.serve(t)
	b.replies["RL.INFO"] = "%2\r\n$9\r\nalgorithm\r\n$4\r\ngcra\r\n$5\r\nlevel\r\n:7\r\n"
	b.replies["RL.DENIALS"] = "*1\r\n%5\r\n$4\r\ntime\r\n:5\r\n$3\r\nkey\r\n$1\r\nk\r\n$5\r\nlimit\r\n$16\r\nGCRA 5/m BURST 2\r\n$3\r\nwhy\r\n$5\r\nlimit\r\n$4\r\nwait\r\n:-1\r\n"
	k := post[caller](t, c, "key", map[string]string{"id": idOf("k")})
	if !k.Found || k.Algorithm != "gcra" || k.Level != 7 || k.Rule != nil || k.Limit != "GCRA 5/m BURST 2" || k.Answer == nil || *k.Answer != (numbers{true, 5, 0, 300, 900}) || len(k.Denials) != 1 || k.Denials[0].Wait != -1 {
		t.Errorf("%+v", k)
	}
	b.replies["RL.RULES EXPLAIN"] = "-ERR not now\r\n"
	k = post[caller](t, c, "key", map[string]string{"id": idOf(ruleKey)})
	if k.NoRules != "not now" || k.Text != "shop/api u 1 /a:b" || k.Rule == nil || k.Rule.Unknown != "" || !slices.Equal(k.Rule.Fields, [][2]string{{"user", "u 1"}, {"path", "/a:b"}}) || k.Answer != nil {
		t.Errorf("%+v %+v", k, k.Rule)
	}
	b.replies["RL.INFO"], b.replies["RL.DENIALS"] = "_\r\n", "-ERR no denials are kept\r\n"
	for key, want := range map[string]string{
		"\x00rlcAbc:shop:api:u1": "the rule has changed", "\x00rlcAbc:shop:api:#hash": "its values are long", "\x00rlcAbc:shop:other:u1": errNoRule.Error(),
	} {
		k := post[caller](t, c, "key", map[string]string{"id": idOf(key)})
		if k.Found || !strings.Contains(k.Rule.Unknown, want) || k.NoDenials != "no denials are kept" {
			t.Errorf("%q: %+v %+v", key, k, k.Rule)
		}
	}
	for _, body := range []string{"", "{}", `{"id":"***"}`, `{"key":"a"}`} {
		if status, _, _ := c.ask("POST", Path+"api/key", body, ours()...); status != 400 {
			t.Errorf("%q: %d", body, status)
		}
	}
	b.replies["RL.INFO"] = "-MOVED 1 a:1\r\n"
	if status, _, body := c.ask("POST", Path+"api/key", `{"id":"YQ"}`, ours()...); status != 409 || body != `{"error":"MOVED 1 a:1"}` {
		t.Error(status, body)
	}
	b.Do = func(context.Context, ...[]byte) ([]byte, error) { return nil, errors.New("too late") }
	if status, _, _ := c.ask("POST", Path+"api/key", `{"id":"YQ"}`, ours()...); status != 409 {
		t.Error(status)
	}
}

func TestReset(t *testing.T) {
	b := newBoard()
	b.password = "secret"
	b.replies["RL.RULES LIST shop"] = rulesList
	b.replies["RL.RESET"], b.replies["RL.RULES RESET"] = ":1\r\n", ":2\r\n"
	c := b.serve(t)
	c.ask("POST", Path+"api/signin", `{"password":"secret"}`, ours()...)
	for _, s := range []struct {
		key, asked string
		status     int
	}{
		{"k", "RL.RESET k", 200},
		{ruleKey, "RL.RULES RESET shop api user u 1 path /a:b", 200},
		{"\x00rlcAbc:shop:api:#hash", "RL.RULES LIST shop", 409},
	} {
		b.asked = nil
		status, _, body := c.ask("POST", Path+"api/reset", `{"id":"`+idOf(s.key)+`"}`, ours()...)
		if status != s.status || b.asked[len(b.asked)-1] != s.asked {
			t.Errorf("%q: %d %s, asked %q", s.key, status, body, b.asked)
		}
	}
}

// explained is a reply to RL.RULES EXPLAIN with one rule, api, which applies or lacks a field.
func explained(lacks, wants string) string {
	decision := "*5\r\n:1\r\n:10\r\n:0\r\n:500\r\n:900\r\n"
	limits := "*1\r\n%5\r\n$4\r\nrole\r\n$7\r\nenforce\r\n$5\r\nlimit\r\n$9\r\nGCRA 10/m\r\n$4\r\ncost\r\n:3\r\n$3\r\nkey\r\n$1\r\nk\r\n$8\r\ndecision\r\n" + decision
	applies, why := 1, ""
	if lacks != "" {
		applies, limits, why = 0, "*0\r\n", "it lacks "+lacks
	}
	one := fmt.Sprintf("%%8\r\n$4\r\nname\r\n$3\r\napi\r\n$4\r\nmode\r\n$7\r\nenforce\r\n$7\r\napplies\r\n:%d\r\n", applies)
	for _, pair := range [][2]string{{"why", why}, {"field", lacks}, {"wants", wants}, {"from", "plan pro"}} {
		one += fmt.Sprintf("$%d\r\n%s\r\n$%d\r\n%s\r\n", len(pair[0]), pair[0], len(pair[1]), pair[1])
	}
	return "%5\r\n$8\r\ndecision\r\n" + decision + "$4\r\nrule\r\n$3\r\napi\r\n$7\r\nignored\r\n" + bulk("usr") + "$5\r\nrules\r\n:7\r\n$9\r\nexplained\r\n*1\r\n" + one + "$6\r\nlimits\r\n" + limits
}

func TestTry(t *testing.T) {
	b := newBoard()
	b.replies["RL.RULES EXPLAIN shop 2 user u1 path  COST 3 COUNT 100"] = explained("", "")
	b.replies["RL.RULES EXPLAIN shop 0"] = explained("user", "u*")
	b.replies["RL.RULES EXPLAIN nowhere"] = "-NORULE no rules are in that namespace\r\n"
	c := b.serve(t)
	const decision = `{"limited":true,"limit":10,"left":0,"wait_ms":500,"reset_ms":900}`
	for _, s := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"namespace":"shop","fields":[["user","u1"],["path",""]],"cost":3}`, 200, `{"answer":` + decision + `,"rule":"api","ignored":["usr"],"more":6,"rules":[` +
			`{"name":"api","mode":"enforce","matches":true,"why":"","from":"plan pro","limits":[{"role":"enforce","limit":"GCRA 10/m","cost":3,"id":"aw","numbers":` + decision + `}]}]}`},
		{`{"namespace":"shop"}`, 200, `{"answer":` + decision + `,"rule":"api","ignored":["usr"],"more":6,"rules":[` +
			`{"name":"api","mode":"enforce","matches":false,"why":"it lacks user","from":"plan pro","limits":[]}]}`},
		{`{"namespace":"nowhere"}`, 409, `{"error":"NORULE no rules are in that namespace"}`},
	} {
		if status, _, body := c.ask("POST", Path+"api/try", s.body, ours()...); status != s.status || body != s.want {
			t.Errorf("%s: %d %s", s.body, status, body)
		}
	}
	if status, _, _ := c.ask("POST", Path+"api/try", `{"namespace":"shop"}`, "Content-Type: application/json"); status != 403 {
		t.Errorf("from another site: %d", status)
	}
}

// TestOfCaller checks that what the rule matches is put in the place of the fields that a key does not have.
func TestOfCaller(t *testing.T) {
	b := newBoard()
	b.replies["RL.RULES LIST shop"] = rulesList
	b.replies["RL.RULES EXPLAIN shop 2"] = explained("method", "POST")
	b.replies["RL.RULES EXPLAIN shop 3"] = explained("tier", `a\*b*`)
	b.replies["RL.RULES EXPLAIN shop 4"] = explained("", "")
	c := b.serve(t)
	k := post[caller](t, c, "key", map[string]string{"id": idOf(ruleKey)})
	if want := [][2]string{{"user", "u 1"}, {"path", "/a:b"}, {"method", "POST"}, {"tier", "a*b"}}; !slices.Equal(k.Fields, want) || k.Rules == nil || !k.Rules.Rules[0].Matches {
		t.Errorf("%+v", k)
	}
	b.replies["RL.RULES EXPLAIN shop"] = explained("more", "x") // whatever is given
	b.replies["RL.RULES EXPLAIN shop 4"] = explained("more", "x")
	if k := post[caller](t, c, "key", map[string]string{"id": idOf(ruleKey)}); k.Rules != nil || k.NoRules != errNotMatched.Error() {
		t.Errorf("%+v", k)
	}
}

// TestCutKeys checks that a key that RL.TOP has cut is found again, unless others begin alike.
func TestCutKeys(t *testing.T) {
	b := newBoard()
	begin := strings.Repeat("u*", cutAt/2)
	b.replies["RL.INFO"] = "_\r\n"
	b.replies["RL.INFO "+begin+"-and-so-on"] = "%1\r\n$9\r\nalgorithm\r\n$4\r\ngcra\r\n"
	scan := "SCAN 0 MATCH " + escape(begin) + "*"
	b.replies[scan] = "*2\r\n$1\r\n0\r\n" + bulk(begin+"-and-so-on", begin+"-and-so-on")
	c := b.serve(t)
	id := map[string]string{"id": idOf(begin + "...01234567")}
	if k := post[caller](t, c, "key", id); !k.Found || k.Text != begin+"-and-so-on" {
		t.Errorf("%+v", k)
	}
	b.replies[scan] = "*2\r\n$1\r\n0\r\n" + bulk(begin+"-and-so-on", begin+"-another")
	if k := post[caller](t, c, "key", id); k.Found || k.Text != begin+"...01234567" {
		t.Errorf("%+v", k)
	}
}

// The page of a caller has what is held: the ids of its own key, and the amount of each of its limits.
func TestKeyShowsHolds(t *testing.T) {
	b := newBoard()
	c := b.serve(t)
	b.replies["RL.INFO"] = "%3\r\n$9\r\nalgorithm\r\n$5\r\nfixed\r\n$5\r\nholds\r\n:2\r\n$4\r\nheld\r\n:9\r\n"
	b.replies["RL.HOLDS"] = "*3\r\n" +
		"*5\r\n$1\r\na\r\n$9\r\ncommitted\r\n:-3\r\n:5\r\n$9\r\nFIXED 9/m\r\n" +
		"*5\r\n$2\r\nb\xff\r\n$4\r\nheld\r\n:4\r\n:1500\r\n$9\r\nFIXED 9/m\r\n" +
		"*5\r\n$1\r\nc\r\n$4\r\nheld\r\n:5\r\n:2500\r\n$9\r\nFIXED 9/m\r\n"
	k := post[caller](t, c, "key", map[string]string{"id": idOf("k")})
	if want := []heldID{{`"b\xff"`, 4, 1500, "FIXED 9/m"}, {"c", 5, 2500, "FIXED 9/m"}}; k.Holds != 2 || k.Held != 9 || !slices.Equal(k.HeldIDs, want) {
		t.Errorf("%+v", k)
	}
	b.replies["RL.RULES LIST shop"] = rulesList
	b.replies["RL.RULES EXPLAIN"] = "%1\r\n$9\r\nexplained\r\n*1\r\n%3\r\n$4\r\nname\r\n$3\r\napi\r\n$7\r\napplies\r\n:1\r\n$6\r\nlimits\r\n*1\r\n%2\r\n$5\r\nlimit\r\n$9\r\nGCRA 10/m\r\n$3\r\nkey\r\n$1\r\nk\r\n"
	k = post[caller](t, c, "key", map[string]string{"id": idOf(ruleKey)})
	if k.Rules == nil || len(k.Rules.Rules) != 1 || len(k.Rules.Rules[0].Limits) != 1 || k.Rules.Rules[0].Limits[0].Held != 9 {
		t.Errorf("%+v", k.Rules)
	}
}
