package limit

import (
	"errors"
	"fmt"
	"strconv"
)

// Errors in the words of a limit, or in the fields of a Limit. The errors of
// Parse and Parser wrap one of these and add the argument at fault, quoted and
// cut. Their text is one line, fit to be sent to a client after "-ERR ".
var (
	// ErrSyntax is returned for a word that is missing, given twice or in the
	// wrong place.
	ErrSyntax = errors.New("syntax error")
	// ErrAlgorithm is returned for a name or a number that no algorithm has.
	ErrAlgorithm = errors.New("unknown algorithm")
	// ErrMax is returned for a limit that is not an int64 of 0 or more or, for
	// LOG, is more than MaxLog.
	ErrMax          = errors.New("limit must be an integer from 0 to 9223372036854775807")
	errLogMax error = inOtherWords{ErrMax, "limit of LOG must be an integer from 0 to 65536"}
	// ErrPeriod is returned for a period that is not a positive time.
	ErrPeriod = errors.New("period must be positive milliseconds, or have a unit (ms s m h d w)")
	// ErrBurst is returned for a burst that is not an int64 of 1 or more. A burst
	// of 0 is valid with a limit of 0 and with QUEUE.
	ErrBurst            = errors.New("BURST must be an integer from 1 to 9223372036854775807")
	errQueueBurst error = inOtherWords{ErrBurst, "BURST must be an integer from 0 to 9223372036854775807"}
	// ErrCalendar is returned for an unknown calendar unit, or a time zone
	// without a unit.
	ErrCalendar = errors.New("CALENDAR must be second, minute, hour, day, week, month, quarter or year")
	// ErrZone is returned for a name that no time zone has.
	ErrZone = errors.New("unknown time zone")
	// ErrSegments is returned for a number of sub-windows that is out of range.
	ErrSegments = errors.New("SEGMENTS must be an integer from 2 to 1024")
	// ErrWarm is returned for a warm-up that is not a positive time.
	ErrWarm = errors.New("WARM must be positive milliseconds, or have a unit (ms s m h d w)")
	// ErrCold is returned for a cold factor that is out of range.
	ErrCold = errors.New("COLD must be an integer from 1 to 1000")
	// ErrBlock is returned for a block that is not a positive time, or is longer than 30 years.
	ErrBlock = errors.New("BLOCK must be positive milliseconds, or have a unit (ms s m h d w), up to 30 years")
	// ErrUpto is returned for a longest block that is not a time, is shorter than the
	// first or longer than 30 years, or is given without BLOCK.
	ErrUpto = errors.New("UPTO must follow BLOCK t and be a time from t to 30 years")
	// ErrTime is returned for an option of a command that should be a time and is
	// not.
	ErrTime = errors.New("a time must be 0 or more milliseconds, or have a unit (ms s m h d w)")
	// ErrOption is returned for an option of another algorithm, or for two
	// options that exclude each other.
	ErrOption = errors.New("the limit has an option of another algorithm")
)

// Errors of a decision. After one of them nothing has changed.
var (
	// ErrCost is returned for a negative cost.
	ErrCost = errors.New("cost must be 0 or more")
	// ErrReserve is returned by Reserve for an algorithm that cannot grant in
	// advance.
	ErrReserve = errors.New("only GCRA, TOKEN, WARMUP and QUEUE can be reserved")
	// ErrState is returned for a state that the algorithm has not made.
	ErrState = errors.New("the key's state is damaged")
	// ErrOverflow is returned for a combination of limit, period, burst, cost and
	// time that does not fit in int64 nanoseconds, which are 292 years.
	ErrOverflow       = errors.New("out of range: period, burst and cost must stay within 292 years of nanoseconds")
	errPeriod   error = inOtherWords{ErrOverflow, "out of range: the period must be at most 30 years"}
	errSpan     error = inOtherWords{ErrOverflow, "out of range: the burst must be full again within 200 years"}
	errWarmMost error = inOtherWords{ErrOverflow, "out of range: WARM must be at most 30 years"}
	errWarmSpan error = inOtherWords{ErrOverflow, "out of range: a key must be cold again within 30 years: give a shorter period or WARM"}
	// ErrRate is returned for a rate that loses more than 1 % when its interval
	// is rounded up to whole nanoseconds.
	ErrRate = errors.New("out of range: the rate is too fast for intervals of whole nanoseconds")
)

// Errors of a lease. After one of them nothing has changed.
var (
	// ErrTTL is returned for a lease's time that is not positive.
	ErrTTL = errors.New("ttl must be positive milliseconds, or have a unit (ms s m h d w)")
	// ErrWeight is returned for a weight below 1.
	ErrWeight = errors.New("WEIGHT must be an integer from 1 to 9223372036854775807")
	// ErrLeaseID is returned for an id that is empty or too long.
	ErrLeaseID = errors.New("ID must have 1 to 255 bytes")
	// ErrHolders is returned when a key would have too many leases.
	ErrHolders = errors.New("a key can have at most 8192 leases at a time, whatever its limit: use WEIGHT to count several in one lease")
	// ErrNoLease is returned for an id that holds no lease.
	ErrNoLease = errors.New("this ID holds no lease of the key")
)

// Errors in redis-cell's parameters.
var (
	// ErrZeroRate is returned for an emission interval below 1 ns: nothing in a
	// period, or something in no time.
	ErrZeroRate = errors.New("zero rates are not supported")
	// ErrNegativeBurst is returned for a max_burst below 0.
	ErrNegativeBurst = errors.New("max_burst must be 0 or more")
	// ErrNegativeCount is returned for a count per period below 0.
	ErrNegativeCount = errors.New("count per period must be 0 or more")
	// ErrNegativePeriod is returned for a period below 0.
	ErrNegativePeriod = errors.New("period must be 0 or more")
	// ErrSeconds is returned for a period in seconds that is not a decimal number
	// above 0 and below 1e12.
	ErrSeconds = errors.New("period must be a number of seconds above 0 and below 1e12")
)

// inOtherWords is an error with a text of its own for one algorithm.
type inOtherWords struct {
	error
	text string
}

func (e inOtherWords) Error() string { return e.text }
func (e inOtherWords) Unwrap() error { return e.error }

// maxQuoted is how many bytes of an argument an error repeats.
const maxQuoted = 128

// at adds the argument at fault to err.
func at[T string | []byte](err error, arg T) error {
	return fmt.Errorf("%w: %s", err, quote(arg))
}

// quote makes an argument one printable line, cut at maxQuoted bytes.
func quote[T string | []byte](arg T) string {
	if len(arg) > maxQuoted {
		return strconv.Quote(string(arg[:maxQuoted])) + "..."
	}
	return strconv.Quote(string(arg))
}
