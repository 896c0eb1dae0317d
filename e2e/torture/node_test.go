package torture

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"limitdb/resp"
)

const (
	// replicas is how many nodes keep each group.
	replicas = 3
	// maxNodes is the most nodes of a cluster, with the one that comes and goes.
	maxNodes = 5
	firstUID = 70001
	diskSize = 512 << 20
)

// node is a process of the cluster, through all its runs. It has a user and a disk of its own.
type node struct {
	number     int
	id         string
	groups     int // of keys, in the cluster
	dir        string
	addr, raft string
	log        string // a file

	mu      sync.Mutex
	cmd     *exec.Cmd     // nil while it is down
	ended   chan struct{} // of cmd
	killed  bool          // the test has ended cmd itself
	filled  bool          // its disk is full
	full    bool          // its disk is, or was while cmd ran
	stopped bool          // by SIGSTOP
}

func newNode(t *testing.T, base string, number, groups int) *node {
	n := &node{
		number: number, groups: groups, id: fmt.Sprint("n", number), dir: filepath.Join(base, fmt.Sprint("n", number)),
		addr: fmt.Sprint("127.0.0.1:", 6100+number), raft: fmt.Sprint("127.0.0.1:", 7100+number),
		log: filepath.Join(base, fmt.Sprintf("n%d.log", number)),
	}
	// The log is there although the node may never run.
	if err := errors.Join(os.Mkdir(n.dir, 0o755), os.WriteFile(n.log, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	n.mount(t)
	n.setClock(t, 0, 0)
	return n
}

// mount gives the node an empty disk.
func (n *node) mount(t *testing.T) {
	if err := syscall.Mount("tmpfs", n.dir, "tmpfs", 0, fmt.Sprintf("size=%d,uid=%d,mode=0755", diskSize, firstUID+n.number)); err != nil {
		t.Fatalf("a disk for %s: %v", n.id, err)
	}
}

// fill makes the disk full, or gives it its room again.
func (n *node) fill(full bool) error {
	size := uint64(diskSize)
	if full {
		var st syscall.Statfs_t
		if err := syscall.Statfs(n.dir, &st); err != nil {
			return err
		}
		size = (st.Blocks - st.Bfree + 1) * uint64(st.Bsize)
	}
	if err := syscall.Mount("tmpfs", n.dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size)); err != nil {
		return err
	}
	n.mu.Lock()
	n.filled, n.full = full, n.full || full
	n.mu.Unlock()
	return nil
}

func (n *node) clockFile() string { return n.log + ".clock" }

// setClock makes the machine's clocks wrong for this node.
func (n *node) setClock(t *testing.T, ahead time.Duration, ppm int64) {
	tmp := n.clockFile() + ".new"
	if err := os.WriteFile(tmp, fmt.Appendf(nil, "%d %d\n", ahead.Nanoseconds(), ppm), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, n.clockFile()); err != nil {
		t.Fatal(err)
	}
}

// start starts the process, if it is down.
func (n *node) start(t *testing.T, args ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		return
	}
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	_, port, _ := net.SplitHostPort(n.addr)
	args = append([]string{
		"--port", port, "--bind", "127.0.0.1", "--http-port", "0", "--dir", n.dir, "--loglevel", "debug",
		"--raft-addr", n.raft, "--raft-id", n.id, "--raft-groups", fmt.Sprint(n.groups),
	}, args...)
	cmd := exec.Command(os.Getenv("LIMITDB_TORTURE_BINARY"), args...)
	cmd.Env = []string{"TESTCLOCK_FILE=" + n.clockFile(), "PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(firstUID + n.number), Gid: uint32(firstUID + n.number)}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	n.cmd, n.ended, n.killed, n.stopped, n.full = cmd, ended, false, false, n.filled
	go func() {
		err := cmd.Wait()
		n.mu.Lock()
		if !n.killed && !n.full {
			t.Errorf("%s ended by itself: %v\n%s", n.id, err, n.tail(30))
		}
		n.cmd = nil
		n.mu.Unlock()
		close(ended)
	}()
}

// signal sends a signal to the process, if it is up. One that ends it is waited for.
func (n *node) signal(sig syscall.Signal) {
	n.mu.Lock()
	cmd, ended := n.cmd, n.ended
	ends := sig == syscall.SIGKILL || sig == syscall.SIGTERM
	if cmd != nil {
		n.killed = n.killed || ends
		if sig != syscall.SIGKILL && n.stopped && sig != syscall.SIGCONT {
			_ = cmd.Process.Signal(syscall.SIGCONT)
		}
		n.stopped = sig == syscall.SIGSTOP
		_ = cmd.Process.Signal(sig) // it may just have ended
	}
	n.mu.Unlock()
	if cmd == nil || !ends {
		return
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Signal(syscall.SIGKILL)
		<-ended
	}
}

// tail returns the last lines of the node's log that are not for debugging.
func (n *node) tail(lines int) string {
	f, err := os.Open(n.log)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	var all []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if !strings.Contains(s.Text(), "level=debug") {
			all = append(all, s.Text())
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// up reports whether the process runs.
func (n *node) up() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd != nil
}

// ask runs a command on the node that may take long; askSoon runs one that must be quick.
func (n *node) ask(args ...string) (resp.Value, error) { return n.askFor(45*time.Second, args...) }

func (n *node) askSoon(args ...string) (resp.Value, error) { return n.askFor(2*time.Second, args...) }

func (n *node) askFor(patience time.Duration, args ...string) (resp.Value, error) {
	c, err := net.DialTimeout("tcp", n.addr, time.Second)
	if err != nil {
		return resp.Value{}, err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprint(c, line(args...)); err != nil {
		return resp.Value{}, err
	}
	v, err := resp.ReadReply(bufio.NewReader(c), 1<<20)
	if err == nil {
		err = v.Err()
	}
	return v, err
}

// line is a command in one line: no argument has a space.
func line(args ...string) string { return strings.Join(args, " ") + "\r\n" }

// info returns the fields of INFO replication.
func (n *node) info() (map[string]string, error) {
	v, err := n.askSoon("INFO", "replication")
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for l := range strings.Lines(v.Text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(l), ":"); ok {
			all[name] = value
		}
	}
	if len(all) == 0 {
		return nil, errors.New("INFO replication is empty")
	}
	return all, nil
}
