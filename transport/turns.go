package transport

import "time"

// How long a session's method may run before it yields. A session that has just received input gets a short
// turn. If it has more to do, it continues after all others that have just received input. So a client that
// asks for little waits for little, however much others ask for.
const (
	shortTurn = 200 * time.Microsecond
	longTurn  = time.Millisecond

	// roundTime is how long all turns of one round of a loop should take together, and leastTurn is the least
	// that each gets, however many there are. With shorter turns, switching would cost more than it gains.
	roundTime = 10 * time.Millisecond
	leastTurn = 25 * time.Microsecond

	// roundBytes is how many bytes one round of a loop should read in total, and leastRead the least that it
	// reads from each connection, however many there are. A crowd that sends much at the same time is thus
	// let in bit by bit.
	roundBytes = 2 << 20
	leastRead  = 4 << 10

	// moreTime is how long a round spends on sessions that have more to do, and again on those that were
	// woken.
	moreTime = 2 * time.Millisecond
)

// readOf returns how many bytes to read from each of n connections in one round.
func readOf(n int) int { return min(max(roundBytes/max(n, 1), leastRead), readSize) }

// turnOf returns the turn of each of n sessions in one round.
func turnOf(n int) time.Duration {
	return min(max(roundTime/time.Duration(max(n, 1)), leastTurn), longTurn)
}
