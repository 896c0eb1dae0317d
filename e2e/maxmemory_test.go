package e2e

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestStatesThatGrowStayInBounds has 300 keys of each kind whose states grow take
// until maxmemory is used up, with the log on. It counts the resident memory of the
// process at its peak, without what the process has when it is idle: some 20 MB,
// nearly all of it pages of the binary. The rest may exceed maxmemory by a tenth and
// 16 MB.
func TestStatesThatGrowStayInBounds(t *testing.T) {
	const maxMemory, keys = 8 << 20, 300
	for name, tt := range map[string]struct {
		rounds int
		call   func(key, round int) string
	}{
		"LOG": {6000, func(key, _ int) string { return fmt.Sprintf("RL.TAKE k%d LOG 65536/1h\r\n", key) }},
		"SEGMENTED": {1500, func(key, _ int) string {
			return fmt.Sprintf("RL.TAKE k%d SEGMENTED 1000000/60s SEGMENTS 1024\r\n", key)
		}},
		"leases": {1000, func(key, round int) string {
			return fmt.Sprintf("RL.LEASE k%d 8192 1h ID holder-number-%d\r\n", key, round)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, "--maxmemory", strconv.Itoa(maxMemory))
			idle := p.RSS()
			c := dial(t, p.Addr)
			// Only a few rounds are underway at a time, because unread replies are not to be measured.
			answered, underway := make(chan error, 1), make(chan struct{}, 1)
			go func() {
				replies := 0
				lines := bufio.NewScanner(c.Conn)
				for lines.Scan() {
					if kind := lines.Bytes()[0]; kind != '*' && kind != '-' {
						continue
					}
					if replies++; replies%keys == 0 {
						<-underway
					}
				}
				answered <- lines.Err()
			}()
			for round := range tt.rounds {
				var batch strings.Builder
				for key := range keys {
					batch.WriteString(tt.call(key, round))
				}
				underway <- struct{}{}
				c.send(batch.String())
			}
			c.send("QUIT\r\n")
			if err := <-answered; err != nil {
				t.Fatal(err)
			}
			info := dial(t, p.Addr).do("INFO", "memory", "persistence")
			for _, want := range []string{"maxmemory:8388608", "aof_enabled:1"} {
				if !strings.Contains(info, want) {
					t.Fatalf("no %s in %q", want, info)
				}
			}
			most := idle + maxMemory*11/10 + 16<<20
			t.Logf("%.1f MB idle, %.1f MB now, %.1f MB at most; the bar is %.1f MB", mb(idle), mb(p.RSS()), mb(p.PeakRSS()), mb(most))
			if p.PeakRSS() > most {
				t.Errorf("%.1f MB, more than %.1f MB", mb(p.PeakRSS()), mb(most))
			}
		})
	}
}

func mb(bytes int64) float64 { return float64(bytes) / (1 << 20) }
