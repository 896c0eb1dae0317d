package config

import (
	"strings"
	"testing"
)

// Directives of nodes, alone and together.
func TestNodes(t *testing.T) {
	tls := "--raft-tls-cert-file c --raft-tls-key-file k --raft-tls-ca-cert-file a"
	for line, want := range map[string]string{
		"--raft-addr 127.0.0.1:1":                                      "",
		"--raft-addr [::1]:1":                                          "",
		"--raft-addr 10.0.0.1:1 " + tls:                                "",
		"--raft-addr node-0.nodes:7380 " + tls:                         "",
		"--raft-addr 10.0.0.1:1":                                       "can be reached from other machines",
		"--raft-addr node:1":                                           "can be reached from other machines",
		"--raft-addr localhost:1":                                      "can be reached from other machines",
		"--raft-addr 0.0.0.0:1 " + tls:                                 "others can dial",
		"--raft-addr 10.0.0.1 " + tls:                                  "others can dial",
		"--raft-addr 10.0.0.1:0 " + tls:                                "others can dial",
		"--raft-addr 10.0.0.1:http " + tls:                             "others can dial",
		"--raft-addr :7380 " + tls:                                     "others can dial",
		"--raft-join h:1":                                              "raft-join needs raft-addr",
		tls:                                                            "raft-tls-cert-file needs raft-addr",
		"--raft-addr 127.0.0.1:1 --raft-join h":                        "others can dial",
		"--raft-addr 127.0.0.1:1 --raft-join h:1":                      "",
		"--raft-addr 127.0.0.1:1 --raft-id a@b":                        "a name of at most 63",
		"--raft-addr 127.0.0.1:1 --raft-id a.b":                        "a name of at most 63",
		"--raft-addr 127.0.0.1:1 --raft-id Node_1-a":                   "",
		"--raft-addr 127.0.0.1:1 --raft-id " + strings.Repeat("a", 64): "a name of at most 63",
		"--raft-groups 4":                                              "raft-groups needs raft-addr",
		"--raft-zone a":                                                "raft-zone needs raft-addr",
		"--raft-addr 127.0.0.1:1 --raft-groups 64 --raft-replicas 5 --raft-zone rack-1 --raft-weight 10000 --raft-moves 16": "",
		"--raft-addr 127.0.0.1:1 --raft-groups 3":                                                                      "a power of two",
		"--raft-addr 127.0.0.1:1 --raft-groups 0":                                                                      "between 1 and 64",
		"--raft-addr 127.0.0.1:1 --raft-groups 128":                                                                    "between 1 and 64",
		"--raft-addr 127.0.0.1:1 --raft-replicas 2":                                                                    "an odd number",
		"--raft-addr 127.0.0.1:1 --raft-replicas 7":                                                                    "between 1 and 5",
		"--raft-addr 127.0.0.1:1 --raft-zone a.b":                                                                      "a name of at most 63",
		"--raft-addr 127.0.0.1:1 --raft-weight 0":                                                                      "between 1 and",
		"--raft-addr 127.0.0.1:1 --raft-moves 0":                                                                       "between 1 and 16",
		"--raft-addr 127.0.0.1:1 --raft-tls-cert-file c --raft-tls-key-file k":                                         "raft-tls-ca-cert-file is missing",
		"--raft-addr 127.0.0.1:1 --raft-tls-ca-cert-file c":                                                            "raft-tls-cert-file is missing",
		"--raft-addr 127.0.0.1:1 --raft-lease-timeout 600":                                                             "raft-lease-timeout 600 must not be more than raft-heartbeat-timeout 500",
		"--raft-addr 127.0.0.1:1 --raft-heartbeat-timeout 600":                                                         "raft-heartbeat-timeout 600, nor that more than raft-election-timeout 500",
		"--raft-addr 127.0.0.1:1 --raft-heartbeat-timeout 300 --raft-election-timeout 300":                             "",
		"--raft-addr 127.0.0.1:1 --raft-heartbeat-timeout 20 --raft-election-timeout 20":                               "between 50",
		"--raft-addr 127.0.0.1:1 --raft-heartbeat-timeout 2000 --raft-election-timeout 2000 --raft-lease-timeout 2000": "",
	} {
		r, _ := New()
		err := r.Load(Sources{Args: strings.Fields(line)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// The timeouts that Raft can change while it runs, and those that it cannot.
func TestTimeoutsOfNodes(t *testing.T) {
	r, s := New()
	if err := r.Load(Sources{Args: []string{"--raft-addr", "127.0.0.1:1"}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, value, want string }{
		{"raft-heartbeat-timeout", "600", "nor that more than raft-election-timeout"},
		{"raft-election-timeout", "600", ""},
		{"raft-heartbeat-timeout", "600", ""},
		{"raft-heartbeat-timeout", "200", ""},
		{"raft-heartbeat-timeout", "600", ""},
		{"raft-lease-timeout", "100", "can't set immutable config"},
	} {
		err := r.Set(Pair{Name: c.name, Value: c.value})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v, want %q", c.name, c.value, err, c.want)
		}
	}
	if s.RaftHeartbeat.Get().Milliseconds() != 600 {
		t.Errorf("the heartbeat's timeout is %v", s.RaftHeartbeat.Get())
	}
}
