package server

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"limitdb/internal/testlengths"
	"limitdb/limit"
	"limitdb/server/spec"
)

// Random arguments of any command, from what the command table says of them.
type anyWords struct {
	*rand.Rand
	lengths testlengths.Lengths
	now     int64    // Unix seconds
	configs []string // the names of directives
	// repeat is how often the next argument that may be repeated is there, after one that says so; -1: any number.
	repeat int
}

// command returns a command with arguments, mostly valid ones.
func (g *anyWords) command(cmd *spec.Command) []string {
	out := strings.Split(strings.ToUpper(cmd.Full), "|")
	g.repeat = -1
	return append(out, g.all(cmd.Args)...)
}

func (g *anyWords) all(args []spec.Argument) (out []string) {
	for i := range args {
		out = append(out, g.one(&args[i])...)
	}
	return out
}

func (g *anyWords) one(a *spec.Argument) (out []string) {
	times := 1
	switch {
	case a.Multiple && g.repeat >= 0:
		times, g.repeat = g.repeat, -1
	case a.Optional && g.IntN(3) > 0:
		return nil
	case a.Multiple:
		times = g.several()
	}
	for range times {
		if a.Token != "" {
			out = append(out, a.Token)
		}
		switch a.Kind {
		case "pure-token":
		case "oneof":
			out = append(out, g.one(&a.Args[g.IntN(len(a.Args))])...)
		case "block":
			out = append(out, g.all(a.Args)...)
		default:
			out = append(out, g.value(a))
		}
	}
	return out
}

// several returns how often something is repeated: seldom as often as a constant of the code.
func (g *anyWords) several() int {
	if g.IntN(20) == 0 {
		return 1 + g.lengths.Draw(g.IntN, 300)
	}
	return 1 + g.IntN(4)
}

func (g *anyWords) value(a *spec.Argument) string {
	switch a.Kind {
	case "key":
		return g.key()
	case "integer", "unix-time":
		return g.integer(a.Name)
	case "double":
		return g.double()
	}
	return g.text(a.Name)
}

func (g *anyWords) pick(of ...string) string { return of[g.IntN(len(of))] }

// key returns one of few keys, seldom a long one.
func (g *anyWords) key() string {
	if g.IntN(60) == 0 {
		return strings.Repeat("k", max(1, g.lengths.Draw(g.IntN, 4096)))
	}
	return g.pick("a", "b", "c", "d", "e", "f", "z1", "h1", "l1", "s1", "log", "log2", "lease", "lease2", "t1", "t2")
}

func (g *anyWords) integer(name string) string {
	switch name {
	case "numkeys", "numfields":
		g.repeat = g.several() - 1
		if name == "numkeys" {
			g.repeat++
		}
		return strconv.Itoa(g.repeat)
	case "unix-time-seconds":
		return strconv.FormatInt(g.now+int64(g.IntN(3000))-10, 10)
	case "unix-time-milliseconds":
		return strconv.FormatInt(1000*(g.now+int64(g.IntN(3000))-10), 10)
	}
	switch g.IntN(8) {
	case 0:
		return strconv.Itoa(-1 - g.IntN(10))
	case 1:
		return strconv.Itoa(g.lengths.Draw(g.IntN, 2<<20))
	case 2:
		return strconv.Itoa(g.lengths.Draw(g.IntN, 70_000))
	case 3:
		return g.pick("9223372036854775807", "-9223372036854775808", "4294967296", "x", "", "1.5")
	}
	return strconv.Itoa(g.IntN(30))
}

func (g *anyWords) double() string {
	switch g.IntN(6) {
	case 0:
		return g.pick("inf", "-inf", "(1", "(5", "1e400", "nan", "0.1", "-.5", "x")
	case 1:
		return strconv.FormatFloat(g.NormFloat64()*1e6, 'g', -1, 64)
	case 2:
		return strconv.Itoa(g.lengths.Draw(g.IntN, 1<<20))
	}
	return strconv.Itoa(g.IntN(20))
}

// text returns a text for an argument of a name.
func (g *anyWords) text(name string) string {
	switch name {
	case "algorithm":
		all := limit.Algorithms()
		return all[g.IntN(len(all))].String()
	case "limit":
		return fmt.Sprint(1+g.lengths.Draw(g.IntN, g.IntN(70_000)), g.pick("/s", "/m", "/h", "/d", ""))
	case "period", "ttl", "wait", "maxwait", "time":
		return fmt.Sprint(g.IntN(100), g.pick("s", "m", "ms", "h", ""))
	case "unit":
		return g.pick("HOUR", "DAY", "WEEK", "MONTH")
	case "zone":
		return g.pick("UTC", "Europe/Berlin", "x")
	case "namespace":
		return g.pick("shop", "shop", "shop", "none")
	case "name":
		return g.pick("global", "user-api", "user-day", "x")
	case "token": // of a lease
		return strings.Repeat(g.pick("i", "j"), 1+g.lengths.Draw(g.IntN, limit.MaxLeaseID)) + strconv.Itoa(g.IntN(5))
	case "field":
		return g.pick("user", "path", "plan", "f1", "f2", "n", g.long(300))
	case "parameter":
		return g.pick(g.configs...)
	case "script":
		return g.pick("return 1", "return redis.call('APPEND', KEYS[1], ARGV[1])", "return redis.pcall('RPUSH', KEYS[1], unpack(ARGV))",
			"return redis.pcall('HSET', KEYS[1], unpack(ARGV))", "return {KEYS, ARGV}", "return redis.pcall('ZADD', KEYS[1], 1, ARGV[1])", "x")
	case "start", "stop", "min", "max":
		return g.pick("0", "1", "-1", "(1", "-inf", "+inf", "5", "300")
	case "command", "command-name":
		return g.pick("GET", "SET", "config|get", "RL.TAKEALL", "x")
	case "member", "id", "client-id":
		return g.pick("m", "n", "1", "2", g.long(300))
	}
	switch g.IntN(4) {
	case 0:
		return strconv.Itoa(g.IntN(100))
	case 1:
		return g.pick("foo", "", "*", "\x00\xff\r\n", "GET", "yes", "no", "1mb")
	}
	return g.long(g.pickInt(300, 300, 9000, 9000, 70_000))
}

// long returns a text of a length about a constant of the code.
func (g *anyWords) long(most int) string {
	return strings.Repeat(g.pick("x", "y", "7"), g.lengths.Draw(g.IntN, most))
}

func (g *anyWords) pickInt(of ...int) int { return of[g.IntN(len(of))] }
