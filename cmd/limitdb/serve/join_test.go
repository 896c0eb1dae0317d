package serve

import (
	"bufio"
	"errors"
	"net"
	"testing"
)

// Another node may have the same port at another address of the machine.
func TestNodeKnowsItself(t *testing.T) {
	at := func(address string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range []struct {
		here, there string
		own         []string
		want        bool
	}{
		{"127.0.0.1:40000", "127.0.0.1:6379", []string{"127.0.0.1:6379"}, true},
		{"127.0.0.1:40000", "127.0.0.1:6379", []string{"127.0.0.2:6379"}, false},
		{"127.0.0.1:40000", "127.0.0.1:6379", []string{"127.0.0.2:6379", "0.0.0.0:6379"}, true},
		{"[::1]:40000", "[::1]:6379", []string{"[::]:6379"}, true},
		{"127.0.0.1:40000", "127.0.0.1:6380", []string{"[::]:6379"}, false},
		{"10.0.0.1:40000", "10.0.0.2:6379", []string{"0.0.0.0:6379"}, false},
	} {
		own := []net.Addr{&net.UnixAddr{Name: "a socket"}}
		for _, a := range c.own {
			own = append(own, at(a))
		}
		if got := isSelf(at(c.here), at(c.there), own); got != c.want {
			t.Errorf("from %s to %s, where the process listens on %s: %v", c.here, c.there, c.own, got)
		}
	}
}

// Whoever gives the Raft port to raft-join learns that, and learns it once.
func TestJoinAtTheRaftPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	said := map[string]bool{}
	for range 5 {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = ask(conn, bufio.NewReader(conn), "RAFT", "INFO")
		conn.Close()
		if !errors.Is(err, errNotNow) || !errors.Is(err, errClosed) {
			t.Fatalf("%v", err)
		}
		said[err.Error()] = true
	}
	if len(said) != 1 {
		t.Errorf("it says %v", said)
	}
}
