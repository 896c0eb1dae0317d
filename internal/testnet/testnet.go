// Package testnet has what tests of connections share.
package testnet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// FreeAddress returns a loopback address on which nobody listens. Where the system has all of 127.0.0.0/8, the IP
// address is random, because a port of 127.0.0.1 may be taken meanwhile, even by an outgoing connection.
func FreeAddress(t testing.TB) string {
	ln, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)))
	if err != nil {
		ln, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// Until waits until done returns true, and fails after two minutes. what says for what.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for range 12_000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it does not come: %s", what)
}
