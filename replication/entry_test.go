package replication

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"limitdb/internal/journal"
)

func sameEntry(a, b entry) bool {
	return cmp.Equal(a, b, cmp.AllowUnexported(entry{}, id{}), cmp.Comparer(bytes.Equal))
}

func drawID(t *rapid.T, name string) id {
	return id{rapid.Uint64().Draw(t, name+" node"), rapid.Uint64Min(1).Draw(t, name+" nonce")}
}

func TestEntriesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := entry{format: 1, kind: kindBatch, epoch: drawID(t, "epoch"), clock: rapid.Int64().Draw(t, "clock")}
		if rapid.Bool().Draw(t, "an epoch") {
			e.kind = kindEpoch
			e.after = id{e.epoch.node, e.epoch.nonce - 1}
			e.address = rapid.StringN(0, 50, maxAddress).Draw(t, "address")
		} else {
			e.sequence = rapid.Uint64Min(1).Draw(t, "sequence")
			e.last = rapid.Bool().Draw(t, "last")
			e.records = rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "records")
		}
		b := e.appendTo([]byte("before"))[len("before"):]
		got, err := parseEntry(b)
		if err != nil || !sameEntry(got, e) {
			t.Fatalf("%+v, %v, want %+v", got, err, e)
		}
		for cut := range b {
			if _, err := parseEntry(b[:cut]); err == nil {
				t.Fatalf("parsed from its first %d bytes", cut)
			}
		}
		at := rapid.IntRange(0, len(b)*8-1).Draw(t, "bit")
		b[at/8] ^= 1 << (at % 8)
		if _, err := parseEntry(b); err == nil {
			t.Fatalf("parsed with bit %d flipped", at)
		}
	})
}

// The bytes of PROTOCOL.md.
func TestGoldenEntries(t *testing.T) {
	var records journal.Buffer
	records.Set(7, 1, []byte("k"), []byte("12345678"))
	for want, e := range map[string]entry{
		"0101 0000 00000000 0300000000000000 0900000000000000 0000000000000000 00e40b5402000000 d4bf1c0b 0200000000000000 0800000000000000 31302e302e302e333a36333830": {
			kind: kindEpoch, epoch: id{3, 9}, clock: 10_000_000_000, after: id{2, 8}, address: "10.0.0.3:6380",
		},
		"0102 0100 00000000 0300000000000000 0900000000000000 0100000000000000 01e40b5402000000 a0208b41 0501080731323334353637386b": {
			kind: kindBatch, epoch: id{3, 9}, sequence: 1, clock: 10_000_000_001, last: true, records: records.Bytes,
		},
	} {
		want = strings.ReplaceAll(want, " ", "")
		if got := hex.EncodeToString(e.appendTo(nil)); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// sign gives b the checksum that it ought to have.
func sign(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[crcAt:], checksum(b))
	return b
}

// Unknown bytes are an error. If only a newer version can have written them, the error says so.
func TestEntriesThatStopANode(t *testing.T) {
	batch := entry{kind: kindBatch, epoch: id{1, 2}, sequence: 1}
	epoch := entry{kind: kindEpoch, epoch: id{1, 2}, after: id{1, 1}}
	change := func(e entry, at int, to byte) []byte {
		b := e.appendTo(nil)
		b[at] = to
		return sign(b)
	}
	last := epoch
	last.last = true
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":                       {nil, ErrEntry},
		"a newer format, cut":           {[]byte{Format + 1}, ErrNewer},
		"format 0":                      {change(batch, 0, 0), ErrEntry},
		"an unknown kind":               {change(batch, 1, 3), ErrNewer},
		"kind 0":                        {change(batch, 1, 0), ErrNewer},
		"an unknown flag":               {change(batch, 2, 2), ErrNewer},
		"an unknown flag, high":         {change(batch, 3, 0x80), ErrNewer},
		"another group":                 {change(batch, 4, 1), ErrNewer},
		"a batch without an epoch":      {(&entry{kind: kindBatch, sequence: 1}).appendTo(nil), ErrEntry},
		"a batch without a number":      {(&entry{kind: kindBatch, epoch: id{1, 2}}).appendTo(nil), ErrEntry},
		"an epoch with a number":        {change(epoch, 24, 1), ErrEntry},
		"an epoch that follows itself":  {(&entry{kind: kindEpoch, epoch: id{1, 2}, after: id{1, 2}}).appendTo(nil), ErrEntry},
		"an epoch that ends a group":    {last.appendTo(nil), ErrEntry},
		"an epoch without what it must": {sign(epoch.appendTo(nil)[:entryHead+idSize-1]), ErrEntry},
		"an address that is too long":   {sign(append(epoch.appendTo(nil), make([]byte, maxAddress+1)...)), ErrEntry},
		"a wrong checksum":              {append(batch.appendTo(nil), 0), ErrEntry},
	} {
		if _, err := parseEntry(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func FuzzEntry(f *testing.F) {
	batch := entry{kind: kindBatch, epoch: id{1, 2}, sequence: 1, last: true, clock: 5}
	var records journal.Buffer
	records.Set(7, 1, []byte("k"), []byte("12345678"))
	batch.records = records.Bytes
	epoch := entry{kind: kindEpoch, epoch: id{1, 2}, after: id{1, 1}, address: "127.0.0.1:6380"}
	f.Add(batch.appendTo(nil))
	f.Add(epoch.appendTo(nil))
	f.Add([]byte{2})
	f.Add(bytes.Repeat([]byte{0xff}, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= entryHead && b[0] == Format { // else no input would come past the checksum
			sign(b)
		}
		e, err := parseEntry(b)
		if err != nil {
			return
		}
		if got := e.appendTo(nil); !bytes.Equal(got, b) {
			t.Fatalf("%x was read as %x", b, got)
		}
		m := machine{fence: fence{epoch: e.epoch, sequence: e.sequence - 1}}
		_, _ = m.apply(&e, 0)
	})
}

func FuzzFence(f *testing.F) {
	whole := fence{epoch: id{1, 2}, term: 3, sequence: 4, clock: 5, pending: 6, address: "a:1"}
	f.Add(whole.appendTo(nil))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseFence(b)
		if err != nil {
			return
		}
		if got := p.appendTo(nil); !bytes.Equal(got, b) {
			t.Fatalf("%x was read as %x", b, got)
		}
	})
}
