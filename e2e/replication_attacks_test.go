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

// A connection to the Raft port that is not from a node of the cluster is closed, logged now and then, and counted. The nodes continue to decide, with the same leader.
func TestAttacksOnTheRaftPort(t *testing.T) {
	t.Parallel()
	nodes := startClusterOf(t, 3, "60000") // so that nothing but an attack can change the leader
	at := leader(t, nodes)
	term, cluster := at.field(t, "raft_term"), at.field(t, "raft_cluster")
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	attacks := map[string][]byte{
		"nothing":                   nil,
		"random bytes":              noise,
		"HTTP":                      []byte("GET / HTTP/1.1\r\n\r\n"),
		"RESP":                      []byte("*1\r\n$4\r\nPING\r\n"),
		"a TLS hello":               []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
		"half a hello":              []byte("LDBR\x01"),
		"another wire":              []byte("LDBR\x09\x01\x02\x00{}"),
		"a hello of 64 kB":          append([]byte("LDBR\x01\x01\xff\xff"), bytes.Repeat([]byte("["), 65535)...),
		"another cluster":           helloOf(1, `{"From":"x@1","To":"n1","Cluster":"other","Reads":1,"Writes":1}`),
		"a newer format":            helloOf(1, `{"From":"x@1","To":"n1","Cluster":"`+cluster+`","Reads":99,"Writes":99}`),
		"an older format":           helloOf(1, `{"From":"x@1","To":"n1","Cluster":"`+cluster+`","Reads":0,"Writes":0}`),
		"a stranger":                helloOf(1, `{"From":"x@1","To":"n1","Cluster":"`+cluster+`","Reads":1,"Writes":1}`),
		"a stranger with commands":  append(helloOf(3, `{"From":"x@1","To":"n1","Cluster":"`+cluster+`","Reads":1,"Writes":1}`), noise...),
		"a member's lost directory": helloOf(1, `{"From":"n2@1","To":"n1","Cluster":"`+cluster+`","Reads":1,"Writes":1}`),
	}
	before := atoi(t, nodes[0].field(t, "raft_refused_connections"))
	for name, text := range attacks {
		c, err := net.Dial("tcp", nodes[0].raft)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(text)
		_ = c.(*net.TCPConn).CloseWrite()
		if answer, _ := io.ReadAll(c); len(answer) > 4<<10 {
			t.Errorf("%s: %d bytes come back", name, len(answer))
		}
		_ = c.Close()
	}
	eventually(t, "all are counted", func() bool {
		return atoi(t, nodes[0].field(t, "raft_refused_connections")) >= before+len(attacks)
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
