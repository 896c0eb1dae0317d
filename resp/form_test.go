package resp

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// NextIn returns what Next would: a reader that knows the form of an earlier command reads any stream, however it is cut and while
// limits change, like a reader that does not.
func TestFormsReadTheSame(t *testing.T) {
	pieces := []string{
		string(command("HOLD", "k", "ID", "a", "COST", "5")), string(command("HOLD", "key", "ID", "bb", "COST", "50")), string(command("HOLD", "", "ID", "", "COST", "")),
		string(command("HOLD", "k", "ID", "a", "COST", "5", "x")), string(command("HOLD", "k", "id", "a", "COST", "5")), string(command("hold", "k", "ID", "a", "COST", "5")),
		string(command("HOLD", "k", "ID", "an id of 20 bytes...", "COST", "5")), string(command("HOLD", "a key of 20 bytes...", "ID", "a", "COST", "5")), string(command("HOLD", "\x00k", "ID", "a", "COST", "5")),
		string(command("HOLD", "k", "ID", "a")), string(command("PING")), "*6\r\n$4\r\nHOLD\r\n$1\r\nk\r\n$2\r\nID\r\n$01\r\na\r\n$4\r\nCOST\r\n$1\r\n5\r\n",
		"*6\r\n$4\r\nHOLD\r\n$1\r\nk\r\n$2\r\nID\r\n$1\r\na\n\n$4\r\nCOST\r\n$1\r\n5\r\n", "HOLD k ID a COST 5\r\n", "*0\r\n",
	}
	short := normal
	short.Bulk = 10
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		for range rapid.IntRange(1, 20).Draw(t, "pieces") {
			stream = append(stream, rapid.SampledFrom(append(pieces, pieces[0], pieces[1], pieces[0])).Draw(t, "piece")...)
		}
		holes := rapid.SampledFrom([][]int{{1, 3, 5}, {1, 3}, {1}, {1, 5}}).Draw(t, "holes")
		plain, quick := &Reader{}, &Reader{}
		var form Form
		most := rapid.SampledFrom([]int{2, 50}).Draw(t, "longest key")
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "read")
			plain.Feed(stream[:n])
			quick.Feed(stream[:n])
			parked := rapid.IntRange(0, 3).Draw(t, "parked") == 0 // and reads nothing of this round
			for !parked {
				l := rapid.SampledFrom([]Limits{normal, normal, normal, normal, before, tiny, short}).Draw(t, "limits")
				plain.Limits, quick.Limits = l, l
				want, wantErr := plain.Next()
				if quick.NextIn(&form, most) {
					matched++
					var open [FormHoles][]byte
					for i := range holes {
						open[i] = quick.Open(&form, i)
					}
					if len(want) != form.args || len(open[0]) > most || len(open[0]) > 0 && open[0][0] == 0 {
						t.Fatalf("NextIn: %q, want %q", open, want)
					}
					for i, at := range holes {
						if !slices.Equal(open[i], want[at]) {
							t.Fatalf("NextIn: %q, want %q", open, want)
						}
					}
					if rapid.IntRange(0, 3).Draw(t, "put back") > 0 {
						continue
					}
					quick.Unread(quick.Size())
				}
				got, err := quick.Next()
				if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() || !slices.EqualFunc(got, want, slices.Equal[[]byte]) {
					t.Fatalf("%q, %v: want %q, %v", got, err, want, wantErr)
				}
				if got == nil {
					break
				}
				if quick.Form(&form, holes...) && len(got) <= holes[len(holes)-1] {
					t.Fatalf("%q has a form with the holes %v", got, holes)
				}
			}
			plain.Keep()
			quick.Keep()
			stream = stream[n:]
		}
	})
	if matched == 0 {
		t.Error("no command had the form of an earlier one")
	}
}
