package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"limitdb/resp"
)

// one sends a command and returns its reply.
func one(t *testing.T, addr string, words ...string) resp.Value {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(deadline))
	if _, err := c.Write(resp.AppendCommand(nil, words...)); err != nil {
		t.Fatal(err)
	}
	v, err := resp.ReadReply(bufio.NewReader(c), 64<<20)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return v
}

// hasLoaded reports whether a server has loaded its state.
func hasLoaded(p *proc) bool {
	return pong(p.Addr) == "+PONG\r\n"
}

// startIn starts a server in a directory that may have been used, and waits until it has loaded the state
// there.
func startIn(t *testing.T, dir string, args ...string) *proc {
	t.Helper()
	o := options{bin: plainBinary(t), ready: hasLoaded}
	for range 3 {
		if p := launch(t, o, dir, args); p != nil {
			t.Cleanup(p.Stop)
			return p
		}
	}
	t.Fatal("no port stayed free")
	return nil
}

// rounds returns how many rounds to run: short, or all in the longer mode.
func rounds(short, all int) int {
	if long() {
		return all
	}
	return short
}

// check runs limitdb check, which must find no problems.
func check(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command(plainBinary(t), "check", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("limitdb check: %v\n%s", err, out)
	}
	return string(out)
}

// A stop by signal loses nothing, at any policy, and counts as a clean end.
func TestStopsUnderLoad(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	k := &taker{key: "k"}
	for round := range rounds(4, 50) {
		policy := []string{"always", "everysec", "no"}[round%3]
		p := startIn(t, dir, "--appendonly", "yes", "--appendfsync", policy)
		if had, acked := k.used(t, p.Addr), k.acked(time.Now()); had < acked {
			t.Fatalf("%d grants, and %d are known", acked, had)
		} else {
			had = k.renew(had)
			k.acks = append(k.acks, ack{time.Now(), had})
		}
		if round > 0 && !strings.Contains(p.Log(), "clean=true") {
			t.Errorf("the end was not clean: %s", p.Log())
		}
		var client sync.WaitGroup
		client.Go(func() {
			if err := k.run(p.Addr, 20); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(150 * time.Millisecond) // the load, not a wait
		p.Stop()
		client.Wait()
		if out := check(t, dir); !strings.Contains(out, "after a clean stop") {
			t.Errorf("%s", out)
		}
	}
}

// The sync comes before the reply, as the kernel sees it.
func TestSyncPrecedesTheReply(t *testing.T) {
	t.Parallel()
	strace := need(t, "strace")
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	p := startWith(t, options{ready: hasLoaded, wrap: []string{strace, "-D", "-f", "-o", trace, "-s", "100", "-e", "trace=fdatasync,write,pwrite64,sendto,sendmsg,writev"}},
		"--appendonly", "yes", "--appendfsync", "always", "--dir", filepath.Join(dir, "data"))
	if v := one(t, p.Addr, "CL.THROTTLE", "traced", "999999", "1", "900"); v.Err() != nil {
		t.Fatal(v.Err())
	}
	p.Stop()
	var out []byte
	for end := time.Now().Add(deadline); !bytes.Contains(out, []byte("+++ exited with 0 +++")); time.Sleep(10 * time.Millisecond) {
		var err error
		if out, err = os.ReadFile(trace); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatal("strace does not end")
		}
	}
	written, syncing, synced, replied := -1, -1, -1, -1
	for i, line := range strings.Split(string(out), "\n") {
		switch {
		case strings.Contains(line, `"LDBB`) && strings.Contains(line, "traced"):
			written = i
		case written >= 0 && syncing < 0 && strings.Contains(line, "fdatasync("):
			syncing = i
			if strings.Contains(line, "= 0") {
				synced = i
			}
		case syncing >= 0 && synced < 0 && strings.Contains(line, "fdatasync resumed"):
			synced = i
		case replied < 0 && strings.Contains(line, `*5\r\n:0\r\n:1000000\r\n`):
			replied = i
		}
	}
	if !(0 <= written && written < syncing && syncing <= synced && synced < replied) {
		t.Errorf("the record is written in line %d of the trace, the sync begins in %d and ends in %d, the reply leaves in %d", written, syncing, synced, replied)
	}
}

// After a restart a level is the same, plus what has come back meanwhile. Redis with redis-cell gets this
// wrong: it runs the commands again at the time of the restart.
func TestLevelAfterRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := startIn(t, dir, "--appendonly", "yes")
	var left int64
	var last time.Time // before the last decision
	for range 40 {     // 5 a second with a burst of 50
		last = time.Now()
		left = one(t, p.Addr, "CL.THROTTLE", "k", "49", "5", "1").Elems[2].Int
		time.Sleep(50 * time.Millisecond) // a client's pace
	}
	if got := one(t, p.Addr, "WAITAOF", "1", "0", "0"); got.Err() != nil || got.Elems[0].Int != 1 {
		t.Fatalf("WAITAOF: %+v", got)
	}
	p.Kill()
	p = startIn(t, dir, "--appendonly", "yes")
	now := one(t, p.Addr, "CL.THROTTLE", "k", "49", "5", "1", "0").Elems[2].Int
	back := int64(time.Since(last)/(200*time.Millisecond)) + 1
	if now < left || now > left+back {
		t.Errorf("%d were left, and %d are after a restart; at most %d came back", left, now, back)
	}
}

// Only one process may use a data directory. A damaged directory ends the start with exit status 65.
func TestDataThatNeedsItsOwner(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := startIn(t, dir, "--appendonly", "yes")
	run := func() (string, int) {
		cmd := exec.Command(plainBinary(t), "--port", freePort(t), "--http-port", "0", "--dir", dir, "--appendonly", "yes")
		cmd.Env = cleanEnviron()
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("it started: %v\n%s", err, out)
		}
		return string(out), exit.ExitCode()
	}
	if out, code := run(); code != 1 || !strings.Contains(out, "another server uses the data directory") {
		t.Errorf("a second process: %d\n%s", code, out)
	}
	for i := range 100 {
		one(t, p.Addr, "CL.THROTTLE", "key"+strconv.Itoa(i), "9", "1", "1000")
	}
	backup := one(t, p.Addr, "BACKUP", "monday").Text
	p.Stop()
	log := filepath.Join(dir, "log-00000001")
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.Remove(log); err != nil { // the backup has a link to the same file
		t.Fatal(err)
	}
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := run(); code != 65 || !strings.Contains(out, log+" is corrupt at offset ") {
		t.Errorf("a damaged log: %d\n%s", code, out)
	}
	if err := exec.Command(plainBinary(t), "check", dir).Run(); err == nil {
		t.Error("limitdb check finds nothing")
	}
	p = startIn(t, backup, "--appendonly", "yes")
	if n := one(t, p.Addr, "DBSIZE").Int; n != 100 {
		t.Errorf("the backup has %d keys of 100", n)
	}
}

// Snapshots only: at save points, after a kill and at the stop.
func TestSnapshotsOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := startIn(t, dir, "--appendonly", "no", "--save", "1 9")
	for i := range 4 {
		one(t, p.Addr, "SET", "string"+strconv.Itoa(i), "x") // changes, though no decisions
		one(t, p.Addr, "CL.THROTTLE", "key"+strconv.Itoa(i), "9", "1", "1000")
	}
	one(t, p.Addr, "RL.LEASE", "jobs", "1", "1h", "ID", "worker")
	for end := time.Now().Add(deadline); !strings.Contains(one(t, p.Addr, "INFO", "persistence").Text, "rdb_saves:1\r\n"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no snapshot was made")
		}
	}
	p.Kill()
	p = startIn(t, dir, "--appendonly", "no", "--save", "1 9")
	if n := one(t, p.Addr, "DBSIZE").Int; n != 9 {
		t.Errorf("%d keys of 9 after a kill", n)
	}
	one(t, p.Addr, "CL.THROTTLE", "another", "9", "1", "1000")
	p.Stop()
	p = startIn(t, dir, "--appendonly", "no", "--save", "1 9")
	if n := one(t, p.Addr, "DBSIZE").Int; n != 10 {
		t.Errorf("%d keys of 10 after a stop", n)
	}
}

// With recovery-mode conservative, nothing is granted after an unclean stop that may have been granted before
// it, not even after a further clean restart.
func TestConservativeRecovery(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"--appendonly", "yes", "--recovery-mode", "conservative"}
	p := startIn(t, dir, args...)
	take := func(key string) int64 { return one(t, p.Addr, "CL.THROTTLE", key, "9", "1", "1000").Elems[0].Int }
	if take("old") != 0 {
		t.Fatal("a fresh server denies")
	}
	p.Stop()
	p = startIn(t, dir, args...)
	if take("old") != 0 || take("new") != 0 {
		t.Error("after a clean stop it denies")
	}
	p.Kill()
	for range 2 {
		p = startIn(t, dir, args...)
		if take("old") != 1 || take("new") != 1 || take("never seen") != 1 {
			t.Error("after a kill it grants")
		}
		p.Stop()
	}
}

// When the disk is full, the server refuses writers, still answers reads, and recovers by itself when there
// is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		lacking(t, "mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	p := startIn(t, filepath.Join(dir, "data"), "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
	t.Cleanup(p.Stop) // before the unmount
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 7<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	state := func(i int) string {
		v := one(t, p.Addr, "CL.THROTTLE", fmt.Sprintf("key:%d:%s", i, strings.Repeat("x", 3500)), "9", "1", "1000")
		if v.Kind == '-' {
			return strings.Fields(v.Text)[0]
		}
		return "OK"
	}
	n := 0
	for end := time.Now().Add(deadline); state(n) == "OK"; n++ {
		if time.Now().After(end) {
			t.Fatal("the disk never fills")
		}
	}
	if got := state(n); got != "MISCONF" {
		t.Fatalf("on a full disk: %s", got)
	}
	if got, alive := get("http://"+p.HTTPAddr+"/readyz"), get("http://"+p.HTTPAddr+"/livez"); got != "" || alive == "" {
		t.Errorf("on a full disk, /readyz answers 200 with %q, and /livez with %q", got, alive)
	}
	if v := one(t, p.Addr, "RL.PEEK", "key", "GCRA", "1/s"); v.Err() != nil {
		t.Errorf("who only asks gets %v", v.Err())
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(deadline); state(n) != "OK"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("there is room, and it still refuses\n%s", p.Log())
		}
	}
	if get("http://"+p.HTTPAddr+"/readyz") == "" {
		t.Error("there is room, and /readyz does not answer with 200")
	}
	keys := one(t, p.Addr, "DBSIZE").Int
	p.Stop()
	p = startIn(t, filepath.Join(dir, "data"), "--appendonly", "yes")
	if got := one(t, p.Addr, "DBSIZE").Int; got != keys {
		t.Errorf("%d keys, want %d", got, keys)
	}
	p.Stop()
}
