package groups

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func fields(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Fields(s)
}

// A snapshot of a large cluster is small, and no bit of a snapshot may flip.
func TestSnapshot(t *testing.T) {
	d, err := Directory{}.Apply(Begin{64, 5, node("n000")})
	for i := 1; i < MaxNodes && err == nil; i++ {
		d, err = d.Apply(SetNode{node(fmt.Sprintf("n%03d", i))})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Apply(SetNode{node("more")}); !errors.Is(err, ErrInvalid) {
		t.Errorf("one node too many: %v", err)
	}
	b := AppendSnapshot(nil, d)
	if back, err := ReadSnapshot(b); err != nil || !reflect.DeepEqual(back, d) {
		t.Errorf("%v", err)
	}
	if len(b) > 10_000 {
		t.Errorf("%d bytes", len(b))
	}
	b = AppendSnapshot(nil, begun(t, "a", "b"))
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		if _, err := ReadSnapshot(b); err == nil {
			t.Errorf("bit %d flips, and nobody sees it", i)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	if _, err := ReadSnapshot(sealed(1, kindDrain, 1, 0, 'a', 1)); !errors.Is(err, ErrFormat) {
		t.Errorf("a record: %v", err)
	}
	if got, err := ReadSnapshot(AppendSnapshot(nil, Directory{})); err != nil || !reflect.DeepEqual(got, Directory{}) {
		t.Errorf("an empty directory: %+v, %v", got, err)
	}
	for what, change := range map[string]func(*Directory){
		"nodes not in their order":  func(d *Directory) { d.Nodes[0], d.Nodes[1] = d.Nodes[1], d.Nodes[0] },
		"a node twice":              func(d *Directory) { d.Nodes[1] = d.Nodes[0] },
		"no nodes":                  func(d *Directory) { d.Nodes = nil },
		"three groups":              func(d *Directory) { d.Places = append(d.Places, d.Places[1]) },
		"a foreign leader":          func(d *Directory) { d.Places[1].Leader = "b" },
		"a leader of group 0":       func(d *Directory) { d.Places[0].Leader = "a" },
		"joining elsewhere":         func(d *Directory) { d.Places[1].Joining = []string{"b"} },
		"leaving and there":         func(d *Directory) { d.Places[1].Leaving = []string{"a"} },
		"a place without nodes":     func(d *Directory) { d.Places[1].Nodes = nil },
		"version 0":                 func(d *Directory) { d.Places[1].Version = 0 },
		"revision 0":                func(d *Directory) { d.Revision = 0 },
		"two replicas":              func(d *Directory) { d.Replicas = 2 },
		"nodes without a beginning": func(d *Directory) { d.Places = nil },
	} {
		d := begun(t, "a", "b")
		change(&d)
		if _, err := ReadSnapshot(AppendSnapshot(nil, d)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzSnapshot reads any bytes. What is read is a directory that can be, with the bytes that it was read from.
func FuzzSnapshot(f *testing.F) {
	for _, d := range []Directory{{}, begun(f, "a"), begun(f, "a", "b", "c")} {
		b := AppendSnapshot(nil, d)
		f.Add(b[2 : len(b)-4])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = sealed(1, kindSnapshot, b...)
		d, err := ReadSnapshot(b)
		if err != nil {
			return
		}
		if again := AppendSnapshot(nil, d); !bytes.Equal(again, b) {
			t.Fatalf("%x is %+v, which is %x", b, d, again)
		}
		Next(d, Facts{})
	})
}
