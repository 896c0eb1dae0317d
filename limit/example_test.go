package limit_test

import (
	"fmt"
	"time"

	"limitdb/limit"
)

// Thirty a minute, two at once. The caller keeps the state and the clock.
func ExampleTake() {
	l, err := limit.Parse("GCRA 30/m BURST 2")
	if err != nil {
		fmt.Println(err)
		return
	}
	var state []byte
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for range 3 {
		var d limit.Decision
		next, err := limit.Take(&l, state, now, 1, nil, &d)
		if err != nil {
			fmt.Println(err)
			return
		}
		if next != nil {
			state = next
		}
		fmt.Println(d.Limited, d.Remaining, limit.Milliseconds(d.Wait))
	}
	// Output:
	// false 1 -1
	// false 0 -1
	// true 0 2000
}

// A queue lets one request go each two seconds, and tells those between how long to
// wait before going.
func ExampleTake_queue() {
	l, err := limit.Parse("QUEUE 30/m BURST 2")
	if err != nil {
		fmt.Println(err)
		return
	}
	var state []byte
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for range 4 {
		var d limit.Decision
		next, err := limit.Take(&l, state, now, 1, nil, &d)
		if err != nil {
			fmt.Println(err)
			return
		}
		if next != nil {
			state = next
		}
		fmt.Println(d.Limited, limit.Milliseconds(d.Wait))
	}
	// Output:
	// false -1
	// false 2000
	// false 4000
	// true 2000
}

// A reservation is granted whatever its size. The requests after it pay, and wait as
// long as they are willing to.
func ExampleReserve() {
	l, err := limit.Parse("TOKEN 1/s BURST 5")
	if err != nil {
		fmt.Println(err)
		return
	}
	var state []byte
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for _, maxWait := range []time.Duration{0, time.Second, 5 * time.Second} {
		var d limit.Decision
		next, err := limit.Reserve(&l, state, now, 10, maxWait.Nanoseconds(), nil, &d)
		if err != nil {
			fmt.Println(err)
			return
		}
		if next != nil {
			state = next
		}
		fmt.Println(d.Limited, limit.Milliseconds(d.Wait))
	}
	// Output:
	// false -1
	// true 4000
	// false 5000
}

// A limit prints in one way, however it is written.
func ExampleParse() {
	for _, s := range []string{"gcra 100 60000 burst 20", "GCRA 100 1m BURST 20", "GCRA 100/m BURST 100"} {
		l, err := limit.Parse(s)
		fmt.Println(l, err)
	}
	_, err := limit.Parse("GCRA 100/fortnight")
	fmt.Println(err)
	// Output:
	// GCRA 100/m BURST 20 <nil>
	// GCRA 100/m BURST 20 <nil>
	// GCRA 100/m <nil>
	// period must be positive milliseconds, or have a unit (ms s m h d w): "fortnight"
}

// A command reads the limit's options among its own.
func ExampleParser() {
	args := [][]byte{[]byte("GCRA"), []byte("100/m"), []byte("COST"), []byte("3"), []byte("BURST"), []byte("20")}
	var p limit.Parser
	n, err := p.Head(args)
	for args = args[n:]; err == nil && len(args) > 0; args = args[n:] {
		if n, err = p.Option(args); n == 0 && err == nil {
			fmt.Printf("the command's own: %s %s\n", args[0], args[1])
			n = 2
		}
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := p.Finish()
	fmt.Println(l, err)
	// Output:
	// the command's own: COST 3
	// GCRA 100/m BURST 20 <nil>
}

// CL.THROTTLE user123 15 30 60
func ExampleCell() {
	l, err := limit.Cell(15, 30, 60)
	if err != nil {
		fmt.Println(err)
		return
	}
	var d limit.Decision
	_, err = limit.Take(&l, nil, 0, 1, nil, &d)
	fmt.Println(d.Limited, d.Limit, d.Remaining, limit.Seconds(d.Wait), limit.Seconds(d.Reset), err)
	// Output: false 16 15 -1 2 <nil>
}
