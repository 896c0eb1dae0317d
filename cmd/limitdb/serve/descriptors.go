package serve

import (
	"fmt"
	"syscall"

	"limitdb/observe"
)

// reservedFDs is the number of descriptors that are not for clients, and that maxclients is lowered for: logs, listeners, a few
// connections over HTTP, and the clients that give way to others.
const reservedFDs = 32

// descriptors is the limit on open files.
type descriptors struct {
	get func() (syscall.Rlimit, error)
	set func(syscall.Rlimit) error
}

func systemDescriptors() descriptors {
	return descriptors{
		get: func() (r syscall.Rlimit, err error) { return r, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) },
		set: func(r syscall.Rlimit) error { return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r) },
	}
}

// room raises the limit if necessary, so that want clients can have a descriptor each. It returns how many
// can: want, or what the system allows.
func (d descriptors) room(want int64) (clients int64, err error) {
	need := uint64(want) + reservedFDs
	r, err := d.get()
	if err != nil || r.Cur >= need {
		return want, err
	}
	// Root may raise the hard limit as well; for others it is the maximum.
	for _, try := range []syscall.Rlimit{{Cur: need, Max: max(need, r.Max)}, {Cur: min(need, r.Max), Max: r.Max}} {
		if d.set(try) == nil {
			r.Cur = try.Cur
			break
		}
	}
	return min(want, max(1, int64(r.Cur)-reservedFDs)), nil
}

// fitMaxClients lowers maxclients to what the limit on open files allows, and makes CONFIG SET refuse higher
// values.
func (p *process) fitMaxClients(d descriptors) {
	room := func(want int64) (int64, error) {
		// If the system allows it, clients leave room for as many connections as the HTTP port may have: health checks are
		// answered beside any number of clients.
		if p.set.HTTPPort.Get() != 0 {
			_, _ = d.room(want + int64(observe.MostConnections(p.set.HTTPDecisions.Get())))
		}
		return d.room(want)
	}
	want := p.set.MaxClients.Get()
	fit, err := room(want)
	if err != nil {
		p.log.Warn("reading the limit on open files", "err", err)
		return
	}
	if fit < want {
		lowerMaxClients(p.registry, p.log, fit, want)
	}
	p.registry.OnChange(func() error {
		want := p.set.MaxClients.Get()
		if fit, err := room(want); err != nil || fit < want {
			//lint:ignore ST1005 Redis' own text, which clients see
			return fmt.Errorf("The operating system is not able to handle the specified number of clients, try with %d: the limit on open files (ulimit -n, LimitNOFILE) allows no more", fit)
		}
		return nil
	}, p.set.MaxClients)
}
