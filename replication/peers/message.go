package peers

import (
	"encoding/binary"
	"errors"

	"github.com/hashicorp/raft"
)

// Raft's messages about entries, as a mux carries them. Raft's own transport writes them by reflection, which costs more than to store the entries.
// AppendedAt is left out, since Raft says that it is for figures, and limitdb has others, and so is Leader, which the address replaces.
//
// A request:
//
//	 0       1      9          17          25       33
//	┌─────────┬──────┬───────────┬──────────┬────────┬────────────────┬─────────────────────────────┐
//	│ protocol│ term │ previous  │ its term │ commit │ id, address    │ entries                     │
//	│ version │      │ entry     │          │ index  │                │                             │
//	└─────────┴──────┴───────────┴──────────┴────────┴────────────────┴─────────────────────────────┘
//
// and each entry:
//
//	0       8      16     17            21                 25
//	┌───────┬──────┬──────┬─────────────┬──────────────────┬──────┬────────────┐
//	│ index │ term │ type │ length of   │ length of the    │ data │ extensions │
//	│       │      │      │ the data    │ extensions       │      │            │
//	└───────┴──────┴──────┴─────────────┴──────────────────┴──────┴────────────┘
//
// Names have their lengths, 2 bytes each, before them. An answer:
//
//	0         1      9             17      18
//	┌─────────┬──────┬─────────────┬───────┬─────────────┬───────┐
//	│ protocol│ term │ last entry  │ flags │ id, address │ error │
//	│ version │      │ of the log  │       │             │       │
//	└─────────┴──────┴─────────────┴───────┴─────────────┴───────┘
//
// Flag 1 is success, 2 that the caller need not wait before it tries again. The error, up to the end, is empty if there is none.

const (
	requestHead = 1 + 4*8
	entryHead   = 8 + 8 + 1 + 4 + 4
	answerHead  = 1 + 2*8 + 1

	flagSuccess, flagNoBackoff = 1, 2
)

var errMessage = errors.New("replication: a peer's message cannot be read")

// appendRequest appends a request to b.
func appendRequest(b []byte, r *raft.AppendEntriesRequest) []byte {
	b = append(b, byte(r.ProtocolVersion))
	for _, n := range [...]uint64{r.Term, r.PrevLogEntry, r.PrevLogTerm, r.LeaderCommitIndex} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = appendName(appendName(b, r.ID), r.Addr)
	for _, e := range r.Entries {
		b = binary.LittleEndian.AppendUint64(b, e.Index)
		b = binary.LittleEndian.AppendUint64(b, e.Term)
		b = append(b, byte(e.Type))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Data)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Extensions)))
		b = append(append(b, e.Data...), e.Extensions...)
	}
	return b
}

// parseRequest reads a request, which keeps parts of b. It returns errMessage for bytes that are not a request.
func parseRequest(b []byte, r *raft.AppendEntriesRequest) error {
	if len(b) < requestHead {
		return errMessage
	}
	u64 := binary.LittleEndian.Uint64
	*r = raft.AppendEntriesRequest{Term: u64(b[1:]), PrevLogEntry: u64(b[9:]), PrevLogTerm: u64(b[17:]), LeaderCommitIndex: u64(b[25:])}
	r.ProtocolVersion = raft.ProtocolVersion(b[0])
	b = b[requestHead:]
	for _, name := range [...]*[]byte{&r.ID, &r.Addr} {
		if b = cutName(b, name); b == nil {
			return errMessage
		}
	}
	n := 0
	for rest := b; len(rest) > 0; n++ {
		if rest = cutEntry(rest, &raft.Log{}); rest == nil {
			return errMessage
		}
	}
	if n == 0 {
		return nil
	}
	logs := make([]raft.Log, n)
	r.Entries = make([]*raft.Log, n)
	for i := range logs {
		b = cutEntry(b, &logs[i])
		r.Entries[i] = &logs[i]
	}
	return nil
}

// cutEntry reads the entry that b begins with, and returns what is behind it; nil if b does not begin with a whole entry.
func cutEntry(b []byte, e *raft.Log) (rest []byte) {
	if len(b) < entryHead {
		return nil
	}
	data, extensions := int64(binary.LittleEndian.Uint32(b[17:])), int64(binary.LittleEndian.Uint32(b[21:]))
	from, end := int64(entryHead)+data, int64(entryHead)+data+extensions
	if end > int64(len(b)) {
		return nil
	}
	e.Index, e.Term, e.Type = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), raft.LogType(b[16])
	if data > 0 {
		e.Data = b[entryHead:from:from]
	}
	if extensions > 0 {
		e.Extensions = b[from:end:end]
	}
	return b[end:]
}

// appendAnswer appends the answer to a request to b. err is Raft's, nil for none.
func appendAnswer(b []byte, r *raft.AppendEntriesResponse, err error) []byte {
	flags := byte(0)
	if r.Success {
		flags |= flagSuccess
	}
	if r.NoRetryBackoff {
		flags |= flagNoBackoff
	}
	b = append(b, byte(r.ProtocolVersion))
	b = binary.LittleEndian.AppendUint64(b, r.Term)
	b = binary.LittleEndian.AppendUint64(b, r.LastLog)
	b = appendName(appendName(append(b, flags), r.ID), r.Addr)
	if err != nil {
		b = append(b, err.Error()...)
	}
	return b
}

// parseAnswer reads an answer, which keeps nothing of b. It returns errMessage for bytes that are not an answer, and Raft's error of the other node.
func parseAnswer(b []byte, r *raft.AppendEntriesResponse) error {
	if len(b) < answerHead || b[17] > flagSuccess|flagNoBackoff {
		return errMessage
	}
	*r = raft.AppendEntriesResponse{Term: binary.LittleEndian.Uint64(b[1:]), LastLog: binary.LittleEndian.Uint64(b[9:])}
	r.ProtocolVersion, r.Success, r.NoRetryBackoff = raft.ProtocolVersion(b[0]), b[17]&flagSuccess != 0, b[17]&flagNoBackoff != 0
	b = b[answerHead:]
	for _, name := range [...]*[]byte{&r.ID, &r.Addr} {
		if b = cutName(b, name); b == nil {
			return errMessage
		}
		*name = append([]byte(nil), *name...)
	}
	if len(b) > 0 {
		return errors.New(string(b))
	}
	return nil
}

// appendName appends a name, of up to 65 535 bytes, with its length.
func appendName(b, name []byte) []byte {
	name = name[:min(len(name), 1<<16-1)]
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(name))), name...)
}

// cutName reads the name that b begins with, and returns what is behind it; nil if b does not begin with a whole name.
func cutName(b []byte, name *[]byte) (rest []byte) {
	if len(b) < 2 {
		return nil
	}
	end := 2 + int(binary.LittleEndian.Uint16(b))
	if end > len(b) {
		return nil
	}
	if end > 2 {
		*name = b[2:end:end]
	}
	return b[end:]
}
