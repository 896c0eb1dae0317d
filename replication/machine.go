package replication

import (
	"encoding/binary"
	"fmt"

	"limitdb/internal/journal"
)

// machine applies the entries of the log in order. It is the same on every node, and pure: it has no table, no clock
// and no Raft. Its results say what to do with an entry's records.
//
// Raft stamps an entry with the term in which it is appended, whenever it was computed. So a batch that was computed
// in one leadership can enter the log in a later one, behind another leader's changes, and a batch
// can be lost while its successor is not. The fence is what makes of such a log one order of primaries:
//
//	Epoch: if it does not follow the current epoch, it is ignored.
//	       Else the current epoch is over. If it was this node's own, the node abdicates.
//	       An unfinished group is dropped. Epoch, term and sequence are the entry's id, the log's term and 0.
//	       A node opens its own Epoch only if that is the proposal it still waits for.
//	Batch: of another epoch than the current one, of another term than the Epoch's, or not the next of its
//	       sequence: it is ignored. If it is of this node's own open epoch, the node abdicates: what it has
//	       decided since is not in the log.
//	       Else it is gathered until the last of its group. Then the group is accepted as a whole.
//
// What holds:
//
//  1. The first decision of an epoch starts from exactly what the log says before its Epoch: the node opens it when
//     it applies it, after all that stands before it.
//  2. The accepted batches of an epoch are a prefix without gaps of those that its primary proposed, all of one term. No epoch begins twice,
//     however often its Epoch is in the log: it would have to follow itself, or an epoch that is over.
//  3. A group is accepted as a whole or not at all. So whatever is one cut of the table is one step: a
//     TAKEALL, a transaction, a script.
//  4. A reply leaves only after a group of its epoch was accepted whose drain began after its decision. Until then
//     another node may lead, and have decided.
//  5. No snapshot has what may never be committed: on a node whose epoch is open, it is published after a group was accepted
//     that was drained after the copy's end. It has the fence and the gathered part of an unfinished group.
//
// (1) to (3) are kept here, (4) and (5) where replies and snapshots are held.
type machine struct {
	fence
	// earlier is the clock before that of the last group; 0 if unknown. See Node.Expired.
	earlier int64
	// fuzzy is the index up to which a snapshot may include the effects of entries behind its fence.
	fuzzy uint64
	// asked is this node's own Epoch that was proposed and not yet applied; own is its own epoch while
	// that is open. Both are of this process only.
	asked, own id
	// room is for the records that are being applied.
	room []journal.Record
}

// fence is the part of the machine that is the same on all nodes at the same index of the log.
type fence struct {
	epoch    id
	term     uint64 // the log's, of the epoch's entry
	sequence uint64 // of the last batch that passed
	clock    int64  // the latest of an Epoch or an accepted group, Unix ns
	pending  int64  // the clock of an unfinished group
	group    []byte // the records of an unfinished group
	address  string // where clients reach the primary
	format   uint8  // of the epoch's entries, 0 before the first
}

// result is what an entry has led to.
type result struct {
	// ignored: the entry has no effect.
	ignored bool
	// accepted: a group is complete. Its records must be applied to the table, unless own is set.
	accepted bool
	// own: the group is of this node's own open epoch, so the table has the records already.
	own bool
	// records are those of the accepted group, valid until the next call.
	records []byte
	// opened: this node's own epoch is open from now on.
	opened bool
	// abdicate: this node's own epoch was open, and is closed now.
	abdicate bool
}

// apply applies an entry, which has the given term in the log. It returns an error for records that are damaged or of a
// newer version. The node must then stop, because it must not skip an entry.
func (m *machine) apply(e *entry, term uint64) (result, error) {
	if e.kind == kindEpoch {
		return m.applyEpoch(e, term), nil
	}
	return m.applyBatch(e, term)
}

func (m *machine) applyEpoch(e *entry, term uint64) result {
	waited := e.epoch == m.asked
	if waited {
		m.asked = id{}
	}
	if e.after != m.epoch {
		return result{ignored: true}
	}
	r := result{abdicate: m.close()}
	if waited && !r.abdicate { // otherwise the table is not what the log says, and must be rebuilt first
		m.own, r.opened = e.epoch, true
	}
	m.fence = fence{epoch: e.epoch, term: term, clock: max(m.clock, e.clock), address: e.address, format: e.format}
	m.earlier = m.clock // the epoch decides at no earlier time
	return r
}

func (m *machine) applyBatch(e *entry, term uint64) (result, error) {
	if e.epoch != m.epoch || term != m.term || e.sequence != m.sequence+1 {
		return result{ignored: true, abdicate: e.epoch == m.own && m.close()}, nil
	}
	if err := parseAll(e.records); err != nil {
		return result{}, err
	}
	m.sequence = e.sequence
	m.pending = max(m.pending, e.clock)
	if !e.last {
		m.group = append(m.group, e.records...)
		return result{}, nil
	}
	r := result{accepted: true, own: m.own == e.epoch, records: e.records}
	if len(m.group) > 0 {
		r.records = append(m.group, e.records...)
	}
	m.earlier = m.clock
	m.clock, m.pending, m.group = max(m.clock, m.pending), 0, nil
	return r, nil
}

// parseAll returns an error unless b is a sequence of valid records.
func parseAll(b []byte) error {
	for at := 0; at < len(b); {
		_, rest, err := journal.Parse(b[at:])
		if err != nil {
			return fmt.Errorf("replication: a record at byte %d of its batch: %w", at, err)
		}
		at = len(b) - len(rest)
	}
	return nil
}

// ask notes that this node is about to propose an Epoch with the given id, which follows the current one. The node
// stops waiting for its earlier proposals.
func (m *machine) ask(e id) { m.asked = e }

// close closes this node's own epoch, and reports whether it was open. Groups of it that are accepted later count as
// another node's, and are applied to the table.
func (m *machine) close() bool {
	open := m.own != id{}
	m.own = id{}
	return open
}

// restore sets the machine's fence to that of a snapshot, and reports whether the node must abdicate: the snapshot may
// stand for entries that would have closed its epoch. The node stops waiting for its proposals.
func (m *machine) restore(f fence) (abdicate bool) {
	abdicate = m.close()
	m.asked, m.fence, m.earlier, m.fuzzy = id{}, f, 0, 0
	return abdicate
}

// fenceHead is the size of an encoded fence before its address and its group.
const fenceHead = idSize + 8*4 + 1

// appendTo appends the encoded fence.
//
//	 0       16     24         32      40        48               49
//	┌───────┬──────┬──────────┬───────┬─────────┬────────────────┬─────────┬───────┐
//	│ epoch │ term │ sequence │ clock │ pending │ address length │ address │ group │
//	└───────┴──────┴──────────┴───────┴─────────┴────────────────┴─────────┴───────┘
func (f *fence) appendTo(b []byte) []byte {
	b = f.epoch.appendTo(b)
	b = binary.LittleEndian.AppendUint64(b, f.term)
	b = binary.LittleEndian.AppendUint64(b, f.sequence)
	b = binary.LittleEndian.AppendUint64(b, uint64(f.clock))
	b = binary.LittleEndian.AppendUint64(b, uint64(f.pending))
	b = append(b, byte(len(f.address)))
	b = append(b, f.address...)
	return append(b, f.group...)
}

// parseFence reads what appendTo has written, and copies it. The errors are ErrEntry and those of records.
func parseFence(b []byte) (f fence, err error) {
	if len(b) < fenceHead || len(b) < fenceHead+int(b[fenceHead-1]) {
		return f, fmt.Errorf("%w: the fence of a snapshot", ErrEntry)
	}
	f = fence{
		epoch: parseID(b), term: binary.LittleEndian.Uint64(b[16:]), sequence: binary.LittleEndian.Uint64(b[24:]),
		clock: int64(binary.LittleEndian.Uint64(b[32:])), pending: int64(binary.LittleEndian.Uint64(b[40:])),
	}
	rest := b[fenceHead:]
	n := int(b[fenceHead-1])
	f.address = string(rest[:n])
	if group := rest[n:]; len(group) > 0 {
		f.group = append([]byte(nil), group...)
	}
	return f, parseAll(f.group)
}
