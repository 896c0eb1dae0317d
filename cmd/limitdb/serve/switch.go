package serve

import (
	"errors"
	"fmt"
	"sync"

	"limitdb/persistence"
)

// switching guards turning the log on and off while the server runs.
type switching struct {
	sync.Mutex      // held during a switch
	logged     bool // the value of appendonly at the last switch
	closed     bool
}

// errLoading and errStopping are returned if the log cannot be turned on or off now.
var (
	errLoading  = errors.New("the state is still being loaded")
	errStopping = errors.New("the server is stopping")
)

// switchOver applies the current values of appendonly and save. When it returns nil, every decision from
// before the call is as durable as they promise, or the log is off and no replies wait. If it returns an
// error, nothing has changed. It blocks for as long as a snapshot takes.
func (d *durability) switchOver() error {
	d.switching.Lock()
	defer d.switching.Unlock()
	switch {
	case d.switching.closed:
		return errStopping
	case d.loading.Load():
		return errLoading
	}
	store, logged := d.store.Load(), d.p.set.AppendOnly.Get()
	var err error
	switch {
	case d.wanted() && store == nil:
		err = d.turnOn()
	case !d.wanted() && store != nil:
		err = d.turnOff(store)
	case store != nil:
		store.SetPolicy(d.policy())
		if logged && !d.switching.logged {
			err = store.Sync()
		}
	}
	if err == nil {
		d.switching.logged = logged
		d.roomForSyncs()
	}
	return err
}

// turnOn opens a store and writes everything that the engine has. Only after that do replies wait for it.
func (d *durability) turnOn() error {
	o := d.options()
	o.Policy = persistence.Never // nothing is promised yet, so a failure must not end the process
	store, err := persistence.Open(o)
	if err != nil {
		return d.refused(err)
	}
	if !store.Empty() {
		store.Release()
		return fmt.Errorf("%s has state that this server has not loaded: move it away first", d.dir)
	}
	if _, err = store.Load(); err == nil {
		store.Start()
		err = store.Snapshot()
	}
	if err != nil {
		store.Abandon()
		d.stopped()
		return d.refused(err)
	}
	d.store.Store(store)
	store.SetPolicy(d.policy())
	d.p.log.Info("all changes are logged from now on", "dir", d.dir)
	return nil
}

// turnOff ends the store while the engine continues.
func (d *durability) turnOff(store *persistence.Store) error {
	if err := store.Retire(); err != nil {
		return err
	}
	d.store.Store(nil)
	d.stopped()
	d.p.log.Warn("changes are no longer logged; a later start will not load what the directory has", "dir", d.dir)
	return nil
}

// stopped resets what belonged to a store that has ended, while the engine continues.
func (d *durability) stopped() {
	d.p.engine.StopJournal()
	d.p.server.SetRefusing(nil)
}

// close makes everything durable.
func (d *durability) close() error {
	d.switching.Lock() // waits for a switch in progress
	defer d.switching.Unlock()
	d.switching.closed = true
	store := d.store.Load()
	if store == nil {
		return nil
	}
	return store.Close()
}
