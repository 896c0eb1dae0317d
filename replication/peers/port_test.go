package peers

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"limitdb/internal/testnet"
)

// A connection comes to the layer of the group that its hello names. A layer that is closed takes its connections with it, and no others.
func TestConnectionsBelongToTheirGroup(t *testing.T) {
	p := newPeer(t, "p", nil) // group 1
	second := p.Port.Layer(2)
	second.Self = func() Hello { return Hello{From: "p@2", Cluster: "c", Reads: format, Writes: format} }
	second.Serve()
	t.Cleanup(func() { _ = second.Close() })
	from, err := Listen(testnet.FreeAddress(t), nil, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	callers := make([]*Layer, 4)
	for group := range callers {
		callers[group] = from.Layer(group)
		callers[group].Self = func() Hello { return Hello{From: "q@1", Cluster: "c", Reads: format, Writes: format} }
	}
	for group, want := range []string{"no replica of group 0", "", "another directory", "no replica of group 3"} { // p@1 is in group 1
		_, h, err := callers[group].Call(CallAsk, p.address, "p@1", deadline)
		if want == "" && (err != nil || h.Group != group) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("group %d: %+v, %v", group, h, err)
		}
	}
	one, _, err1 := callers[1].Call(CallRaft, p.address, "p@1", deadline)
	two, _, err2 := callers[2].Call(CallRaft, p.address, "p@2", deadline)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = one.Close(), two.Close() }()
	there1, err1 := p.Accept()
	there2, err2 := second.Accept()
	if err := errors.Join(err1, err2, second.Close()); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = there1.Close(), there2.Close() }()
	if _, err := two.Read(make([]byte, 1)); err == nil {
		t.Error("a connection of a layer that is closed stays open")
	}
	if _, err := there1.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := one.Read(make([]byte, 1)); err != nil {
		t.Errorf("a connection of another group: %v", err)
	}
	if _, _, err := callers[2].Call(CallAsk, p.address, "p@2", deadline); err == nil {
		t.Error("a layer that is closed answers")
	}
}
