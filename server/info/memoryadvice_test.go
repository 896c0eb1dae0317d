package info

import (
	"strings"
	"testing"
)

func TestMemoryAdvice(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, step := range []struct {
		name                string
		f                   Memory
		maxKeys, maxClients int64
		want                []string
	}{
		{"idle", Memory{Resident: 12 * mb}, 0, 256 * mb, []string{"Nothing to worry about: memory for 0 keys 0B, "}},
		{"one key", Memory{Keys: 1, Table: mb}, 0, 0, []string{"memory for 1 key 1.00M, "}},
		{"few idle", Memory{Active: 1, Idle: 64 * mb}, 0, 0, []string{"Nothing to worry about"}},
		{"no limits", Memory{Table: 100 * mb, Active: 110 * mb, Resident: 120 * mb, Clients: 90 * mb}, 0, 0, []string{"Nothing to worry about"}},
		{"90 %", Memory{Table: 90 * mb}, 100 * mb, 0, []string{"Nothing to worry about"}},
		{"over 90 %", Memory{Table: 91 * mb}, 100 * mb, 0, []string{"- The keys take 91.00M of the 100.00M that maxmemory allows."}},
		{"clients", Memory{Clients: 129 * mb}, 0, 256 * mb, []string{"- The clients' buffers hold 129.00M of the 256.00M"}},
		{"idle pages", Memory{Active: 100 * mb, Idle: 101 * mb, Resident: 300 * mb}, 0, 0, []string{"MEMORY PURGE does it now"}},
		{"all", Memory{Table: 95 * mb, Active: 100 * mb, Idle: 200 * mb, Resident: 300 * mb, Clients: 99}, 100 * mb, 100, []string{"- The keys", "\n- The clients'", "\n- The process"}},
	} {
		got := step.f.Advice(step.maxKeys, step.maxClients)
		for _, w := range step.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in %q", step.name, w, got)
			}
		}
	}
}
