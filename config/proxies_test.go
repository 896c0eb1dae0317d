package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestTrustedProxies(t *testing.T) {
	for _, c := range []struct{ words, want, err string }{
		{"", "[]", ""},
		{"10.0.0.0/8 192.0.2.7 ::1 fd00::/8", "[10.0.0.0/8 192.0.2.7/32 ::1/128 fd00::/8]", ""},
		{"10.0.0.1/8", "", `"10.0.0.1/8" has bits of an address in it: the network is 10.0.0.0/8`},
		{"proxy.example", "", `"proxy.example" is neither an IP address nor a network such as 10.0.0.0/8`},
		{"::ffff:10.0.0.1", "", `"::ffff:10.0.0.1" is neither an IP address nor a network such as 10.0.0.0/8`},
		{"10.0.0.0/33", "", `"10.0.0.0/33" is neither an IP address nor a network such as 10.0.0.0/8`},
	} {
		r, s := New()
		err := r.Set(Pair{"http-trusted-proxies", c.words})
		if err == nil && c.err != "" || err != nil && (c.err == "" || !strings.HasSuffix(err.Error(), c.err)) {
			t.Errorf("%q: %v, want %q", c.words, err, c.err)
		}
		if got := fmt.Sprint(s.TrustedProxies()); err == nil && got != c.want {
			t.Errorf("%q: %s, want %s", c.words, got, c.want)
		}
	}
}
