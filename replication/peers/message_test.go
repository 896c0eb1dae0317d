package peers

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// drawName draws a name of a message, nil for an empty one.
func drawName(t *rapid.T, label string) []byte {
	n := rapid.SampledFrom([]int{0, 1, 20, 255, 256, 1<<16 - 1}).Draw(t, label)
	if n == 0 {
		return nil
	}
	return bytes.Repeat([]byte{byte(n)}, n)
}

func drawHeader(t *rapid.T) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersion(rapid.IntRange(0, 255).Draw(t, "version")), ID: drawName(t, "id"), Addr: drawName(t, "address")}
}

// A message arrives as it was sent, but for AppendedAt and Leader.
func TestMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64()
		req := raft.AppendEntriesRequest{
			RPCHeader: drawHeader(t), Term: n.Draw(t, "term"), PrevLogEntry: n.Draw(t, "previous"), PrevLogTerm: n.Draw(t, "its term"),
			LeaderCommitIndex: n.Draw(t, "commit"),
		}
		for range rapid.IntRange(0, 5).Draw(t, "entries") {
			req.Entries = append(req.Entries, &raft.Log{
				Index: n.Draw(t, "index"), Term: n.Draw(t, "of term"), Type: raft.LogType(rapid.IntRange(0, 255).Draw(t, "type")), Data: drawName(t, "data"), Extensions: drawName(t, "extensions"),
			})
		}
		var got raft.AppendEntriesRequest
		if err := parseRequest(appendRequest(nil, &req), &got); err != nil || !reflect.DeepEqual(got, req) {
			t.Fatalf("%+v instead of %+v, %v", got, req, err)
		}
		answer := raft.AppendEntriesResponse{RPCHeader: drawHeader(t), Term: n.Draw(t, "term"), LastLog: n.Draw(t, "last"), Success: rapid.Bool().Draw(t, "success"), NoRetryBackoff: rapid.Bool().Draw(t, "at once")}
		var theirs error
		if rapid.Bool().Draw(t, "error") {
			theirs = errors.New("refused")
		}
		var told raft.AppendEntriesResponse
		if err := parseAnswer(appendAnswer(nil, &answer, theirs), &told); (err == nil) != (theirs == nil) || err != nil && err.Error() != "refused" || !reflect.DeepEqual(told, answer) {
			t.Fatalf("%+v instead of %+v, %v", told, answer, err)
		}
	})
}

// Bytes that are a request are exactly one.
func FuzzRequest(f *testing.F) {
	f.Add(appendRequest(nil, &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("a@1"), Addr: []byte("127.0.0.1:1")}, Term: 7, PrevLogEntry: 8, PrevLogTerm: 6, LeaderCommitIndex: 8,
		Entries: []*raft.Log{{Index: 9, Term: 7, Data: []byte("data")}, {Index: 10, Term: 7, Type: raft.LogNoop, Extensions: []byte("x")}},
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var req raft.AppendEntriesRequest
		if err := parseRequest(b, &req); err == nil && !bytes.Equal(appendRequest(nil, &req), b) {
			t.Errorf("%x is read as %+v", b, req)
		}
	})
}

// Bytes that are an answer are exactly one.
func FuzzAnswer(f *testing.F) {
	f.Add(appendAnswer(nil, &raft.AppendEntriesResponse{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("a@1"), Addr: []byte("127.0.0.1:1")}, Term: 7, LastLog: 9, Success: true}, nil))
	f.Add(appendAnswer(nil, &raft.AppendEntriesResponse{NoRetryBackoff: true}, errors.New("an error")))
	f.Fuzz(func(t *testing.T, b []byte) {
		var answer raft.AppendEntriesResponse
		if err := parseAnswer(b, &answer); !errors.Is(err, errMessage) && !bytes.Equal(appendAnswer(nil, &answer, err), b) {
			t.Errorf("%x is read as %+v, %v", b, answer, err)
		}
	})
}
