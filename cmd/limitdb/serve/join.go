package serve

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"limitdb/cmd/limitdb/cli"
	"limitdb/replication"
	"limitdb/resp"
)

// raft-join: a node asks a member of the cluster, at the port for clients, to be added. It authenticates there with its own requirepass, which
// all nodes share.

const (
	// joinPause is the time between two attempts, joinTime what one call may take. A node that is added replies when it has caught up.
	// A node that was a member hears the leader before it has made joinPatience attempts, unless something is wrong.
	joinPause    = 500 * time.Millisecond
	joinTime     = time.Minute
	joinPatience = 4
	dialTime     = 2 * time.Second
	// joinHops is how often the node follows a member's answer that another one leads.
	joinHops = 3
)

// errNotNow is the cause of an attempt that is worth repeating.
var errNotNow = errors.New("not now")

// joiner asks the members at an address.
type joiner struct {
	m       *member
	address string // raft-join
	raft    string // raft-addr
}

func (m *member) joiner() *joiner {
	return &joiner{m: m, address: m.p.set.RaftJoin.Get(), raft: m.p.set.RaftAddr.Get()}
}

// clusterThere reports whether a node at the address is in a cluster. It asks until it knows: a node that is starting,
// or does not answer, may be in one. If nobody listens on the port, or the name does not exist, the answer is no.
func (j *joiner) clusterThere(ctx context.Context) (found bool, err error) {
	for said := ""; ; {
		unclear := error(nil)
		ips, err := j.resolve(ctx, j.address)
		if err != nil {
			unclear = err
		}
		for _, ip := range ips {
			info, err := j.info(ctx, ip)
			switch {
			case errors.Is(err, errSelf) || errors.Is(err, syscall.ECONNREFUSED):
			case errors.Is(err, errNotNow):
				unclear = err
			case err != nil:
				return false, fmt.Errorf("raft-join %s: %w", j.address, err)
			case info["id"] == "":
				unclear = fmt.Errorf("%w: %s is starting", errNotNow, ip)
			case info["cluster"] != "":
				return true, nil
			}
		}
		if unclear == nil {
			return false, nil
		}
		said = j.say(said, unclear)
		if !sleep(ctx, joinPause) {
			return false, ctx.Err()
		}
	}
}

// say logs why an attempt did not succeed, unless it said the same before.
func (j *joiner) say(before string, err error) string {
	if err.Error() != before {
		j.m.p.log.Warn("joining the cluster failed: trying again", "address", j.address, "err", err)
	}
	return err.Error()
}

// run has the node added, if it is no member or its address has changed. It ends the process if the cluster refuses the node.
func (j *joiner) run(ctx context.Context, node *replication.Node) {
	said := ""
	for tries := 1; ; tries++ {
		err := j.attempt(ctx, node, tries)
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case !errors.Is(err, errNotNow) && !errors.Is(err, syscall.ECONNREFUSED):
			j.m.fatal(fmt.Errorf("raft-join %s: %w", j.address, err)) // or the process begins again: see learned
			return
		case !errors.Is(err, errWaits):
			said = j.say(said, err)
		}
		if !sleep(ctx, joinPause) {
			return
		}
	}
}

// errWaits is the cause of an attempt without a call: the leader is about to call this node.
var errWaits = fmt.Errorf("%w: no leader has called this node yet", errNotNow)

// isMember reports whether the node is a member, as far as it knows, and the others dial its address.
func (j *joiner) isMember(node *replication.Node) bool {
	all, err := node.Members()
	for _, m := range all {
		if err == nil && m.Self {
			return m.Address == j.raft
		}
	}
	return false
}

// attempt returns nil if the node is a member. A node that was removed while it was down still finds itself among its members: only a
// leader that calls it, or that lists it, shows that it is one.
func (j *joiner) attempt(ctx context.Context, node *replication.Node, tries int) error {
	was := j.isMember(node)
	switch s := node.Status(); {
	case was && s.LastContact >= 0 && !s.Behind:
		return nil
	case was && tries < joinPatience:
		return errWaits
	}
	ips, err := j.resolve(ctx, j.address)
	if err != nil {
		return err
	}
	for _, ip := range ips {
		var info map[string]string
		if info, err = j.info(ctx, ip); err != nil {
			continue
		}
		own := node.Status().Cluster
		switch {
		case info["cluster"] == "":
			err = fmt.Errorf("%w: %s is in no cluster yet", errNotNow, ip)
			continue
		case own != "" && info["cluster"] != own:
			return fmt.Errorf("it belongs to the cluster %s, and the directory to %s", info["cluster"], own)
		case !was && j.m.agrees(info["groups"]) != nil:
			return j.m.agrees(info["groups"])
		case was && info["leader"] == "":
			err = fmt.Errorf("%w: %s knows of no leader", errNotNow, ip)
			continue
		case was:
			if without, lerr := j.withoutVote(ctx, info["leader"], node.ID()); lerr != nil || without {
				err = cmp.Or(lerr, errWaits)
				continue
			}
		}
		if err = j.add(ctx, ip, node.ID()); err == nil || !errors.Is(err, errNotNow) {
			return err
		}
	}
	if errors.Is(err, errSelf) {
		return fmt.Errorf("%w: nobody else answers", errNotNow)
	}
	return cmp.Or(err, errWaits) // the name is gone
}

// withoutVote reports whether the leader lists the node without a vote, at its address. To add that one would give it a vote.
func (j *joiner) withoutVote(ctx context.Context, leader, id string) (bool, error) {
	v, err := j.call(ctx, leader, "RAFT", "SERVER", "LIST")
	for _, m := range v.Elems {
		if f := fields(m); err == nil && f["id"] == id && f["address"] == j.raft {
			return f["vote"] != "voter", nil
		}
	}
	return false, err
}

// add asks a member to add the node. If that member does not lead, add asks the leader.
func (j *joiner) add(ctx context.Context, at, id string) error {
	for range joinHops {
		_, err := j.call(ctx, at, "RAFT", "SERVER", "ADD", id, j.raft)
		var leader string
		if err == nil {
			j.m.p.log.Info("this node was added to the cluster", "by", at)
			return nil
		}
		if _, serr := fmt.Sscanf(err.Error(), "MOVED 0 %s", &leader); serr != nil {
			return err
		}
		at = leader
	}
	return fmt.Errorf("%w: the leader changes", errNotNow)
}

// info returns what the member at an address replies to RAFT INFO.
func (j *joiner) info(ctx context.Context, at string) (map[string]string, error) {
	v, err := j.call(ctx, at, "RAFT", "INFO")
	if err != nil {
		return nil, err
	}
	return fields(v), nil
}

// fields returns the fields of a reply, by name.
func fields(v resp.Value) map[string]string {
	all := map[string]string{}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		value := v.Elems[i+1]
		if all[v.Elems[i].Text] = value.Text; value.Kind == ':' {
			all[v.Elems[i].Text] = strconv.FormatInt(value.Int, 10)
		}
	}
	return all
}

// resolve returns the addresses that a host and port have now; none if there is no such host.
func (j *joiner) resolve(ctx context.Context, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) != nil {
		return []string{address}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotNow, err)
	}
	for i := range found {
		found[i] = net.JoinHostPort(found[i], port)
	}
	return found, nil
}

// errSelf is the error for a call that has reached this process itself.
var errSelf = fmt.Errorf("%w: this is the node itself", errNotNow)

// call runs a command at an address. Errors that are worth another attempt are errNotNow.
func (j *joiner) call(ctx context.Context, at string, words ...string) (resp.Value, error) {
	d := net.Dialer{Timeout: dialTime}
	conn, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return resp.Value{}, fmt.Errorf("%w: %w", errNotNow, err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	if isSelf(conn.LocalAddr(), conn.RemoteAddr(), j.m.p.group.Addrs()) {
		return resp.Value{}, errSelf
	}
	if err := conn.SetDeadline(time.Now().Add(joinTime)); err != nil {
		return resp.Value{}, err
	}
	r := bufio.NewReader(conn)
	if pass := j.m.p.set.RequirePass.Get(); pass != "" {
		if _, err := ask(conn, r, "AUTH", pass); err != nil && !strings.HasPrefix(err.Error(), "ERR") { // else: no password is set there
			return resp.Value{}, fmt.Errorf("requirepass is not the password there: %w", err)
		}
	}
	return ask(conn, r, words...)
}

// ask sends one command and returns its reply.
func ask(conn net.Conn, r *bufio.Reader, words ...string) (resp.Value, error) {
	v, err := cli.Ask(conn, r, 1<<20, words...)
	if err != nil {
		return v, fmt.Errorf("%w: %w", errNotNow, unanswered(err))
	}
	err = v.Err()
	for _, soon := range []string{"TRYAGAIN", "CLUSTERDOWN", "LOADING"} {
		if err != nil && strings.HasPrefix(err.Error(), soon) {
			err = fmt.Errorf("%w: %w", errNotNow, err)
		}
	}
	return v, err
}

// errClosed is the error for a peer that closes the connection, as a Raft port does.
var errClosed = errors.New("it closes the connection; raft-join is a member's port for clients, not its raft-addr")

// unanswered returns the error of a connection on which no reply came. It leaves out the addresses, which differ each
// time, so that the log says it once.
func unanswered(err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		return errClosed
	case errors.As(err, &op):
		return op.Err
	}
	return err
}

// isSelf reports whether a connection between two addresses has reached this process, which listens on those in own: the two have one IP address,
// and it listens there.
func isSelf(here, there net.Addr, own []net.Addr) bool {
	from, ok1 := here.(*net.TCPAddr)
	to, ok2 := there.(*net.TCPAddr)
	return ok1 && ok2 && from.IP.Equal(to.IP) && slices.ContainsFunc(own, func(a net.Addr) bool {
		at, ok := a.(*net.TCPAddr)
		return ok && at.Port == to.Port && (at.IP.IsUnspecified() || at.IP.Equal(to.IP))
	})
}

// sleep waits, and reports false if ctx ends before that.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// begins reports whether the node begins a cluster, if its directory has none.
func (m *member) begins(ctx context.Context, dir string) (bool, error) {
	bootstrap := m.p.set.RaftBootstrap.Get()
	if !bootstrap && m.p.set.RaftJoin.Get() == "" && !replication.InCluster(dir) {
		m.p.log.Warn("this node is in no cluster: it waits until one adds it. To begin a cluster, start it with --raft-bootstrap yes; to join one, with --raft-join ADDRESS")
	}
	if !bootstrap || m.p.set.RaftJoin.Get() == "" || replication.InCluster(dir) {
		return bootstrap, nil
	}
	found, err := m.joiner().clusterThere(ctx)
	return !found, err
}
