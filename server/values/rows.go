package values

import (
	"limitdb/server/handler"
	"limitdb/server/spec"
)

// A Row describes a command and has its handler.
type Row = handler.Row[Call]

// Families returns the commands of the package, in the order of the reference.
func Families() [][]Row {
	return [][]Row{objectRows(), expireRows(), stringRows(), counterRows(), sortedSetRows(), hashRows(), listRows()}
}

// onKey makes a row of a command on the value of one key, its first argument. Fast ones are queued.
func onKey(name string, arity int, f spec.Flags, group, summary string, step func(*Call, *Txn), args ...spec.Argument) Row {
	if f&spec.Fast != 0 {
		f |= spec.Ahead
	}
	c := onKeys(name, arity, f, 1, group, summary, step, append([]spec.Argument{spec.Key("key")}, args...)...)
	c.LastKey = 1
	return c
}

// onKeys makes a row of a command on the values of keys: every so many arguments are one.
func onKeys(name string, arity int, f spec.Flags, every int, group, summary string, step func(*Call, *Txn), args ...spec.Argument) Row {
	if f&spec.Readonly != 0 {
		f |= spec.StaleRead
	}
	return Row{
		Command: spec.Command{
			Name: name, Arity: arity, Flags: f, FirstKey: 1, LastKey: -1, Step: every,
			Group: group, Complexity: "O(n) for n bytes or keys", Summary: summary, Args: args,
		},
		Do: step,
	}
}
