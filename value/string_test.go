package value

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestStringsKeepTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := words().Draw(t, "text")
		n := rapid.Int64().Draw(t, "n")
		for _, body := range [][]byte{AppendString(nil, text), AppendText(nil, text), AppendRaw(nil, text)} {
			if got := StringText(nil, body); string(got) != string(text) || StringLen(body) != len(text) || !valid(String, body) {
				t.Fatalf("%q became %q", text, got)
			}
		}
		body := AppendCounter(nil, n)
		got, err := StringInt(body)
		if want := strconv.FormatInt(n, 10); err != nil || got != n || string(StringText(nil, body)) != want || StringLen(body) != len(want) {
			t.Fatalf("%d became %q", n, body)
		}
		if string(AppendString(nil, strconv.AppendInt(nil, n, 10))) != string(body) {
			t.Fatalf("%d has two bodies", n)
		}
	})
}

func TestCountersAreShort(t *testing.T) {
	for n, want := range map[int64]int{0: 1, 1: 2, -1: 2, 127: 2, 128: 3, -128: 2, -129: 3, 1 << 40: 7, math.MaxInt64: 9, math.MinInt64: 9} {
		if got := len(AppendCounter(nil, n)); got != want {
			t.Errorf("%d has %d bytes, not %d", n, got, want)
		}
	}
}

func TestStringEncoding(t *testing.T) {
	for text, want := range map[string]string{
		"": "embstr", "0": "int", "-1": "int", "01": "embstr", "+1": "embstr", " 1": "embstr",
		"9223372036854775807": "int", "9223372036854775808": "embstr",
		strings.Repeat("x", 44): "embstr", strings.Repeat("x", 45): "raw",
	} {
		if got := StringEncoding(AppendString(nil, []byte(text))); got != want {
			t.Errorf("%q: %s, not %s", text, got, want)
		}
	}
	if got := StringEncoding(AppendRaw(nil, []byte("1"))); got != "raw" {
		t.Error(got)
	}
}

func TestAdd(t *testing.T) {
	for _, c := range []struct {
		a, b int64
		ok   bool
	}{{1, 2, true}, {math.MaxInt64, 1, false}, {math.MaxInt64, 0, true}, {math.MinInt64, -1, false}, {math.MinInt64, math.MaxInt64, true}, {-1, math.MinInt64, false}} {
		if got, err := Add(c.a, c.b); (err == nil) != c.ok || c.ok && got != c.a+c.b {
			t.Errorf("%d + %d: %d, %v", c.a, c.b, got, err)
		}
	}
}

// Overwrite writes over the text, and its splices do the same to the body.
func TestOverwrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "text")
		body := rapid.SampledFrom([][]byte{nil, AppendCounter(nil, -1234), AppendText(nil, text), AppendRaw(nil, text)}).Draw(t, "body")
		part := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "part")
		at := rapid.IntRange(0, 80).Draw(t, "at")
		want := StringText(nil, body)
		for len(want) < at+len(part) {
			want = append(want, 0)
		}
		copy(want[at:], part)
		now, splices := Overwrite(make([]byte, 3, 40), body, at, part, nil)
		if got := StringText(nil, now); !bytes.Equal(got, want) || StringEncoding(now) != "raw" {
			t.Fatalf("%q, want %q", got, want)
		}
		inserted := 0
		for _, s := range splices {
			body = s.apply(body)
			inserted += len(s.Ins)
		}
		if !bytes.Equal(body, now) {
			t.Fatalf("the splices %v lead to %q, want %q", splices, body, now)
		}
		if most := len(part) + max(0, at-len(text)) + 1; len(body) > 30 && inserted > max(most, 6+at+len(part)) {
			t.Fatalf("%d bytes are inserted, of %d", inserted, most)
		}
	})
}

// The sums are those of Redis 7.0 on x86-64, which has printed them for this test.
func TestFloats(t *testing.T) {
	for _, c := range [][3]string{
		{"10.50", "0.1", "10.6"},
		{"5.0e3", "2.0e2", "5200"},
		{"0", "0.1", "0.1"},
		{"3.0", "1.1", "4.1"},
		{"-0", "0", "0"},
		{"1", "1e-20", "1"},
		{"1e17", "0.3", "100000000000000000.296875"},
	} {
		a, err := ParseFloat([]byte(c[0]))
		if err != nil {
			t.Fatal(err)
		}
		b, err := ParseFloat([]byte(c[1]))
		if err != nil {
			t.Fatal(err)
		}
		sum, err := a.Plus(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(sum.Append(nil)); got != c[2] {
			t.Errorf("%s + %s = %s, not %s", c[0], c[1], got, c[2])
		}
	}
}

func TestWhatIsAFloat(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, " 1": false, "1 ": false, "1e": false, "1e5": true, ".5": true, "5.": true, ".": false, "+1": true, "--1": false, "nan": false,
		"0x10": true, "0x1.8p3": true, "0x": false, "1_0": false, "1e5000": false, "1e-5000": false, "0e99999999999999999999": true, "1e99999999999999999999": false,
		"inf": true, "-Infinity": true, "infinit": false, "1.2.3": false, "0b1": false, "1p3": false,
	} {
		f, err := ParseFloat([]byte(text))
		if (err == nil) != want {
			t.Errorf("float %q: %v", text, err)
		}
		x, err2 := ParseScore([]byte(text))
		if (err2 == nil) != want || err2 == nil && math.IsInf(x, 0) == f.Finite() {
			t.Errorf("score %q: %v, %v", text, x, err2)
		}
	}
	inf, _ := ParseFloat([]byte("inf"))
	if _, err := inf.Plus(inf); !errors.Is(err, ErrNaN) {
		t.Error(err)
	}
	largest, _ := ParseFloat([]byte("1.1e4932"))
	if _, err := largest.Plus(largest); !errors.Is(err, ErrNaN) {
		t.Error(err)
	}
}

func TestScoresAreWrittenAsByC(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 1: "1", 100: "100", 0.1: "0.10000000000000001", 1e17: "1e+17", 12345678901234567: "12345678901234568", 1e-5: "1.0000000000000001e-05", 3.5: "3.5", -1e300: "-1.0000000000000001e+300", 1e16: "10000000000000000",
	} {
		if got := string(AppendScore(nil, x)); got != want {
			t.Errorf("%v: %s, not %s", x, got, want)
		}
	}
}
