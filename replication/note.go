package replication

import (
	"encoding/json"
	"os"
	"time"
)

// Each second, a node notes beside its log the replicated time and how long the machine has been running. After all
// nodes were down, the log shows only when the last decision was made. The note shows how long ago that was, if the
// machine has not been rebooted since. Without a note, the time stands still while no node runs, which admits less,
// never more. So the note is not synced, and a note that cannot be read is ignored.

// noteFile is the note's name in the node's directory.
const noteFile = "clock"

// noteEvery is how often the note is written.
const noteEvery = time.Second

// note is the content of the file, as JSON. Times are in ns.
type note struct {
	Clock   int64  // the replicated time, Unix
	Boot    uint64 // the id of the machine's boot
	Elapsed int64  // since the boot, when the time was Clock
}

// readNote sets the time from which the replicated time has advanced, if the machine has run since the note was
// written.
func (n *Node) readNote() {
	if n.clock.Boot == nil || n.parts.note == "" {
		return
	}
	b, err := os.ReadFile(n.parts.note)
	if err != nil {
		return
	}
	var was note
	boot, elapsed := n.clock.Boot()
	if json.Unmarshal(b, &was) != nil || boot == 0 || was.Boot != boot || was.Clock <= 0 || elapsed < was.Elapsed {
		return
	}
	n.noted = was.Clock + elapsed - was.Elapsed - n.clock.Elapsed()
}

// takeNotes writes the note until the node stops.
func (n *Node) takeNotes() {
	defer n.loops.Done()
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-tick.C:
		}
		if err := n.writeNote(); err != nil {
			n.log.Warn("the note of the time cannot be written", "err", err)
		}
	}
}

func (n *Node) writeNote() error {
	if n.clock.Boot == nil || n.parts.note == "" {
		return nil
	}
	n.mu.Lock()
	clock := n.reached()
	boot, elapsed := n.clock.Boot()
	unknown := n.machine.clock == 0
	n.mu.Unlock()
	if unknown || boot == 0 {
		return nil
	}
	b, err := json.Marshal(note{clock, boot, elapsed})
	if err != nil {
		return err
	}
	tmp := n.parts.note + tmpSuffix
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, n.parts.note)
}

// reached returns the earliest value that the replicated time can have now, by what has elapsed. The lock is held.
func (n *Node) reached() int64 {
	elapsed := n.clock.Elapsed()
	at := n.machine.clock + elapsed - n.clockAt
	if n.noted != 0 {
		at = max(at, n.noted+elapsed)
	}
	return at
}
