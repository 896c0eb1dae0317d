package dashboard

import (
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	b := newBoard()
	b.password = "secret"
	b.replies["RL.RULES MODE shop login bad"] = "-ERR mode must be enforce, shadow or off\r\n"
	b.replies["RL.RULES GET"] = "$27\r\nname: login\r\nlimit: 1/m\r\n\r\n\r\n"
	b.replies["RL.RULES VALIDATE"] = "%1\r\n$7\r\nchanged\r\n*1\r\n$10\r\nshop/login\r\n"
	b.replies["RL.RULES SET"] = b.replies["RL.RULES VALIDATE"]
	b.replies["RL.RULES VALIDATE shop login bad"] = "-ERR a rule must be a mapping\r\n"
	c := b.serve(t)
	c.ask("POST", Path+"api/signin", `{"password":"secret"}`, ours()...)
	for _, s := range []struct {
		call, body string
		status     int
		want       string // in the answer
		asked      string // last
	}{
		{"mode", `{"namespace":"shop","rule":"login","mode":"shadow"}`, 200, "{}", "RL.RULES MODE shop login shadow"},
		{"mode", `{"namespace":"shop","rule":"login","mode":"bad"}`, 409, "mode must be", "RL.RULES MODE shop login bad"},
		{"mode", `{"mode":1}`, 400, "", ""},
		{"rule/check", `{"namespace":"shop","name":"login","text":"limit: 2/m","how":"set"}`, 200, `"changed":["shop/login"]`, "RL.RULES VALIDATE shop login limit: 2/m"},
		{"rule/check", `{"namespace":"shop","name":"login","text":"bad","how":"set"}`, 409, "a rule must be a mapping", "RL.RULES VALIDATE shop login bad"},
		{"rule/set", `{"namespace":"shop","name":"login","text":"limit: 2/m","how":"set"}`, 200, `"changed":["shop/login"]`, "RL.RULES SET shop login limit: 2/m"},
		{"rule/set", `{"namespace":"shop","name":"login","text":"{name: login, limit: 2/m}","how":"try"}`, 200, `candidate: 2/m`, "RL.RULES SET shop login name: login\nlimit: 1/m\ncandidate: 2/m\n"},
		{"rule/set", `{"namespace":"shop","name":"login","text":"{name: login, limit: 2/m, key: [u]}","how":"try"}`, 409, `only another limit can be tried`, "RL.RULES GET shop login"},
		{"rule/set", `{"namespace":"shop","name":"login","how":"adopt"}`, 409, `no candidate`, "RL.RULES GET shop login"},
		{"rule/set", `{"namespace":"shop","name":"login","how":"other"}`, 409, `a change is set, try, adopt or drop`, "RL.RULES GET shop login"},
	} {
		b.asked = nil
		code, _, text := c.ask("POST", Path+"api/"+s.call, s.body, ours()...)
		last := ""
		if n := len(b.asked); n > 0 {
			last = b.asked[n-1]
		}
		if code != s.status || !strings.Contains(text, s.want) || last != s.asked {
			t.Errorf("%s %s: %d %s, asked %q", s.call, s.body, code, text, b.asked)
		}
	}
	for _, call := range []string{"mode", "rule/check", "rule/set"} {
		if code, _, _ := c.ask("POST", Path+"api/"+call, `{"namespace":"shop"}`, "Content-Type: application/json"); code != 403 {
			t.Errorf("%s from another site: %d", call, code)
		}
	}
	// The rules that limit most are shown, in the order of the file.
	var all []rule
	for i := range 3 * maxRules {
		all = append(all, rule{Limited: int64(i)})
	}
	if shown, more := most(all); len(shown) != maxRules || more != 2*maxRules || shown[0].Limited != 2*maxRules || shown[maxRules-1].Limited != 3*maxRules-1 {
		t.Errorf("%d are shown, the first with %d, and %d more", len(shown), shown[0].Limited, more)
	}
}
