package main

import (
	"errors"
	"fmt"
	"sync"

	"limitdb/persistence"
)

// switching is what turns the log on and off while the server runs.
type switching struct {
	sync.Mutex      // held while that goes on
	logged     bool // what appendonly said when it was done last
	closed     bool
}

// errLoading and errStopping are returned where the log cannot be turned on or off now.
var (
	errLoading  = errors.New("the state is still being loaded")
	errStopping = errors.New("the server is stopping")
)

// switchOver does what appendonly and save say by now. When it returns nil, all that was decided
// before it was called is kept as they promise, or the log is off and nobody waits for it. After an error
// all is as it was. It blocks for as long as a snapshot takes.
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

// turnOn opens a store and writes all that the engine has. Replies wait for it only then.
func (d *durability) turnOn() error {
	o := d.options()
	o.Policy = persistence.Never // nothing is promised yet, and no failure ends the process
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

// turnOff ends the store while the engine goes on.
func (d *durability) turnOff(store *persistence.Store) error {
	if err := store.Retire(); err != nil {
		return err
	}
	d.store.Store(nil)
	d.stopped()
	d.p.log.Warn("changes are no longer logged; a later start will not load what the directory has", "dir", d.dir)
	return nil
}

// stopped is done after a store has ended and the engine goes on.
func (d *durability) stopped() {
	d.p.engine.StopJournal()
	d.p.server.SetRefusing(nil)
}

// close makes everything durable.
func (d *durability) close() error {
	d.switching.Lock() // a switch that goes on is awaited
	defer d.switching.Unlock()
	d.switching.closed = true
	store := d.store.Load()
	if store == nil {
		return nil
	}
	return store.Close()
}
