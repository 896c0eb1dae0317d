package journal

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A Change does to a body what its splices say, whatever they are.
func TestChangesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]byte{17, 25, 96, 97, 102, 103}).Draw(t, "kind")
		head := rapid.SliceOfN(rapid.Byte(), HeadSize(kind), HeadSize(kind)).Draw(t, "head")
		body := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")
		want := slices.Clone(body)
		var splices []byte
		most := len(body)
		for range rapid.IntRange(0, 8).Draw(t, "splices") {
			at := rapid.IntRange(0, len(want)).Draw(t, "at")
			del := rapid.IntRange(0, len(want)-at).Draw(t, "del")
			ins := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 200), rapid.SliceOfN(rapid.Byte(), del, del)).Draw(t, "ins")
			want = slices.Concat(want[:at], ins, want[at+del:])
			splices = AppendSplice(splices, at, del, ins)
			most = max(most, len(want))
		}
		var b Buffer
		b.Change(7, kind, []byte("key"), head, len(body), splices)
		for cut := range b.Bytes {
			if _, _, err := Parse(b.Bytes[:cut]); err == nil {
				t.Fatalf("parsed from its first %d bytes", cut)
			}
		}
		r, rest, err := Parse(append(b.Bytes, 1))
		if err != nil || len(rest) != 1 || r.Op != Change || r.Kind != kind || r.Version != 7 || string(r.Key) != "key" {
			t.Fatalf("%+v, %v", r, err)
		}
		e := r.Edit()
		if !bytes.Equal(e.Head, head) || e.Before != len(body) || e.After != len(want) || e.Most != most {
			t.Fatalf("%+v, want %d, %d, %d", e, len(body), len(want), most)
		}
		if got := e.Apply(append(make([]byte, 0, most), body...)); !bytes.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
	})
}

// A Change, byte by byte. FORMAT.md says the same.
func TestBytesOfAChange(t *testing.T) {
	var b Buffer
	b.Change(7, 101, []byte("k"), []byte{3, 0, 0, 0}, 300, AppendSplice(AppendSplice(nil, 300, 0, []byte("\x02new")[:4]), 0, 4, []byte{9, 0, 0, 0}))
	want := "\x94\x03\x01" + "\x01" + "\x15" + "\x07" + "\x03\x00\x00\x00" + "\xac\x02" + "\xac\x02\x00\x04\x02new" + "\x00\x04\x04\x09\x00\x00\x00" + "k"
	if string(b.Bytes) != want {
		t.Errorf("%x, want %x", b.Bytes, want)
	}
}

func TestParseRefusesChanges(t *testing.T) {
	for name, splice := range map[string][]byte{
		"a splice behind the end":         AppendSplice(nil, 301, 0, nil),
		"more deleted than there is":      AppendSplice(nil, 299, 2, nil),
		"one that only the next one fits": AppendSplice(AppendSplice(nil, 0, 1, nil), 300, 0, nil),
		"half a splice":                   AppendSplice(nil, 1, 2, []byte("new"))[:4],
		"a number of 2 GB":                AppendSplice(nil, 1<<31, 0, nil),
		"a longer number than it needs":   {0x81, 0, 0, 0},
	} {
		var b Buffer
		b.Change(7, 100, []byte("k"), make([]byte, 12), 300, splice)
		if r, _, err := Parse(b.Bytes); err != ErrRecord {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for name, b := range map[string][]byte{
		"without a head":  func() []byte { var b Buffer; b.Change(7, 100, []byte("k"), nil, 0, nil); return b.Bytes }(),
		"a body too long": func() []byte { var b Buffer; b.Change(7, 101, nil, make([]byte, 4), maxBody+1, nil); return b.Bytes }(),
	} {
		if r, _, err := Parse(b); err != ErrRecord {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for _, kind := range []byte{1, 9, 16, 20, 65, 200} { // a newer version may change these in parts
		var b Buffer
		b.Change(7, kind, []byte("k"), nil, 0, nil)
		if r, _, err := Parse(b.Bytes); err != ErrNewer {
			t.Errorf("of kind %d: %+v, %v", kind, r, err)
		}
	}
}
