package transport

import "time"

// How long a session's method may run before it yields. Who has only begun gets a
// short turn, and goes on, if it has more to do, after all who have just sent
// something: so a client that asks for little waits for little, however much others ask for.
const (
	shortTurn = 200 * time.Microsecond
	longTurn  = time.Millisecond

	// roundTime is what the turns of one round of a loop should take together, and
	// leastTurn what each gets however many there are: below it, taking turns would
	// cost more than it brings.
	roundTime = 10 * time.Millisecond
	leastTurn = 25 * time.Microsecond

	// roundBytes is what one round of a loop should read together, and leastRead what it reads
	// of each however many there are: a crowd that sends much at once is let in little by little.
	roundBytes = 2 << 20
	leastRead  = 4 << 10

	// moreTime is what a round spends on those who have more to do, and on those who
	// were woken.
	moreTime = 2 * time.Millisecond
)

// readOf is how much is read from each of n connections in one round.
func readOf(n int) int { return min(max(roundBytes/max(n, 1), leastRead), readSize) }

// turnOf is the turn of each of n sessions in one round.
func turnOf(n int) time.Duration {
	return min(max(roundTime/time.Duration(max(n, 1)), leastTurn), longTurn)
}
