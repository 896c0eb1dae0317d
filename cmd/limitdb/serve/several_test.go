package serve

import (
	"log/slog"
	"testing"

	"limitdb/config"
	"limitdb/engine"
	"limitdb/internal/clock"
)

// While another node leads a group, its table here is only in the hands of its replica. The server, which sweeps by the process's clock, has none.
func TestTablesOfGroupsAreLeftAlone(t *testing.T) {
	t.Parallel()
	registry, set := config.New()
	p := &process{registry: registry, set: set, clock: clock.NewReal(), log: slog.New(slog.DiscardHandler), engine: engine.New(engine.Options{Shards: 1})}
	s := newSeveral(&member{p: p}, 3)
	for i, o := range s.forServer() {
		if o.Engine == s.replicas[i].states.Load() {
			t.Errorf("group %d: the server begins with the replica's table", i)
		}
	}
}
