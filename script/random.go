package script

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

// rand48 is the generator of drand48 (POSIX), which Redis uses for scripts. Its numbers continue from script to
// script. A script that sets the seed does so for itself alone.
type rand48 uint64

func seedRand48(seed uint32) rand48 { return rand48(seed)<<16 | 0x330E }

// next returns an integer from 0 to 2³¹−1.
func (r *rand48) next() int64 {
	*r = (*r*0x5DEECE66D + 0xB) & (1<<48 - 1)
	return int64(*r >> 17)
}

func (vm *VM) mathRandom(L *lua.LState) int {
	r := lua.LNumber(vm.random.next()%math.MaxInt32) / math.MaxInt32
	low, high := lua.LNumber(1), lua.LNumber(0)
	switch L.GetTop() {
	case 0:
		L.Push(r)
		return 1
	case 1:
		high = L.CheckNumber(1)
	case 2:
		low, high = L.CheckNumber(1), L.CheckNumber(2)
	default:
		L.RaiseError("wrong number of arguments")
	}
	if low > high {
		L.ArgError(L.GetTop(), "interval is empty")
	}
	L.Push(lua.LNumber(math.Floor(float64(r*(high-low+1)))) + low)
	return 1
}

func (vm *VM) mathRandomSeed(L *lua.LState) int {
	if !vm.seeded {
		vm.seeded, vm.unseeded = true, vm.random
	}
	vm.random = seedRand48(uint32(int32(L.CheckInt64(1))))
	return 0
}
