package serve

import (
	"testing"

	"limitdb/config"
	"limitdb/replication/peers"
)

// What nodes compare says nothing of the password to peers that have not proved who they are.
func TestAgree(t *testing.T) {
	of := func(secure bool, args ...string) map[string]string {
		t.Helper()
		registry, set := config.New()
		if err := registry.Load(config.Sources{Args: args}); err != nil {
			t.Fatal(err)
		}
		m := &member{p: &process{registry: registry, set: set}}
		if secure {
			m.certs = &peers.Certificates{}
		}
		return m.agree()
	}
	if got := of(true)["requirepass"]; got != "none" {
		t.Errorf("without a password: %q", got)
	}
	if a, b := of(false, "--requirepass", "a"), of(false, "--requirepass", "b"); a["requirepass"] != "set" || b["requirepass"] != "set" {
		t.Errorf("without certificates: %v, %v", a, b)
	}
	a, b, again := of(true, "--requirepass", "a"), of(true, "--requirepass", "b"), of(true, "--requirepass", "a")
	if a["requirepass"] == b["requirepass"] || a["requirepass"] != again["requirepass"] || len(a["requirepass"]) != 16 {
		t.Errorf("with certificates: %v, %v, %v", a, b, again)
	}
	if of(false, "--maxmemory", "1mb")["maxmemory"] != "1048576" {
		t.Error("maxmemory is not compared")
	}
}
