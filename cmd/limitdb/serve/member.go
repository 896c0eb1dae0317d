package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/cmd/limitdb/cli"
	"limitdb/replication"
	"limitdb/replication/peers"
	"limitdb/uplink"
)

// member is this process as a node of a cluster. It has what groups of keys share: the port, the certificates, what the nodes compare, and the
// uplinks of the other nodes.
type member struct {
	p        *process
	certs    *peers.Certificates // nil without raft-tls-cert-file
	password secretSum
	host     atomic.Pointer[uplink.Host]
	port     *peers.Port // nil until the node is opened
	replica  *replica    // of the only group, or of group 0
	several  *several    // nil in a cluster of one group
}

// onlyGroup is the number of the group that has all keys, and RaftDir the node's directory for it inside the data directory.
const (
	onlyGroup = 1
	RaftDir   = "raft/1"
)

func newMember(p *process) (*member, error) {
	certs, err := loadNodeTLS(p.set)
	if err != nil {
		return nil, fmt.Errorf("raft-tls: %w", err)
	}
	m := &member{p: p, certs: certs}
	count, err := m.countGroups()
	switch {
	case err != nil:
		return nil, err
	case count > 1:
		m.several = newSeveral(m, count)
		m.replica = m.several.home()
	default:
		m.replica = newReplica(p, onlyGroup, nil)
	}
	p.engine.Close()
	p.kept.follow()
	return m, nil
}

// open starts the node. The ports for clients must be open, since the node tells the others where clients reach it.
func (m *member) open(ctx context.Context, background *sync.WaitGroup) error {
	if m == nil {
		return nil
	}
	p, set, r := m.p, m.p.set, m.replica
	address, err := m.advertised()
	if err != nil {
		return err
	}
	if m.several != nil {
		return m.several.open(ctx, background, address)
	}
	dir := filepath.Join(p.durable.dir, RaftDir)
	bootstrap, err := m.begins(ctx, dir)
	if err != nil {
		return err
	}
	alone, err := m.openStandalone(dir)
	if err != nil {
		return err
	}
	if m.port, err = peers.Listen(set.RaftAddr.Get(), m.certs, p.log); err == nil {
		err = r.open(replication.Options{
			ID: set.RaftID.Get(), Address: address, Fatal: m.fatal, Agree: m.agree, Clients: m.serve,
		}, replication.Disk{Dir: dir, Group: onlyGroup, Port: m.port, Bootstrap: bootstrap, Import: alone.part(onlyGroup)})
	}
	if err != nil {
		alone.release()
		if replication.Damaged(err) {
			err = cli.WithStatus(err, cli.ExitCorrupt)
		}
		return errors.Join(err, m.close())
	}
	if err := alone.retire(); err != nil {
		return errors.Join(err, m.close())
	}
	node := r.node.Load()
	p.log.Info("this is a node of a cluster, whose log takes the place of appendonly and appendfsync", "raft-id", node.ID(), "raft-addr", set.RaftAddr.Get())
	r.run(ctx, background, node)
	background.Go(func() { m.watchBudget(ctx) })
	if set.RaftJoin.Get() != "" {
		background.Go(func() { m.joiner().run(ctx, node) })
	}
	return nil
}

// leave hands the leadership over before the node stops, so that clients wait only for that.
func (m *member) leave() {
	if m == nil || m.replica.node.Load() == nil {
		return
	}
	handed, err := m.handOver()
	if err != nil {
		m.p.log.Warn("the node stops while it leads: clients wait until another one is elected", "err", err)
	}
	if handed {
		time.Sleep(parting)
	}
}

// handOver hands the leadership over, and reports whether this node has led and does no more.
func (m *member) handOver() (handed bool, err error) {
	if m.several != nil {
		return m.several.leave()
	}
	node := m.replica.node.Load()
	led := node.Turn() != 0
	err = node.Leave()
	return err == nil && led && node.Turn() == 0, err
}

// parting is for how long a node that has led serves on when another one leads. Meanwhile busy clients that know clusters are told so, and
// have left when their connection ends.
const parting = 100 * time.Millisecond

// close stops the node, if it runs, and closes its port.
func (m *member) close() error {
	if m == nil || m.port == nil {
		return nil
	}
	var err error
	if m.several != nil {
		err = m.several.close()
	} else if node := m.replica.node.Load(); node != nil {
		err = node.Close()
	}
	return errors.Join(err, m.port.Close())
}

// advertised is where clients reach the node: the host that its peers dial, and the plain port.
func (m *member) advertised() (string, error) {
	host, _, err := net.SplitHostPort(m.p.set.RaftAddr.Get())
	return net.JoinHostPort(cmp.Or(host, "127.0.0.1"), fmt.Sprint(m.p.tcpPort())), err
}

// fatal ends the process.
func (m *member) fatal(err error) {
	select {
	case m.p.durable.fatal <- err:
	default: // the process is already ending
	}
}
