package config

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

// kindCase is one text given to a handle. want is the canonical text, or the error if it begins with "!".
type kindCase struct {
	given string // words, separated by |
	want  string
	get   any
}

// try runs the cases on one handle; get reads it.
func try[T any](t *testing.T, h Handle, get func() T, same func(a T, b any) bool, cases []kindCase) {
	t.Helper()
	for _, c := range cases {
		text, err := h.parse(strings.Split(c.given, "|"))
		if wantErr, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || err.Error() != wantErr {
				t.Errorf("%q: error %v, want %q", c.given, err, wantErr)
			}
			continue
		}
		if err != nil || text != c.want {
			t.Errorf("%q: %q, %v; want %q", c.given, text, err, c.want)
			continue
		}
		h.store(text)
		if got := get(); !same(got, c.get) {
			t.Errorf("%q: Get returns %v, want %v", c.given, got, c.get)
		}
		if again, err := h.parse([]string{text}); err != nil || again != text {
			t.Errorf("%q: the canonical text %q reads back as %q, %v", c.given, text, again, err)
		}
	}
}

func equal[T comparable](a T, b any) bool { return a == b }

func TestInt(t *testing.T) {
	h := &Int{number{min: -1, max: 100}}
	try(t, h, h.Get, equal, []kindCase{
		{"7", "7", int64(7)},
		{"-1", "-1", int64(-1)},
		{"100", "100", int64(100)},
		{"007", "7", int64(7)},
		{"101", "!argument must be between -1 and 100 inclusive", nil},
		{"-2", "!argument must be between -1 and 100 inclusive", nil},
		{"", "!argument couldn't be parsed into an integer", nil},
		{"+7", "!argument couldn't be parsed into an integer", nil},
		{"7 ", "!argument couldn't be parsed into an integer", nil},
		{"0x7", "!argument couldn't be parsed into an integer", nil},
		{"1_0", "!argument couldn't be parsed into an integer", nil},
		{"9223372036854775808", "!argument couldn't be parsed into an integer", nil},
		{"1|2", "!one value is expected, not 2 (quote a value that has spaces)", nil},
	})
	if _, err := h.parse(nil); err == nil {
		t.Error("no value is accepted")
	}
}

func TestOctal(t *testing.T) {
	h := &Int{number{min: 0, max: 0o777, octal: true}}
	try(t, h, h.Get, equal, []kindCase{
		{"770", "770", int64(0o770)},
		{"0", "0", int64(0)},
		{"0755", "755", int64(0o755)},
		{"1000", "!argument must be between 0 and 777 inclusive", nil},
		{"8", "!argument couldn't be parsed as an octal number", nil},
	})
}

func TestBudget(t *testing.T) {
	h := &Budget{number: number{max: 1 << 40}}
	h.Find(77)
	try(t, h, h.Get, equal, []kindCase{
		{"0", "0", int64(0)},
		{"auto", "auto", int64(77)},
		{"2kb", "2048", int64(2048)},
		{"AUTO", "auto", int64(77)},
		{"60%", "!argument must be a memory value", nil},
		{"-1", "!argument must be a memory value", nil},
		{"1025gb", "!argument must be between 0 and 1099511627776 inclusive", nil},
		{"auto|1", "!one value is expected, not 2 (quote a value that has spaces)", nil},
	})
	for text, want := range map[string]string{"auto": "auto", "2048": "2kb"} {
		if got := h.spell(text); got != want {
			t.Errorf("%s is written as %s, want %s", text, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	h := &Bytes{number{min: 0, max: 1 << 62}}
	cases := []kindCase{
		{"9223372036854775807", "!argument must be between 0 and 4611686018427387904 inclusive", nil},
		{"9223372036854775808", "!argument must be a memory value", nil},
		{"9223372036854775807kb", "!argument must be a memory value", nil},
		{"8589934592gb", "!argument must be a memory value", nil},
		{"-1", "!argument must be a memory value", nil},
		{"kb", "!argument must be a memory value", nil},
		{"", "!argument must be a memory value", nil},
		{"1 kb", "!argument must be a memory value", nil},
		{"1.5gb", "!argument must be a memory value", nil},
		{"5%", "!argument must be a memory value", nil},
		{"1tb", "!argument must be a memory value", nil},
	}
	units := map[string]int64{
		"": 1, "b": 1, "k": 1000, "K": 1000, "kb": 1024, "KB": 1024, "m": 1000_000, "mb": 1024 * 1024,
		"Mb": 1024 * 1024, "g": 1000_000_000, "gb": 1024 * 1024 * 1024,
	}
	for unit, size := range units {
		cases = append(cases, kindCase{"3" + unit, strconv.FormatInt(3*size, 10), 3 * size})
	}
	try(t, h, h.Get, equal, cases)
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1: "1", 1000: "1000", 1024: "1kb", 1536: "1536", 64 << 20: "64mb", 3 << 30: "3gb", 1 << 40: "1024gb",
	} {
		if got := formatSize(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	h := &Duration{number: number{min: 0, max: 60}, unit: time.Second}
	cases := []kindCase{
		{"60", "60", time.Minute},
		{"0", "0", time.Duration(0)},
		{"61", "!argument must be between 0 and 60 inclusive", nil},
		{"1s", "!argument couldn't be parsed into an integer", nil},
		{"+1", "!argument couldn't be parsed into an integer", nil},
	}
	try(t, h, h.Get, equal, cases)
	ms := &Duration{number: number{max: 60}, unit: time.Millisecond}
	try(t, ms, ms.Get, equal, []kindCase{{"60", "60", 60 * time.Millisecond}})
}

func TestBool(t *testing.T) {
	h := &Bool{}
	try(t, h, h.Get, equal, []kindCase{
		{"yes", "yes", true},
		{"no", "no", false},
		{"YES", "yes", true},
		{"true", "!argument must be 'yes' or 'no'", nil},
		{"1", "!argument must be 'yes' or 'no'", nil},
		{"", "!argument must be 'yes' or 'no'", nil},
	})
}

func TestEnum(t *testing.T) {
	h := &Enum{values: []string{"debug", "notice"}}
	try(t, h, h.Get, equal, []kindCase{
		{"debug", "debug", "debug"},
		{"Notice", "notice", "notice"},
		{"not", "!argument(s) must be one of the following: debug, notice", nil},
		{"debug|notice", "!one value is expected, not 2 (quote a value that has spaces)", nil},
	})
}

func TestText(t *testing.T) {
	h := &Text{}
	try(t, h, h.Get, equal, []kindCase{
		{"", "", ""},
		{"a b", "a b", "a b"},
		{"\xff\n", "\xff\n", "\xff\n"},
		{"a\x00", "!argument must not contain a NUL byte", nil},
		{"a|b", "!one value is expected, not 2 (quote a value that has spaces)", nil},
	})
}

func TestWords(t *testing.T) {
	h := &Words{}
	same := func(a []string, b any) bool { return strings.Join(a, "|") == b }
	try(t, h, h.Get, same, []kindCase{
		{"", "", ""},
		{"a b", "a b", "a|b"},
		{"a| b  c |d", "a b c d", "a|b|c|d"},
		{"a\x00", "!argument must not contain a NUL byte", nil},
	})
}

func TestOutputLimit(t *testing.T) {
	const (
		count = "!Wrong number of arguments in buffer limit configuration: give one size, or a class, a hard limit, a soft limit and seconds"
		soft  = "!Error in hard, soft or soft_seconds setting in buffer limit configuration"
	)
	h := &OutputLimit{min: 1000, max: 1 << 30}
	normal := func() int64 { return h.Get(NormalClient).Hard }
	try(t, h, normal, equal, []kindCase{
		{"1mb", "normal 1048576 0 0 slave 1048576 0 0 pubsub 1048576 0 0", int64(1 << 20)},
		{"normal 1mb 0 0", "normal 1048576 0 0 slave 0 0 0 pubsub 0 0 0", int64(1 << 20)},
		{"normal|2000|0|0", "normal 2000 0 0 slave 0 0 0 pubsub 0 0 0", int64(2000)},
		{"normal 0 0 0 replica 1mb 512kb 60", "normal 0 0 0 slave 1048576 524288 60 pubsub 0 0 0", int64(0)},
		{"PubSub 32mb 8mb 60 slave 2000 0 60 normal 3000 7 5", "normal 3000 7 5 slave 2000 0 60 pubsub 33554432 8388608 60", int64(3000)},
		{"999", "!argument must be 0 or between 1000 and 1073741824 inclusive", nil},
		{"normal 999 0 0", "!argument must be 0 or between 1000 and 1073741824 inclusive", nil},
		{"many", "!argument must be a memory value", nil},
		{"", count, nil},
		{"normal 1mb 0", count, nil},
		{"master 1mb 0 0", `!Invalid client class specified in buffer limit configuration: "master" (normal, replica and pubsub are known)`, nil},
		{"normal 1mb 0 -1", soft, nil},
		{"normal 1mb 2gb 1", soft, nil},
		{"normal 1mb x 1", "!argument must be a memory value", nil},
	})
	h.store("normal 0 0 0 slave 0 0 0 pubsub 33554432 8388608 60")
	if got, want := h.Get(PubSubClient), (BufferLimit{32 << 20, 8 << 20, time.Minute}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestShare(t *testing.T) {
	h := &Share{number{max: 1 << 30}}
	of1000 := func() int64 { return h.Get(1000) }
	try(t, h, of1000, equal, []kindCase{
		{"0", "0", int64(0)},
		{"10", "10", int64(10)},
		{"1kb", "1024", int64(1024)},
		{"0%", "0%", int64(0)},
		{"10%", "10%", int64(100)},
		{"100%", "100%", int64(1000)},
		{"101%", "!argument must be a memory or percent value", nil},
		{"-1%", "!argument must be a memory or percent value", nil},
		{"%", "!argument must be a memory or percent value", nil},
		{"1.5%", "!argument must be a memory or percent value", nil},
		{"2gb", "!argument must be between 0 and 1073741824 inclusive", nil},
		{"many", "!argument must be a memory or percent value", nil},
	})
	h.store("99%")
	if got, want := h.Get(math.MaxInt64), int64(math.MaxInt64/100*99+math.MaxInt64%100*99/100); got != want {
		t.Errorf("99%% of all: %d, want %d", got, want)
	}
	if h.Get(-1) != 0 {
		t.Error("a share of less than nothing")
	}
}
