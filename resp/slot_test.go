package resp

import "testing"

func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "123456789": 0x31c3, "foo": 12182, "bar": 5061, "{foo}bar": 12182, "a{foo}{bar}": 12182,
		"{}foo": 9500, "user:1": 10778,
	} {
		if got := Slot([]byte(key)); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}
