package resp

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Ahead finds what Next returns afterwards, cut anywhere, and Next returns what it would without it.
func TestAhead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var stream []byte
		for range rapid.IntRange(1, 8).Draw(rt, "commands") {
			words := []string{"EVALSHA", rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "sha"), "1", rapid.StringN(0, 3, 120).Draw(rt, "key")}
			for range rapid.IntRange(0, 2).Draw(rt, "args") {
				words = append(words, rapid.SampledFrom([]string{"", "1", "60000", "é"}).Draw(rt, "arg"))
			}
			if rapid.IntRange(0, 9).Draw(rt, "inline") == 0 {
				stream = append(stream, "PING\r\n"...)
				continue
			}
			stream = AppendCommand(stream, words...)
		}
		cut := rapid.IntRange(0, len(stream)).Draw(rt, "cut")
		r := Reader{Limits: Limits{Args: 10, Bulk: 1000, Query: 10000, Inline: 100}}
		plain := Reader{Limits: r.Limits}
		var ahead []string // of the commands to come
		for _, part := range [][]byte{stream[:cut], stream[cut:]} {
			r.Feed(part)
			plain.Feed(part)
			for {
				args, err := r.Next()
				if err != nil {
					rt.Fatal(err)
				}
				got := fmt.Sprintf("%q", args)
				if want, err := plain.Next(); err != nil || fmt.Sprintf("%q", want) != got {
					rt.Fatalf("%s, not %q, %v", got, want, err)
				}
				if args == nil {
					break
				}
				if len(ahead) > 0 {
					if len(args) < 4 || fmt.Sprintf("%q", args[:4]) != ahead[0] {
						rt.Fatalf("%s; Ahead found %s", got, ahead[0])
					}
					ahead = ahead[1:]
					continue
				}
				if rapid.IntRange(0, 9).Draw(rt, "another round") == 0 {
					r.Keep()
					plain.Keep()
					continue
				}
				var keys [4][]byte
				n := r.Ahead(3, keys[:])
				if n > 0 && (len(args) < 4 || fmt.Sprintf("%q", args) != got) {
					rt.Fatalf("%d keys behind %s, which is %q now", n, got, args)
				}
				for _, key := range keys[:n] {
					ahead = append(ahead, fmt.Sprintf("%q", append(args[:3:3], key)))
				}
			}
			r.Keep()
			plain.Keep()
		}
	})
}
