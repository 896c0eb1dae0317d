package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"limitdb/config"
)

// complete returns what a shell offers in place of the last word of a command line, and what it then does itself.
func complete(t *testing.T, words ...string) (offers []string, directive string) {
	t.Helper()
	root := completing()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(append([]string{"__complete"}, words...))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(word, ":") {
			directive = word
		} else {
			offers = append(offers, word)
		}
	}
	return offers, directive
}

func TestCompletion(t *testing.T) {
	const files, nothing = ":0", ":4"
	for _, tt := range []struct{ line, want, then string }{
		{"che", "check", files},
		{"rules ", "check explain import test", nothing},
		{"/etc/", "", files},
		{"--maxmemory-p", "--maxmemory-policy", nothing},
		{"--appendfsync ", "always everysec no", nothing},
		{"--appendonly ", "yes no", nothing},
		{"--appendonly=", "yes no", nothing},
		{"--port ", "", nothing},
		{"--tls-cert-file ", "", files},
		{"/etc/limitdb/limitdb.conf --appendonly ", "yes no", nothing},
		{"--check", "--check-config", nothing},
		{"ping --rea", "--ready", nothing},
		{"ping --ready --unixsocketp", "--unixsocketperm", nothing},
		{"top --on", "--once", nothing},
		{"backup --t", "--tcp-backlog --tcp-keepalive --timeout --tls-auth-clients --tls-auth-clients-user --tls-ca-cert-file --tls-cert-file --tls-key-file --tls-port --to", nothing},
		{"check --re", "--repair", nothing},
		{"check --repair ", "", files},
		{"check ", "", files},
	} {
		got, then := complete(t, strings.Split(tt.line, " ")...)
		slices.Sort(got)
		want := strings.Fields(tt.want)
		slices.Sort(want)
		if !slices.Equal(got, want) || then != tt.then {
			t.Errorf("limitdb %s offers %q, then %s; want %q, then %s", tt.line, got, then, want, tt.then)
		}
	}
}

// Every directive completes, for the server and for the commands that read its configuration.
func TestCompletionOfDirectives(t *testing.T) {
	registry, _ := config.New()
	for _, before := range [][]string{nil, {"ping"}, {"top"}, {"backup"}, {"cluster", "status"}, {"cluster", "drain"}} {
		got, _ := complete(t, append(before, "--")...)
		for _, e := range registry.Reference() {
			if !slices.Contains(got, "--"+e.Name) {
				t.Errorf("limitdb %s does not complete --%s", strings.Join(before, " "), e.Name)
			}
		}
	}
}
