package journal

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// add adds r, without the fields that its op does not have.
func add(b *Buffer, r *Record) {
	switch r.Op {
	case Set:
		b.Set(r.Version, r.Kind, r.Key, r.State)
	case Delete:
		b.Delete(r.Version, r.Kind, r.Key)
	case Flush:
		b.Flush(r.Version)
	case Change:
		e := r.Edit()
		b.Change(r.Version, r.Kind, r.Key, e.Head, e.Before, e.splices)
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Buffer{Bytes: []byte("before")}
		b.Reset(len("before"))
		var want []Record
		flushed := uint64(0)
		for range rapid.IntRange(1, 5).Draw(t, "records") {
			r := Record{
				Op: Op(rapid.IntRange(1, 3).Draw(t, "op")), Kind: rapid.Byte().Draw(t, "kind"),
				Version: rapid.Uint64().Draw(t, "version"), Key: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "key"),
			}
			r.State = rapid.SliceOfN(rapid.Byte(), max(expirySize, HeadSize(r.Kind)), 300).Draw(t, "state")
			at := len(b.Bytes)
			add(&b, &r)
			if r.Op != Flush && rapid.IntRange(0, 4).Draw(t, "taken back") == 0 {
				n := len(b.Bytes) - at
				add(&b, &Record{Op: Delete, Key: []byte("behind")})
				b.Cut(at, n)
				want = append(want, Record{Op: Delete, Key: []byte("behind")})
				continue
			}
			switch r.Op {
			case Delete:
				r.State = nil
			case Flush:
				r.Kind, r.Key, r.State = 0, nil, nil
				flushed = max(flushed, r.Version)
			}
			want = append(want, r)
		}
		all := Buffer{Bytes: []byte("behind this")}
		all.Add(&b)
		if all.Records != len(want) || all.Flushed != flushed || !bytes.HasPrefix(all.Bytes, []byte("behind thisbefore")) {
			t.Fatalf("%+v", all)
		}
		rest := all.Bytes[len("behind thisbefore"):]
		for i, w := range want {
			r, after, err := Parse(rest)
			if err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
			if r.Op != w.Op || r.Kind != w.Kind || r.Version != w.Version || !bytes.Equal(r.Key, w.Key) || !bytes.Equal(r.State, w.State) {
				t.Fatalf("record %d: %+v, want %+v", i, r, w)
			}
			size := len(rest) - len(after)
			if size < MinSize {
				t.Fatalf("record %d has %d bytes", i, size)
			}
			for cut := range size {
				if _, _, err := Parse(rest[:cut]); err == nil {
					t.Fatalf("record %d parsed from its first %d bytes", i, cut)
				}
			}
			rest = after
		}
		if len(rest) != 0 {
			t.Fatalf("%d bytes left", len(rest))
		}
	})
}

func TestParseRefuses(t *testing.T) {
	state := "12345678"
	for name, b := range map[string]string{
		"no kind of a set":              "\x80\x08\x01\x08\x01" + state + "k",
		"a state without expiry":        "\x05\x01\x07\x01" + "1234567" + "k",
		"a flush with a kind":           "\x07\x01",
		"a state of 4 GB in 8":          "\x05\x01\xff\xff\xff\xff\x0f\x01" + state,
		"lengths that add up to 0":      "\x05\x10\xf8\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01" + state,
		"a key longer than is left":     "\x06\x09\x01" + state,
		"a key of 65 536 bytes":         "\x06\x80\x80\x04\x01" + string(make([]byte, 1<<16)),
		"a length longer than it need":  "\x05\x81\x00\x08\x01" + state + "k",
		"a version longer than it need": "\x05\x01\x08\x81\x00" + state + "k",
		"a version of 65 bits":          "\x05\x01\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02" + state + "k",
	} {
		if r, _, err := Parse([]byte(b)); err != ErrRecord {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for kind, timed := range map[byte]bool{1: true, 31: true, 63: true, 64: true, 65: false, 126: true, 127: false, 128: false, 255: false} {
		var b Buffer
		b.Set(1, kind, []byte("k"), nil)
		r, _, err := Parse(b.Bytes)
		if (err != nil) != (timed || InParts(kind)) || Timed(kind) != timed {
			t.Errorf("a state of kind %d without expiry: %v", kind, err)
		}
		if err == nil && r.Expires() != math.MaxInt64 {
			t.Errorf("a state of kind %d expires at %d", kind, r.Expires())
		}
	}
}

// An unknown operation comes from a newer version; it is not damage.
func TestReservedOperations(t *testing.T) {
	for _, b := range []string{"\x04\x02\x01\x08\x01" + "12345678" + "k", "\x00\x00", "\x80\x03\x07"} {
		if r, _, err := Parse([]byte(b)); err != ErrNewer {
			t.Errorf("%x: %+v, %v", b, r, err)
		}
	}
}

// A record, byte by byte. FORMAT.md says the same.
func TestBytesOfRecords(t *testing.T) {
	for want, add := range map[string]func(*Buffer){
		"\x05\x01\x08\x07" + "12345678" + "k":          func(b *Buffer) { b.Set(7, 1, []byte("k"), []byte("12345678")) },
		"\xa1\x06\x01\x00\x80\x01" + "k":               func(b *Buffer) { b.Set(128, 200, []byte("k"), nil) },
		"\x26\x03\x00" + "key":                         func(b *Buffer) { b.Delete(0, 9, []byte("key")) },
		"\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": func(b *Buffer) { b.Flush(1<<64 - 1) },
	} {
		var b Buffer
		if add(&b); string(b.Bytes) != want {
			t.Errorf("%x, want %x", b.Bytes, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	var set, two, foreign Buffer
	set.Set(7, 1, []byte("user:1"), []byte("12345678"))
	two.Flush(9)
	two.Delete(10, 1, []byte("user:1"))
	foreign.Set(7, 200, nil, nil)
	f.Add(set.Bytes)
	f.Add(two.Bytes)
	f.Add(foreign.Bytes[:3])
	var change Buffer
	change.Change(7, 96, []byte("k"), []byte("12345678abcd"), 300, AppendSplice(nil, 4, 2, []byte("new")))
	f.Add(change.Bytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := Parse(b)
		if err != nil {
			return
		}
		var again Buffer
		add(&again, &r)
		if !bytes.Equal(again.Bytes, b[:len(b)-len(rest)]) {
			t.Fatalf("%x was read as %x", b, again.Bytes)
		}
		_ = r.Op != Set || r.Expires() != 0
	})
}
