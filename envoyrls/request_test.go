package envoyrls

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

// wire returns the bytes of a request.
func wire(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// desc returns a descriptor of keys and values.
func desc(pairs ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func ask(domain string, hits uint32, all ...*common.RateLimitDescriptor) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: domain, HitsAddend: hits, Descriptors: all}
}

// modelCommand returns the words for a request that is decoded by its package.
func modelCommand(r *rls.RateLimitRequest) (words []string, ok bool) {
	if r.Domain == "" || len(r.Descriptors) == 0 || len(r.Descriptors) > maxDescriptors {
		return nil, false
	}
	words = []string{"RL.ENVOY", r.Domain, strconv.Itoa(len(r.Descriptors))}
	for _, d := range r.Descriptors {
		words = append(words, strconv.Itoa(len(d.Entries)))
		for _, e := range d.Entries {
			words = append(words, e.Key, e.Value)
		}
		hits := uint64(max(1, r.HitsAddend))
		if d.HitsAddend != nil {
			hits = d.HitsAddend.Value
		}
		if hits != 1 {
			words = append(words, "HITS", strconv.FormatUint(min(hits, 1<<63-1), 10))
		}
		if d.IsNegativeHits {
			words = append(words, "REFUND")
		}
		if l := d.Limit; l != nil {
			name := typev3.RateLimitUnit_name[int32(l.Unit)]
			if name == "" || name == "UNKNOWN" || l.UnitMultiplier != nil && l.UnitMultiplier.Value != 1 {
				return nil, false
			}
			words = append(words, "LIMIT", strconv.FormatUint(uint64(l.RequestsPerUnit), 10), name)
		}
	}
	return words, true
}

// compare checks that command reads a message as its package does.
func compare(t interface{ Fatalf(string, ...any) }, message []byte) {
	got, err := command(message)
	r := new(rls.RateLimitRequest)
	if proto.Unmarshal(message, r) != nil {
		return // also for texts that are not UTF-8, which command takes as they are
	}
	want, ok := modelCommand(r)
	var text []string
	for _, w := range got {
		text = append(text, string(w))
	}
	if (err == nil) != ok || ok && strings.Join(text, "\x00") != strings.Join(want, "\x00") {
		t.Fatalf("%x is %q %v, want %q %v", message, text, err, want, ok)
	}
}

func TestCommand(t *testing.T) {
	limited := desc("a", "b")
	limited.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1<<32 - 1, Unit: typev3.RateLimitUnit_YEAR}
	for _, c := range []struct {
		name string
		in   *rls.RateLimitRequest
		want string // words, or an error after -
	}{
		{"one", ask("edge", 0, desc("ip", "a")), "RL.ENVOY edge 1 1 ip a"},
		{"several", ask("edge", 1, desc("ip", "a", "path", "/"), desc()), "RL.ENVOY edge 2 2 ip a path / 0"},
		{"empty texts", ask("edge", 0, desc("", "")), "RL.ENVOY edge 1 1  "},
		{"hits of all", ask("edge", 1<<32-1, desc("ip", "a")), "RL.ENVOY edge 1 1 ip a HITS 4294967295"},
		{"hits of one", ask("edge", 7, &common.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(1 << 63)}, desc()), "RL.ENVOY edge 2 0 HITS 9223372036854775807 0 HITS 7"},
		{"a look", ask("edge", 7, &common.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(0)}), "RL.ENVOY edge 1 0 HITS 0"},
		{"given back", ask("edge", 2, &common.RateLimitDescriptor{IsNegativeHits: true}), "RL.ENVOY edge 1 0 HITS 2 REFUND"},
		{"a limit", ask("edge", 0, limited), "RL.ENVOY edge 1 1 a b LIMIT 4294967295 YEAR"},
		{"a limit without a unit", ask("edge", 0, &common.RateLimitDescriptor{Limit: &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}}), "-the limit of a descriptor needs a unit"},
		{"no domain", ask("", 0, desc()), "-the domain is empty"},
		{"no descriptor", ask("edge", 0), "-there is no descriptor"},
		{"10 000 descriptors", ask("edge", 0, make([]*common.RateLimitDescriptor, 10_000)...), "-a request has at most 1024 descriptors"},
		{"too many entries", ask("edge", 0, desc(make([]string, 70_000)...)), "-the request has too many entries: the command for it may have 65536 words"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, d := range c.in.Descriptors {
				if d == nil {
					c.in.Descriptors[i] = desc()
				}
			}
			message := wire(t, c.in)
			words, err := command(message)
			got := string(bytes.Join(words, []byte(" ")))
			if err != nil {
				got = "-" + err.Error()
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if c.want[0] != '-' {
				compare(t, message)
			}
		})
	}
}

// TestCommandHoldsLittle sends as many entries as a message of 4 MB can have: two bytes each, in one descriptor and each in one of its own.
func TestCommandHoldsLittle(t *testing.T) {
	entry := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nil)
	one := protowire.AppendBytes(protowire.AppendTag([]byte("\x0a\x01d"), 2, protowire.BytesType), bytes.Repeat(entry, maxMessage/2))
	many := append([]byte("\x0a\x01d"), bytes.Repeat([]byte("\x12\x00"), maxMessage/2)...)
	for _, message := range [][]byte{one, many} {
		var err error
		held := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				_, err = command(message)
			}
		}).AllocedBytesPerOp()
		if err == nil || held > 8<<20 {
			t.Errorf("%v, and %d bytes", err, held)
		}
	}
}

// TestCommandOfAnyRequest draws requests, also with unknown fields, repeated fields and cut ends.
func TestCommandOfAnyRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &rls.RateLimitRequest{Domain: rapid.StringN(0, 3, 8).Draw(t, "domain"), HitsAddend: rapid.Uint32().Draw(t, "hits")}
		for range rapid.IntRange(0, 4).Draw(t, "descriptors") {
			d := desc(rapid.SliceOfN(rapid.StringN(0, 2, 8), 4, 4).Draw(t, "entries")[:rapid.IntRange(0, 2).Draw(t, "n")*2]...)
			if rapid.Bool().Draw(t, "own hits") {
				d.HitsAddend = wrapperspb.UInt64(rapid.Uint64().Draw(t, "hits"))
			}
			d.IsNegativeHits = rapid.Bool().Draw(t, "negative")
			if rapid.Bool().Draw(t, "limit") {
				d.Limit = &common.RateLimitDescriptor_RateLimitOverride{
					RequestsPerUnit: rapid.Uint32().Draw(t, "requests"), Unit: typev3.RateLimitUnit(rapid.IntRange(0, 7).Draw(t, "unit")),
				}
			}
			r.Descriptors = append(r.Descriptors, d)
		}
		b, err := proto.Marshal(r)
		if err != nil {
			t.Skip(err)
		}
		if rapid.Bool().Draw(t, "unknown fields") {
			b = protowire.AppendFixed64(protowire.AppendTag(b, 99, protowire.Fixed64Type), 1)
		}
		compare(t, b[:rapid.IntRange(0, len(b)).Draw(t, "length")])
		compare(t, b)
	})
}

func FuzzCommand(f *testing.F) {
	f.Add(wire(f, ask("edge", 3, desc("a", "b", "c", "d"), desc())))
	f.Add([]byte("\x0a\x01d\x12\x04\x0a\x02\x0a\x00"))
	f.Fuzz(func(t *testing.T, b []byte) { compare(t, b) })
}
