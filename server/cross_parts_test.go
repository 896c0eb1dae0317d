package server

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"limitdb/limit"
	"limitdb/resp"
	"limitdb/server/forward"
	"limitdb/uplink"
)

// The words of parts are another node's alone, and hold to the user's rights there as well.
func TestPartsAreOfNodes(t *testing.T) {
	n := newGroupNodes(t)
	n.rulesAre("version: 1\nnamespaces:\n  shop: [{name: user, key: [u], limit: 5/m}]\n")
	ts := n.nodes[1]
	ts.as("app", "~app*", "+@limit", "~rl:shop:*")
	key := "app{" + n.key(2) + "}"
	words := func(name, where, key string) [][]byte {
		return append(toBytes([]string{partOf, name, where}), takePart(t, key)...)
	}
	if got := string(ts.client().raw(string(resp.AppendCommand(nil, words("RL.TAKEALL", "", key)...)))); !strings.HasPrefix(got, "-ERR unknown command") {
		t.Errorf("a client is told %q", got)
	}
	ask := func(user string, words ...[]byte) string {
		var lines forward.Lines
		got := make(chan string, 1)
		client := uplink.Client{Remote: "part", Local: "part", Unix: true, RESP3: true, User: user}
		if !lines.Ask(n.links[0][1].Load(), client, resp.AppendCommand(nil, words...), func(reply []byte, refused bool) {
			if got <- string(reply); refused {
				got <- "refused"
			}
		}) {
			t.Fatal("nothing is sent")
		}
		return <-got
	}
	caller := ts.callerIn(2, "shop")
	for _, test := range []struct {
		user  string
		words [][]byte
		want  string
	}{
		{"", words("RL.TAKEALL", "", key), "\x01"},
		{"app", words("RL.TAKEALL", "", key), "\x01"},
		{"app", words("RL.TAKEALL", "", n.key(2)), "NOPERM"},
		{"nobody", words("RL.TAKEALL", "", key), "NOPERM"},
		{"app", words("RL.CHECK", "shop", caller), "\x01"},
		{"app", words("RL.CHECK", "other", caller), errPart},
		{"", words("RL.CHECK", "sho", caller), errPart},
		{"", words("RL.CHECK", "shop", key), errPart},
		{"", words("RL.TAKEALL", "", caller), errKeyOfRule},
		{"", words("RL.TAKE", "", key), errPart},
		{"", words("RL.NONE", "", key), errPart},
		{"", words("RL.TAKEALL", "", strings.Repeat("k", int(ts.set.MaxKeyLen.Get()))+"{"+n.key(2)+"}"), errKeyTooLong},
		{"", append(words("RL.TAKEALL", "", key), takePart(t, n.key(3))[1:]...), errPart},
		{"", words("RL.TAKEALL", "", key)[:3], errPart},
		{"", append(words("RL.TAKEALL", "", key), []byte("x")), "ERR"},
		{"", words("RL.TAKEALL", "", n.key(3)), ""}, // it leads another group
	} {
		if got := ask(test.user, test.words...); !strings.Contains(got, test.want) || (test.want == "") != (got == "") || test.want == "\x01" && !strings.HasPrefix(strings.TrimLeft(got, "$0123456789\r\n"), "\x01") {
			t.Errorf("%s, %q: %q, want %q", test.user, test.words[1:], got, test.want)
		}
	}
	ts.SetLoading(true)
	if got := ask("", words("RL.TAKEALL", "", key)...); !strings.Contains(got, errLoading) {
		t.Errorf("%q", got)
	}
	ts.SetLoading(false)
}

// takePart returns what asks for a part that takes from a key.
func takePart(t *testing.T, key string) [][]byte {
	l, err := (&limit.Parser{}).Parse("GCRA 9/h")
	if err != nil {
		t.Fatal(err)
	}
	return toBytes([]string{"\x01\x00\x00id" + strconv.Itoa(len(key)), key, string(limit.Pack([]byte{0, 1}, &l))})
}

// callerIn returns the key of a caller of a group.
func (ts *testServer) callerIn(number int, namespace string) string {
	for i := 0; ; i++ {
		c := ts.newCall(ts.group, ts.clock.Now(), resp.RESP2, toBytes([]string{"RL.CHECK", namespace, "1", "u", strconv.Itoa(i)}))
		cmd, _ := c.resolve()
		p, text := cmd.Prepare(&c)
		if text != "" {
			ts.t.Fatal(text)
		}
		key := string(p.Keys()[0])
		p.Free()
		if ts.groupOf([]byte(key)) == ts.every[number] {
			return key
		}
	}
}

// A pause holds back what other nodes ask for, but not what they give back.
func TestPauseHoldsParts(t *testing.T) {
	n := newGroupNodes(t)
	c, other := n.nodes[0].client(), n.nodes[1].client()
	k2 := n.key(2)
	take := "RL.TAKEALL 2 " + k2 + " " + n.key(3) + " FIXED 9/h FIRST FIXED 9/h FIRST\r\n"
	left := func() int64 { return limitLeft(t, n.nodes[1].every[2].Engine.Load(), n.nodes[1].clock.Now(), k2) }
	other.do("CLIENT", "PAUSE", "10000", "WRITE")
	c.conn.take()
	c.s.Data([]byte(take))
	c.until(func() bool { return n.nodes[1].pause.Held.Len() == 1 })
	if left() != 9 {
		t.Error("it was taken")
	}
	other.do("CLIENT", "UNPAUSE")
	if got := c.receive(1)[0]; !strings.HasPrefix(got, "[0 -1 [0 9 8 ") {
		t.Error(got)
	}
	p := n.kept[2][3]
	p.holds.Store(true)
	c.conn.take()
	c.s.Data([]byte(take))
	n.ends(c, 2, 3, nil)
	c.until(p.owes)
	c.until(func() bool { return left() == 7 })
	other.do("CLIENT", "PAUSE", "10000", "WRITE")
	p.holds.Store(false)
	p.endWaits(errors.New("lost"))
	if got := c.receive(1)[0]; got != "-"+errUnknownOutcome {
		t.Error(got)
	}
	c.until(func() bool { return n.nodes[0].crossings.GivenBack.Load() == 2 })
	if left() != 8 {
		t.Errorf("%d are left", left())
	}
}
