package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/clock"
	"limitdb/replication"
)

// Recover makes the node in a data directory, which must not run, the only member of a new cluster. It returns a report
// on the node, even with some errors. The errors are those of the file system and of the node's log and snapshots.
func Recover(dir string) (*replication.Report, error) {
	if err := ofSeveral(dir); err != nil {
		return nil, err
	}
	node := filepath.Join(dir, RaftDir)
	if !replication.HasNode(node) {
		return nil, fmt.Errorf("%s does not have the state of a node", dir)
	}
	registry, set := config.New()
	if err := registry.Load(config.Sources{}); err != nil {
		return nil, err
	}
	p := &process{set: set, registry: registry, clock: clock.NewReal(), log: slog.New(slog.DiscardHandler)}
	r := &replica{p: p, number: onlyGroup, kept: &p.kept}
	p.member = &member{p: p, replica: r}
	r.states.Store(engine.New(engine.Options{Shards: int(set.Shards.Get())}))
	var fatal error
	report, err := replication.Recover(replication.Options{
		Table: r, Clock: replication.Clock{Wall: p.clock.Wall, Elapsed: p.clock.Elapsed},
		Fatal: func(err error) { fatal = errors.Join(fatal, err) }, Log: p.log,
	}, node)
	return report, errors.Join(err, fatal)
}
