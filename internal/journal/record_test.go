package journal

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b []byte
		var want []Record
		for range rapid.IntRange(1, 5).Draw(t, "records") {
			r := Record{
				Op: Op(rapid.IntRange(1, 3).Draw(t, "op")), Kind: rapid.Byte().Draw(t, "kind"),
				Version: rapid.Uint64().Draw(t, "version"),
				Key:     rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "key"), State: rapid.SliceOfN(rapid.Byte(), 8, 300).Draw(t, "state"),
			}
			switch r.Op {
			case Set:
				b = AppendSet(b, r.Version, r.Kind, r.Key, r.State)
			case Delete:
				r.State = nil
				b = AppendDelete(b, r.Version, r.Kind, r.Key)
			case Flush:
				r.Kind, r.Key, r.State = 0, nil, nil
				b = AppendFlush(b, r.Version)
			}
			want = append(want, r)
		}
		for i, w := range want {
			r, rest, err := Parse(b)
			if err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
			if r.Op != w.Op || r.Kind != w.Kind || r.Version != w.Version || !bytes.Equal(r.Key, w.Key) || !bytes.Equal(r.State, w.State) {
				t.Fatalf("record %d: %+v, want %+v", i, r, w)
			}
			for cut := range len(b) - len(rest) {
				if _, _, err := Parse(b[:cut]); err == nil {
					t.Fatalf("record %d parsed from its first %d bytes", i, cut)
				}
			}
			b = rest
		}
		if len(b) != 0 {
			t.Fatalf("%d bytes left", len(b))
		}
	})
}

func TestParseRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"no op":                     appendHeader(nil, 0, 1, 1, 0, 0),
		"an unknown op":             appendHeader(nil, 4, 1, 1, 0, 0),
		"a state without expiry":    append(appendHeader(nil, Set, 1, 1, 0, 7), make([]byte, 7)...),
		"a delete with a state":     append(appendHeader(nil, Delete, 1, 1, 0, 8), make([]byte, 8)...),
		"a flush with a key":        append(appendHeader(nil, Flush, 1, 0, 1, 0), 'k'),
		"a state of 4 GB in 8":      append(appendHeader(nil, Set, 1, 1, 0, 1<<32-1), make([]byte, 8)...),
		"a key longer than is left": append(appendHeader(nil, Delete, 1, 1, 9, 0), make([]byte, 8)...),
	} {
		if r, _, err := Parse(b); err != ErrRecord {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if _, _, err := Parse(AppendSet(nil, 1, Foreign, []byte("k"), nil)); err != nil {
		t.Errorf("a foreign state needs no expiry: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(AppendSet(nil, 7, 1, []byte("user:1"), []byte("12345678")))
	f.Add(AppendDelete(AppendFlush(nil, 9), 10, 1, []byte("user:1")))
	f.Add(AppendSet(nil, 7, 200, nil, nil)[:15])
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := Parse(b)
		if err != nil {
			return
		}
		var again []byte
		switch r.Op {
		case Set:
			again = AppendSet(nil, r.Version, r.Kind, r.Key, r.State)
		case Delete:
			again = AppendDelete(nil, r.Version, r.Kind, r.Key)
		case Flush:
			again = AppendFlush(nil, r.Version)
		}
		if !bytes.Equal(again, b[:len(b)-len(rest)]) {
			t.Fatalf("%x was read as %x", b, again)
		}
		_ = r.Op != Set || r.Expires() != 0
	})
}
