package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"limitdb/cmd/limitdb/cli"
	"limitdb/internal/disk"
	"limitdb/internal/group"
	"limitdb/replication"
	"limitdb/replication/peers"
	"limitdb/replication/redo"
	"limitdb/server"
)

// several is what a node of a cluster of several groups has beside a member of a cluster of one.
//
// Group 0 has no keys. Every node has a replica of it, in which the directory is that says where the replicas of the others are to be: see
// package groups. The node that leads it changes the directory (placing.go). The node that leads any group brings its replicas
// to their place (reconciling.go). The nodes tell one another once a second which groups they have and lead (neighbours.go).
type several struct {
	m        *member
	p        *process
	count    int // of groups with keys
	replicas []*replica
	who      replication.Identity // set before the node answers
	beat     group.Beat
	away     replication.Warnings
	redo     *redo.Log   // nil until the port is open
	alone    *standalone // with what a cluster begins here, while it is opened; nil for nothing
	near     *neighbours
	tells    *respondent
	dir      *directory
	placing  *placer
	pools    *pools
	room     atomic.Pointer[[]int64] // the budget of each group on this node, in bytes, 0 for any
	rates    *rates
	ready    []atomic.Pointer[[]string] // by group, the nodes that may be made to lead it, while this node does

	noted   keptNote   // what the node has noted last
	opening sync.Mutex // held while a replica is opened or discarded; guards closed
	closed  bool       // no replica is opened any more
}

// raftDirs is the folder in the data directory that has a directory for each group.
const raftDirs = "raft"

// groupDir returns the node's directory for a group.
func (d *durability) groupDir(group int) string {
	return filepath.Join(d.dir, raftDirs, strconv.Itoa(group))
}

func newSeveral(m *member, count int) *several {
	s := &several{m: m, p: m.p, count: count, rates: newRates(count + 1), ready: make([]atomic.Pointer[[]string], count+1)}
	s.near = &neighbours{several: s, at: map[string]*neighbour{}}
	s.tells, s.dir, s.placing = &respondent{s}, &directory{several: s}, &placer{several: s}
	s.pools = &pools{several: s, all: map[string]*pool{}}
	for g := range count + 1 {
		s.replicas = append(s.replicas, newReplica(m.p, g, s))
		s.replicas[g].look = s.replicas[0].look // one goroutine looks who leads
	}
	return s
}

// forServer returns the groups as the server takes them. The server gets a group's table when the node leads it, and not before: it would let
// what is in it expire by the process's clock.
func (s *several) forServer() (all []server.GroupOptions) {
	for _, r := range s.replicas {
		all = append(all, server.GroupOptions{Engine: s.p.engine, Durability: r.keeper(), Replication: r.forServer()})
	}
	return all
}

// home returns the replica of group 0.
func (s *several) home() *replica { return s.replicas[0] }

// open starts the groups of which the node has a replica.
func (s *several) open(ctx context.Context, background *sync.WaitGroup, address string) error {
	d, set := s.p.durable, s.p.set
	bootstrap, err := s.m.begins(ctx, d.groupDir(0))
	if err != nil {
		return err
	}
	if err := s.removeUnused(); err != nil {
		return err
	}
	if err := errors.Join(s.readSecret(), s.readKept()); err != nil {
		return err
	}
	if err := s.start(bootstrap, address); err != nil {
		if replication.Damaged(err) {
			err = cli.WithStatus(err, cli.ExitCorrupt)
		}
		return errors.Join(err, s.m.close())
	}
	s.p.log.Info("this is a node of a cluster of several groups", "raft-id", s.who.ID, "raft-addr", set.RaftAddr.Get(), "groups", s.count)
	s.run(ctx, background)
	if set.RaftJoin.Get() != "" {
		background.Go(func() { s.m.joiner().run(ctx, s.home().node.Load()) })
	}
	return nil
}

// start opens the port and the replicas. A cluster that begins takes over what a standalone server has left in the data directory.
func (s *several) start(bootstrap bool, address string) (err error) {
	if s.alone, err = s.m.openStandalone(s.p.durable.groupDir(0)); err != nil {
		return err
	}
	if s.m.port, err = peers.Listen(s.p.set.RaftAddr.Get(), s.m.certs, s.p.log); err == nil {
		err = s.openRedo()
	}
	if err == nil {
		err = s.openAll(bootstrap, address)
	}
	if err != nil {
		s.alone.release()
		return err
	}
	err = s.alone.retire()
	s.alone = nil
	return err
}

// openRedo opens the redo log, and has what a crash has left in it done again.
func (s *several) openRedo() (err error) {
	dir := filepath.Join(s.p.durable.dir, raftDirs)
	if err := os.MkdirAll(dir, 0o700); err != nil { // the data directory may be missing
		return err
	}
	s.redo, err = redo.Open(disk.OS{}, filepath.Join(dir, redo.Dir), redo.FileBytes)
	return err
}

// openAll opens the replicas. A cluster begins with its groups, and with group 0 last: until that has begun, the others may be missing.
func (s *several) openAll(bootstrap bool, address string) error {
	d := s.disk(0)
	d.Bootstrap = bootstrap
	who, begun, err := replication.Found(s.p.set.RaftID.Get(), d)
	if err != nil {
		return err
	}
	s.who = who
	begins := bootstrap && who.Began && !begun
	for g := 1; g <= s.count; g++ {
		if !begins && !replication.HasNode(s.p.durable.groupDir(g)) {
			continue
		}
		if err := s.openGroup(g, begins, address); err != nil {
			return fmt.Errorf("group %d: %w", g, err)
		}
	}
	d.Bootstrap, d.Import = begins, s.alone.part(0)
	o := s.options(address)
	o.Agree, o.Clients, o.Asks = s.m.agree, s.m.serve, s.tells.asked
	return s.home().open(o, d)
}

// openGroup opens the replica of a group with keys.
func (s *several) openGroup(group int, begins bool, address string) error {
	d, r := s.disk(group), s.replicas[group]
	who, err := replication.Known(s.p.durable.groupDir(0)) // since the start, the node may have become a member
	if err != nil {
		return err
	}
	d.Cluster, d.Bootstrap, d.Import = who.Cluster, begins, s.alone.part(group)
	o := s.options(address)
	o.Idle = r.idle
	return r.open(o, d)
}

func (s *several) disk(group int) replication.Disk {
	return replication.Disk{Dir: s.p.durable.groupDir(group), Group: group, Groups: s.count, Port: s.m.port, Redo: s.redo}
}

func (s *several) options(address string) replication.Options {
	return replication.Options{ID: cmp.Or(s.who.ID, s.p.set.RaftID.Get()), Address: address, Fatal: s.m.fatal, Surveyed: true, Beat: &s.beat, Away: &s.away}
}

// How long a group without changes rests: one without keys has none whose time could pass.
const (
	restOfKeys  = time.Second
	restOfEmpty = 10 * time.Second
)

// idle is replication.Options.Idle.
func (r *replica) idle() time.Duration {
	if r.states.Load().Stats().Keys == 0 {
		return restOfEmpty
	}
	return restOfKeys
}

// removeUnused removes the directories of groups that are of no cluster: a node that joins one begins as that of a cluster of one group, and learns
// how many there are.
func (s *several) removeUnused() error {
	for g := 1; g <= s.count; g++ {
		dir := s.p.durable.groupDir(g)
		who, err := replication.Known(dir)
		if err != nil {
			return err
		}
		if who != (replication.Identity{}) && who.Cluster == "" {
			if err := s.removeGroup(g); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(dir + goneSuffix); err != nil { // a removal that was cut short
			return err
		}
	}
	return nil
}

// goneSuffix is in the name of a directory that is being removed.
const goneSuffix = ".gone"

// removeGroup removes the node's directory for a group. What is left after a crash is a whole directory, or none.
func (s *several) removeGroup(group int) error {
	dir := s.p.durable.groupDir(group)
	err := os.RemoveAll(dir + goneSuffix)
	if err == nil {
		err = os.Rename(dir, dir+goneSuffix)
	}
	if err == nil {
		err = (disk.OS{}).SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir + goneSuffix)
}

// run starts what the node does all the time, until ctx ends.
func (s *several) run(ctx context.Context, background *sync.WaitGroup) {
	s.reconcileAll(ctx, background)
	background.Go(func() { s.sweep(ctx) })
	background.Go(func() { every(ctx, surveyEvery, func() { s.near.survey(true) }) })
	background.Go(func() { every(ctx, surveyEvery, s.dir.refresh) })
	background.Go(func() { s.pools.followLeaders(ctx) })
	background.Go(func() { s.placing.place(ctx) })
	background.Go(func() { every(ctx, time.Second, s.watchBudget) })
	background.Go(func() { every(ctx, rateEvery, s.watchRates) })
	background.Go(func() { every(ctx, time.Second, s.noteKept) })
	background.Go(func() { every(ctx, discardEvery, s.discard) })
}

// sweepSteps is the most groups that are swept before the next pause.
const sweepSteps = 10

// sweep sweeps the groups in turn: together as much as the only group of another cluster, which would have all their keys. It wakes up more
// often only while there is much to drop.
func (s *several) sweep(ctx context.Context) {
	for next := 0; ; {
		steps := 0
		for much := false; steps < sweepSteps && !much; steps++ {
			for range s.replicas {
				next = (next + 1) % len(s.replicas)
				if s.replicas[next].node.Load() != nil {
					much = s.replicas[next].sweepOnce() > sweepSlots/20
					break
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(steps) * sweepPause):
		}
	}
}

// kick begins the syncs that replies of any group wait for.
func (s *several) kick() {
	for _, r := range s.replicas {
		if node := r.node.Load(); node != nil {
			node.Kick()
		}
	}
}

// each calls fn for each group of which the node has a replica, all at once, and returns the errors.
func (s *several) each(fn func(*replica, *replication.Node) error) error {
	errs := make([]error, len(s.replicas))
	var all sync.WaitGroup
	for g, r := range s.replicas {
		if node := r.node.Load(); node != nil {
			all.Go(func() { errs[g] = fn(r, node) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}
