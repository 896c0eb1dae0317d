package load

import (
	"errors"
	"strings"

	"limitdb/resp"
)

// Placeholder is replaced by the number of a key in 12 digits, so that all commands of a run have the same
// length. redis-benchmark's word for it is __rand_int__.
const Placeholder = "{key}"

// DefaultCommand is the default of Config.Command, in words.
const DefaultCommand = "CL.THROTTLE user:" + Placeholder + " 100 100 360000"

const keyDigits = 12

// template is an encoded command, and the places for the digits of its key.
type template struct {
	text   []byte
	digits []int // offsets into text
	// key and keyEnd are where the first word with digits begins and ends.
	key, keyEnd int
}

func newTemplate(words []string) (*template, error) {
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("the command is empty")
	}
	t := &template{text: resp.AppendArray(nil, len(words))}
	zeros := strings.Repeat("0", keyDigits)
	for _, w := range words {
		b := strings.ReplaceAll(w, Placeholder, zeros)
		t.text = resp.AppendBulkString(t.text, b)
		start := len(t.text) - len(b) - len("\r\n")
		// The offsets of the placeholders. Each is shifted by how much those before it grew.
		for from, grown := 0, 0; ; grown += keyDigits - len(Placeholder) {
			i := strings.Index(w[from:], Placeholder)
			if i < 0 {
				break
			}
			if len(t.digits) == 0 {
				t.key, t.keyEnd = start, start+len(b)
			}
			t.digits = append(t.digits, start+from+i+grown)
			from += i + len(Placeholder)
		}
	}
	return t, nil
}

// appendTo appends the command for key to b.
func (t *template) appendTo(b []byte, key uint64) []byte {
	at := len(b)
	b = append(b, t.text...)
	for _, d := range t.digits {
		field, k := b[at+d:at+d+keyDigits], key
		for i := keyDigits - 1; k > 0 && i >= 0; i-- {
			field[i] = byte('0' + k%10)
			k /= 10
		}
	}
	return b
}
