package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestCutAddress(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--port 7000", "--port 7000"},
		{"-a 10.0.0.7:6379", "--bind 10.0.0.7 --port 6379"},
		{"file --addr [::1]:7 --tls-port 0", "file --tls-port 0 --bind ::1 --port 7"},
		{"-a :7000", "--port 7000"},
		{"-a /run/s.sock", "--port 0 --unixsocket /run/s.sock"},
		{"-a", ""},
		{"-a secret", ""},
		{"-a host:port", ""},
	} {
		got, err := CutAddress(strings.Fields(tt.args))
		if tt.want == "" {
			if err == nil || !strings.HasPrefix(err.Error(), "-a takes the server's host:port") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %q, %v", tt.args, got, err)
			}
		} else if err != nil || !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%s: %q, %v", tt.args, got, err)
		}
	}
}
