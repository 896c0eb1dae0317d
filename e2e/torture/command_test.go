package torture

import (
	"fmt"

	"limitdb/resp"
)

// command is the command of an operation of a history.
func (in input) command(history int) string {
	key := func(i int) string { return fmt.Sprintf("{h%d}:%c", history, 'a'+in.key[i]) } // of one slot
	cost := func(i int) string { return fmt.Sprintf("%s COST %d", historyLimit, in.cost[i]) }
	switch in.op {
	case 'T':
		return line("RL.TAKE", key(0), cost(0))
	case 'P':
		return line("RL.PEEK", key(0), historyLimit)
	case 'F':
		return line("RL.REFUND", key(0), cost(0))
	case 'R':
		return line("DEL", key(0))
	}
	return line("RL.TAKEALL 2", key(0), key(1), cost(0), cost(1))
}

// parse returns the result in the reply to the operation.
func (in input) parse(v resp.Value) (out output, err error) {
	if in.op == 'R' {
		if v.Kind != ':' {
			return out, fmt.Errorf("the reply is %v", v)
		}
		return output{granted: v.Int == 1}, nil
	}
	each := []resp.Value{v}
	if in.op == 'A' {
		if len(v.Elems) != 4 {
			return out, fmt.Errorf("the reply is %v", v)
		}
		out.granted = v.Elems[0].Int == 0
		each = v.Elems[2:]
	}
	for i, e := range each {
		n, err := ints(e)
		if err != nil || len(n) != 5 || n[1] != burst {
			return out, fmt.Errorf("the reply is %v, %v", v, err)
		}
		if in.op != 'A' {
			out.granted = n[0] == 0
		}
		out.left[i] = n[2]
	}
	return out, nil
}
