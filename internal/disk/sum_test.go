package disk

import "testing"

func TestSum(t *testing.T) {
	a, b := []byte("1234"), []byte("56789")
	if sum := Sum(0, a, b); sum != 0xe3069283 || Sum(Sum(0, a), b) != sum { // as RFC 3720 has it
		t.Errorf("%x", sum)
	}
	if Sum(7) != 7 || Sum(7, a) == Sum(8, a) {
		t.Error("the seed does not count")
	}
}
