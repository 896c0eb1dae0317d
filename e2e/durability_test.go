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

// taking is a key from which one client takes as fast as it can. Hardly anything comes back, so what is left
// shows exactly how many requests were granted.
const (
	takeBurst = 1_000_000
	takeLine  = "CL.THROTTLE %s 999999 1 900\r\n"
)

// taker is a client that takes in pipelines, and the replies it got.
type taker struct {
	key  string
	acks []ack
}

// ack is a number of granted requests and the time when it was known.
type ack struct {
	at time.Time
	n  int
}

// run takes until the connection ends.
func (k *taker) run(addr string, pipeline int) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	batch := bytes.Repeat(fmt.Appendf(nil, takeLine, k.key), pipeline)
	granted := 0
	if len(k.acks) > 0 {
		granted = k.acks[len(k.acks)-1].n
	}
	for {
		if _, err := c.Write(batch); err != nil {
			return nil
		}
		for range pipeline {
			v, err := resp.ReadReply(r, 1<<20)
			if err != nil {
				return nil
			}
			if v.Err() != nil || len(v.Elems) != 5 || v.Elems[0].Int != 0 {
				return fmt.Errorf("%s: %+v", k.key, v)
			}
			granted++
		}
		k.acks = append(k.acks, ack{time.Now(), granted})
	}
}

// renew takes from another key before this one, of which had are taken, is used up in the middle of a round.
func (k *taker) renew(had int) int {
	if had < takeBurst/2 {
		return had
	}
	k.key += "+"
	k.acks = nil
	return 0
}

// acked returns how many grants were known at a time.
func (k *taker) acked(at time.Time) int {
	n := 0
	for _, a := range k.acks {
		if a.at.After(at) {
			break
		}
		n = a.n
	}
	return n
}

// one sends a command and returns its reply.
func one(t *testing.T, addr string, words ...string) resp.Value {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(deadline))
	b := resp.AppendArray(nil, len(words))
	for _, w := range words {
		b = resp.AppendBulkString(b, w)
	}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	v, err := resp.ReadReply(bufio.NewReader(c), 64<<20)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return v
}

// used returns how often a key was granted, as the server sees it.
func used(t *testing.T, addr, key string) int {
	t.Helper()
	v := one(t, addr, "CL.THROTTLE", key, "999999", "1", "900", "0")
	if v.Err() != nil || len(v.Elems) != 5 {
		t.Fatalf("%+v", v)
	}
	return takeBurst - int(v.Elems[2].Int)
}

// hasLoaded reports whether a server has loaded its state.
func hasLoaded(p *proc) bool {
	c, err := net.DialTimeout("tcp", p.Addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(deadline))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, _ := bufio.NewReader(c).ReadString('\n')
	return line == "+PONG\r\n"
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

// After kills under load, at every policy and while snapshots rotate, rename and unlink, everything
// acknowledged is there. Only the last 50 ms may be missing if the policy does not promise more.
func TestKillsUnderLoad(t *testing.T) {
	if !long() { // in the longer mode the test runs alone, and the promise can be checked
		t.Parallel()
	}
	for _, policy := range []string{"always", "everysec", "no"} {
		t.Run(policy, func(t *testing.T) {
			if !long() {
				t.Parallel()
			}
			dir := filepath.Join(t.TempDir(), "data")
			args := []string{"--appendonly", "yes", "--appendfsync", policy, "--auto-aof-rewrite-min-size", "100kb"}
			takers := make([]*taker, 50)
			for i := range takers {
				takers[i] = &taker{key: "k" + strconv.Itoa(i)}
			}
			lost, worst := 0, time.Duration(0)
			for round := range rounds(4, 100) {
				p := startIn(t, dir, args...)
				for _, k := range takers {
					had := k.renew(used(t, p.Addr, k.key))
					k.acks = append(k.acks, ack{time.Now(), had}) // it continues from what was kept
				}
				var clients sync.WaitGroup
				for i, k := range takers {
					clients.Go(func() {
						if err := k.run(p.Addr, 1+i); err != nil {
							t.Error(err)
						}
					})
				}
				time.Sleep(time.Duration(200+round*37%200) * time.Millisecond) // the load, not a wait
				killed := time.Now()
				p.Kill()
				clients.Wait()
				p = startIn(t, dir, args...)
				for _, k := range takers {
					had, acked := used(t, p.Addr, k.key), k.acked(time.Now())
					if had >= acked {
						continue
					}
					lost += acked - had
					for ago := time.Duration(0); k.acked(killed.Add(-ago)) > had; ago += time.Millisecond {
						worst = max(worst, ago)
					}
					if policy == "always" {
						t.Fatalf("%s was granted %d times, and %d are known", k.key, acked, had)
					}
				}
				p.Stop()
				check(t, dir)
			}
			t.Logf("%d grants lost, of the last %v", lost, worst)
			// Beside other tests the writer may wait for a processor, so only the longer mode,
			// which is for a quiet machine, holds the server to its promise.
			if long() && worst > 50*time.Millisecond {
				t.Errorf("grants of the last %v are lost", worst)
			}
		})
	}
}

// pairTaker is a client that takes from two keys in one step, always the same amount from both.
type pairTaker struct {
	keys   [2]string
	limits [2]string
	values string // "": takes from limits; else how it counts in a string and in a list: MULTI or EVAL
	acks   []ack
}

// step returns the commands of one step, and how many replies they have.
func (k *pairTaker) step() (commands string, replies int) {
	switch k.values {
	case "MULTI":
		return fmt.Sprintf("MULTI\r\nINCR %s\r\nRPUSH %s x\r\nEXEC\r\n", k.keys[0], k.keys[1]), 4
	case "EVAL":
		return fmt.Sprintf("EVAL \"redis.call('INCR', KEYS[1]) return redis.call('RPUSH', KEYS[2], 'x')\" 2 %s %s\r\n", k.keys[0], k.keys[1]), 1
	}
	return fmt.Sprintf("RL.TAKEALL 2 %s %s %s %s\r\n", k.keys[0], k.keys[1], k.limits[0], k.limits[1]), 1
}

// run takes until the connection ends.
func (k *pairTaker) run(addr string, pipeline int) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	commands, replies := k.step()
	batch := bytes.Repeat([]byte(commands), pipeline)
	granted := k.acks[len(k.acks)-1].n
	for {
		if _, err := c.Write(batch); err != nil {
			return nil
		}
		for i := range pipeline * replies {
			v, err := resp.ReadReply(r, 1<<20)
			if err != nil {
				return nil
			}
			if v.Err() != nil {
				return fmt.Errorf("%s: %w", k.keys[0], v.Err())
			}
			if (i+1)%replies == 0 {
				granted++
			}
		}
		k.acks = append(k.acks, ack{time.Now(), granted})
	}
}

// taken returns how much was taken from each of the two keys, as the server sees it.
func (k *pairTaker) taken(t *testing.T, addr string) (n [2]int) {
	t.Helper()
	if k.values != "" {
		n[0], _ = strconv.Atoi(one(t, addr, "GET", k.keys[0]).Text)
		return [2]int{n[0], int(one(t, addr, "LLEN", k.keys[1]).Int)}
	}
	for i, key := range k.keys {
		v := one(t, addr, append([]string{"RL.PEEK", key}, strings.Fields(k.limits[i])...)...)
		if v.Err() != nil || len(v.Elems) < 3 {
			t.Fatalf("%+v", v)
		}
		n[i] = pairMost - int(v.Elems[2].Int)
	}
	return n
}

// pairMost is how much can be taken from each key of a pair; hardly anything comes back.
const pairMost = 60_000

// Kills under load while the log is rewritten without a pause: what one command, transaction
// or script took from two keys is taken from both or from neither, whether their states are short, long, or one of each.
func TestKillsTearNoPair(t *testing.T) {
	if !long() {
		t.Parallel()
	}
	for _, policy := range []string{"always", "everysec", "no"} {
		t.Run(policy, func(t *testing.T) {
			if !long() {
				t.Parallel()
			}
			dir := filepath.Join(t.TempDir(), "data")
			args := []string{"--appendonly", "yes", "--appendfsync", policy}
			lost, worst, pairs, made := 0, time.Duration(0), 0, 0
			for round := range rounds(3, 30) {
				p := startIn(t, dir, args...)
				takers := make([]*pairTaker, 20)
				for i := range takers {
					kinds := [2]string{"GCRA 1/h BURST 60000", "LOG 60000/h"} // short and long
					takers[i] = &pairTaker{
						keys:   [2]string{fmt.Sprintf("a:%d:%d", round, i), fmt.Sprintf("b:%d:%d", round, i)},
						limits: [2]string{kinds[i%2], kinds[i/2%2]}, acks: []ack{{time.Now(), 0}},
						values: [...]string{"", "", "", "MULTI", "EVAL"}[i/4],
					}
				}
				var clients sync.WaitGroup
				for i, k := range takers {
					clients.Go(func() {
						if err := k.run(p.Addr, 1+i); err != nil {
							t.Error(err)
						}
					})
				}
				stop := make(chan struct{})
				clients.Go(func() { made += rewrite(p.Addr, stop) })
				time.Sleep(time.Duration(200+round*37%200) * time.Millisecond) // the load, not a wait
				killed := time.Now()
				p.Kill()
				close(stop)
				clients.Wait()
				p = startIn(t, dir, args...)
				for _, k := range takers {
					n := k.taken(t, p.Addr)
					if n[0] != n[1] {
						t.Fatalf("round %d: %d were taken from %s and %d from %s", round, n[0], k.keys[0], n[1], k.keys[1])
					}
					pairs++
					acked := k.acks[len(k.acks)-1].n
					if n[0] >= acked {
						continue
					}
					lost += acked - n[0]
					at := k.acks[0].at
					for _, a := range k.acks {
						if a.n > n[0] {
							at = a.at // the first that is lost
							break
						}
					}
					worst = max(worst, killed.Sub(at))
				}
				p.Stop()
				check(t, dir)
			}
			t.Logf("%d pairs whole, %d rewrites asked for, %d grants lost, of the last %v", pairs, made, lost, worst)
			if policy == "always" && lost > 0 {
				t.Errorf("%d acknowledged grants are lost", lost)
			}
			if long() && worst > 50*time.Millisecond {
				t.Errorf("grants of the last %v are lost", worst)
			}
		})
	}
}

// rewrite has the log rewritten again and again until the connection ends or stop is closed, and returns how
// often.
func rewrite(addr string, stop <-chan struct{}) (n int) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		select {
		case <-stop:
			return n
		default:
		}
		if _, err := c.Write([]byte("BGREWRITEAOF\r\n")); err != nil {
			return n
		}
		v, err := resp.ReadReply(r, 1<<20)
		if err != nil {
			return n
		}
		if v.Err() == nil {
			n++
		}
		time.Sleep(5 * time.Millisecond) // a client's pace
	}
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
		if had, acked := used(t, p.Addr, k.key), k.acked(time.Now()); had < acked {
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
	for range 40 { // 5 a second with a burst of 50
		left = one(t, p.Addr, "CL.THROTTLE", "k", "49", "5", "1").Elems[2].Int
		time.Sleep(50 * time.Millisecond) // a client's pace
	}
	last := time.Now()
	time.Sleep(100 * time.Millisecond) // more than everysec leaves unwritten
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
	p := startIn(t, dir, "--appendonly", "no", "--save", "1 5")
	for i := range 10 {
		one(t, p.Addr, "CL.THROTTLE", "key"+strconv.Itoa(i), "9", "1", "1000")
	}
	for end := time.Now().Add(deadline); !strings.Contains(one(t, p.Addr, "INFO", "persistence").Text, "rdb_saves:1\r\n"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no snapshot was made")
		}
	}
	p.Kill()
	p = startIn(t, dir, "--appendonly", "no", "--save", "1 5")
	if n := one(t, p.Addr, "DBSIZE").Int; n != 10 {
		t.Errorf("%d keys of 10 after a kill", n)
	}
	one(t, p.Addr, "CL.THROTTLE", "another", "9", "1", "1000")
	p.Stop()
	p = startIn(t, dir, "--appendonly", "no", "--save", "1 5")
	if n := one(t, p.Addr, "DBSIZE").Int; n != 11 {
		t.Errorf("%d keys of 11 after a stop", n)
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
	keys := one(t, p.Addr, "DBSIZE").Int
	p.Stop()
	p = startIn(t, filepath.Join(dir, "data"), "--appendonly", "yes")
	if got := one(t, p.Addr, "DBSIZE").Int; got != keys {
		t.Errorf("%d keys, want %d", got, keys)
	}
	p.Stop()
}
