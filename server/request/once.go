package request

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"limitdb/engine"
	"limitdb/limit"
	"limitdb/resp"
)

// onceFor is for how long the id of ONCE is remembered without FOR, in ns.
const onceFor = 60_000_000_000

// once parses ONCE id [FOR time]. It returns how many words that are.
func (a *Args) once(words [][]byte) (n int, text string) {
	a.OnceID, a.OnceFor = words[1], onceFor
	if text = CheckHoldID(a.OnceID); text != "" || len(words) < 3 || !resp.EqualFold(words[2], "FOR") {
		return 2, text
	}
	if len(words) < 4 {
		return 0, noValue("FOR")
	}
	var err error
	switch a.OnceFor, err = limit.ParseTime(words[3]); {
	case err != nil:
		return 0, "ERR FOR: " + err.Error()
	case a.OnceFor == 0 || a.OnceFor > engine.MaxOnce:
		return 0, "ERR FOR must be above 0 and at most 1 hour: " + resp.Quote(words[3])
	}
	return 4, ""
}

// Once makes *o what ONCE asks for, and returns it; nil if ONCE is not given. asked is a hash of what is asked for: see Asked.
func (a *Args) Once(o *engine.Once, asked uint64) *engine.Once {
	if a.Given&OwnOnce == 0 {
		return nil
	}
	*o = engine.Once{ID: a.OnceID, For: a.OnceFor, Asked: asked}
	return o
}

// Asked returns a hash of what is asked of a limit, after what was asked for before. It is the same in every process.
func Asked(before uint64, key []byte, l *limit.Limit, cost int64, partial bool) uint64 {
	var room [64]byte
	b := binary.AppendVarint(room[:0], cost)
	if partial {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return AskedText(AskedText(before, limit.Pack(b, l)), key)
}

// AskedText is Asked of a text.
func AskedText(before uint64, text []byte) uint64 { return xxh3.HashSeed(text, before) }
