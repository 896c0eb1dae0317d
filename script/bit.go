package script

import (
	"fmt"
	"math"
	"math/bits"

	lua "github.com/yuin/gopher-lua"
)

// bitFunctions returns the functions of Mike Pall's BitOp, on integers of 32 bits.
func bitFunctions() map[string]lua.LGFunction {
	fold := func(f func(a, b uint32) uint32) lua.LGFunction {
		return func(L *lua.LState) int {
			n := toBit(L, 1)
			for i := 2; i <= L.GetTop(); i++ {
				n = f(n, toBit(L, i))
			}
			return pushBit(L, n)
		}
	}
	shift := func(f func(n uint32, by uint) uint32) lua.LGFunction {
		return func(L *lua.LState) int { return pushBit(L, f(toBit(L, 1), uint(toBit(L, 2)&31))) }
	}
	return map[string]lua.LGFunction{
		"tobit":   func(L *lua.LState) int { return pushBit(L, toBit(L, 1)) },
		"bnot":    func(L *lua.LState) int { return pushBit(L, ^toBit(L, 1)) },
		"bswap":   func(L *lua.LState) int { return pushBit(L, bits.ReverseBytes32(toBit(L, 1))) },
		"band":    fold(func(a, b uint32) uint32 { return a & b }),
		"bor":     fold(func(a, b uint32) uint32 { return a | b }),
		"bxor":    fold(func(a, b uint32) uint32 { return a ^ b }),
		"lshift":  shift(func(n uint32, by uint) uint32 { return n << by }),
		"rshift":  shift(func(n uint32, by uint) uint32 { return n >> by }),
		"arshift": shift(func(n uint32, by uint) uint32 { return uint32(int32(n) >> by) }),
		"rol":     shift(func(n uint32, by uint) uint32 { return bits.RotateLeft32(n, int(by)) }),
		"ror":     shift(func(n uint32, by uint) uint32 { return bits.RotateLeft32(n, -int(by)) }),
		"tohex":   toHex,
	}
}

// toBit returns an argument as 32 bits: rounded to an integer, modulo 2³².
func toBit(L *lua.LState, i int) uint32 {
	n := math.RoundToEven(float64(L.CheckNumber(i)))
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	return uint32(int64(math.Mod(n, 1<<32)))
}

func pushBit(L *lua.LState, n uint32) int {
	L.Push(lua.LNumber(int32(n)))
	return 1
}

func toHex(L *lua.LState) int {
	n, digits := toBit(L, 1), 8
	if L.GetTop() > 1 {
		digits = int(int32(toBit(L, 2)))
	}
	format := "%08x"
	if digits < 0 {
		format, digits = "%08X", -digits
	}
	s := fmt.Sprintf(format, n)
	L.Push(lua.LString(s[8-min(digits, 8):]))
	return 1
}
