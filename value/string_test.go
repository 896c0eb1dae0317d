package value

import (
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
			if got := StringText(nil, body); string(got) != string(text) || StringLen(body) != len(text) || !Valid(String, body) {
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

func TestSetRange(t *testing.T) {
	got, err := SetRange([]byte("Hello World"), 6, []byte("Redis"))
	if string(got) != "Hello Redis" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err = SetRange(nil, 3, []byte("x")); string(got) != "\x00\x00\x00x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, at := range []int64{MaxString, math.MaxInt64} {
		if _, err = SetRange(nil, at, []byte("x")); !errors.Is(err, ErrTooLong) {
			t.Errorf("at %d: %v", at, err)
		}
	}
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
