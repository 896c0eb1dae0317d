package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
)

// field returns a field of INFO replication.
func (n *raftNode) field(t *testing.T, name string) string {
	t.Helper()
	_, rest, _ := strings.Cut(n.ask(t, "INFO", "replication"), "\r\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// helloOf returns the bytes with which a node begins a call to another one.
func helloOf(call byte, json string) []byte {
	b := append([]byte("LDBR\x01"), call)
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(json))), json...)
}

// raftAttack is what a stranger sends to the Raft port.
type raftAttack struct {
	text []byte
	want string // what the node answers, if anything
}

// attacked sends attacks to a node's Raft port, and checks what it answers, and that it counts them.
func attacked(t *testing.T, n *raftNode, attacks map[string]raftAttack) {
	t.Helper()
	before := atoi(t, n.field(t, "raft_refused_connections"))
	for name, attack := range attacks {
		c, err := net.Dial("tcp", n.raft)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(attack.text)
		_ = c.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(c)
		if len(answer) > 4<<10 {
			t.Errorf("%s: %d bytes come back", name, len(answer))
		}
		if attack.want == "" && len(answer) > 0 || !bytes.Contains(answer, []byte(attack.want)) {
			t.Errorf("%s: the answer is %q, want %q", name, answer, attack.want)
		}
		_ = c.Close()
	}
	eventually(t, "all are counted", func() bool {
		return atoi(t, n.field(t, "raft_refused_connections")) >= before+len(attacks)
	})
}

// noise is random bytes.
func noise() []byte {
	random, b := rand.New(rand.NewPCG(1, 2)), make([]byte, 4096)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// attacksOnGroups are for a node of a cluster of four groups.
func attacksOnGroups(cluster string) map[string]raftAttack {
	says := func(call byte, fields string) []byte {
		return helloOf(call, `{"From":"x@1","To":"n1","Group":2,"Cluster":"`+cluster+`","Reads":99,"Writes":1`+fields+`}`)
	}
	attacks := map[string]raftAttack{
		"random bytes":    {noise(), ""},
		"an older wire":   {append([]byte("LDBR\x00"), says(1, "")[5:]...), ""},
		"no text":         {helloOf(1, `{"Group":"2"}`), ""},
		"questions":       {says(4, `,"Group":0`), "x is not a member"},
		"questions to 2":  {says(4, ""), "go to group 0"},
		"another's mux":   {append(says(5, ""), noise()...), "x is not a member"},
		"another cluster": {says(1, `,"Cluster":"other"`), "node n1 is of another cluster"},
		"the only group":  {says(1, `,"Cluster":"other","Group":1`), "node n1 is of another cluster"},
	}
	for _, group := range []string{"5", "64", "-1", "2147483648"} {
		for call := range byte(5) {
			attacks[fmt.Sprint("group ", group, ", call ", call+1)] = raftAttack{says(call+1, `,"Group":`+group), "this node has no replica of group " + group}
		}
	}
	for group := range 5 {
		attacks[fmt.Sprint("a lost directory of group ", group)] = raftAttack{says(1, fmt.Sprintf(`,"From":"n2@1","Group":%d`, group)), "n2 is not a member"}
	}
	return attacks
}

// A connection to the Raft port that is not from a node of the cluster is closed, logged now and then, and counted. The nodes continue to decide, with the same leader.
func TestAttacksOnTheRaftPort(t *testing.T) {
	t.Parallel()
	nodes := startClusterOf(t, 3, "60000") // so that nothing but an attack can change the leader
	at := leader(t, nodes)
	term, cluster := at.field(t, "raft_term"), at.field(t, "raft_cluster")
	// says returns a hello that is right but for what is given.
	says := func(call byte, fields string) []byte {
		return helloOf(call, `{"From":"x@1","To":"n1","Group":1,"Cluster":"`+cluster+`","Reads":99,"Writes":1`+fields+`}`)
	}
	attacked(t, nodes[0], map[string]raftAttack{
		"nothing":                   {nil, ""},
		"random bytes":              {noise(), ""},
		"HTTP":                      {[]byte("GET / HTTP/1.1\r\n\r\n"), ""},
		"RESP":                      {[]byte("*1\r\n$4\r\nPING\r\n"), ""},
		"a TLS hello":               {[]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), ""},
		"half a hello":              {[]byte("LDBR\x01"), ""},
		"an older wire":             {append([]byte("LDBR\x00"), says(1, "")[5:]...), ""},
		"another wire":              {[]byte("LDBR\x09\x01\x02\x00{}"), ""},
		"a hello of 64 kB":          {append([]byte("LDBR\x01\x01\xff\xff"), bytes.Repeat([]byte("["), 65535)...), ""},
		"another cluster":           {says(1, `,"Cluster":"other"`), "node n1 is of another cluster"},
		"another group":             {says(1, `,"Group":2`), "this node has no replica of group 2"},
		"another group's entries":   {says(5, `,"Group":2`), "this node has no replica of group 2"},
		"another addressee":         {says(1, `,"To":"n9"`), "n9"},
		"a newer format":            {says(1, `,"Writes":99`), "and reads up to 1, this one 99 and 99"},
		"an older format":           {says(1, `,"Reads":0,"Writes":0`), "writes format 1 and reads up to 1, this one 0 and 0"},
		"a stranger":                {says(1, ""), "x is not a member"},
		"a stranger with commands":  {append(says(3, ""), noise()...), "x is not a member"},
		"a member's lost directory": {says(1, `,"From":"n2@1"`), "n2 is not a member"},
	})

	// Connections that say nothing.
	many := 1000
	if long() {
		many = 10_000
	}
	memory := at.RSS()
	var silent []net.Conn
	for range many {
		c, err := net.Dial("tcp", at.raft)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
	}
	for i := range 20 {
		via := nodes[i%3]
		if got := via.ask(t, "RL.TAKE", "key", "GCRA", "1/h", "BURST", "100"); !strings.HasPrefix(got, fmt.Sprintf("[0 100 %d ", 99-i)) {
			t.Errorf("request %d, through %s: %s", i, via.id, got)
		}
	}
	for _, c := range silent {
		_ = c.Close()
	}
	if grown := at.RSS() - memory; grown > 32<<20 {
		t.Errorf("%d connections take %d bytes", many, grown)
	}
	if now := at.field(t, "raft_term"); now != term || leader(t, nodes) != at {
		t.Errorf("term %s, then %s", term, now)
	}
	for _, n := range nodes {
		if lines := strings.Count(n.Log(), "a connection on the Raft port is closed"); lines > 200 {
			t.Errorf("%s logs %d lines", n.id, lines)
		}
	}
}
