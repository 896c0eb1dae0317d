package script

import (
	"sync/atomic"
	"testing"
)

// BenchmarkRun measures scripts that spend their time in one part: tables, strings, and commands.
func BenchmarkRun(b *testing.B) {
	for _, part := range []struct{ name, source string }{
		{"tables", `local t = {} for i = 1, 50 do t[i] = {n = i, s = "x"} t["k" .. i] = i end table.sort(t, function(a, b) return a.n > b.n end) return #t`},
		{"strings", `local s = "" for i = 1, 20 do s = s .. string.format("%d:%s,", i, string.sub("abcdef", 2, 4)) end local n = 0 for w in string.gmatch(s, "%d+") do n = n + w end return {n, string.gsub(s, "b", "c")}`},
		{"commands", `local n = 0 for i = 1, 20 do n = n + #redis.call("ECHO", "v" .. i) end redis.call("PING") return {n, cjson.encode({a = n, b = {1, 2, 3}})}`},
	} {
		b.Run(part.name, func(b *testing.B) {
			s, err := Compile([]byte(part.source))
			if err != nil {
				b.Fatal(err)
			}
			vm, host, flag := NewVM(1), &fakeHost{strings: map[string]string{}}, new(atomic.Bool)
			reply := []byte{}
			b.ReportAllocs()
			for b.Loop() {
				if reply, err = vm.Run(s, nil, nil, host, roomy, flag, false, reply[:0]); err != nil || reply[0] == '-' {
					b.Fatal(string(reply), err)
				}
			}
		})
	}
}
