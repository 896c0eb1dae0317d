package handler

// InSteps runs a command in steps. Each call of step does a little work, well below a turn,
// and reports whether it was the last. A step may reply. The command's arguments are valid in
// the first turn only. Before the second turn InSteps calls lasting, unless it is nil, to copy
// what is needed later. The command sets c.Holds to the number of bytes that it holds, which
// count towards maxmemory-clients. A call that belongs to no client has a single turn.
func (c *Call) InSteps(lasting func(), step func() (done bool)) {
	c.Holds = 0
	if c.Client != nil && !c.Whole {
		c.Client.Steps(lasting, step)
		return
	}
	for !step() {
	}
}

// EachStep calls do for the numbers from 0 up to n, a few in each step.
func (c *Call) EachStep(n, few int, lasting func(from int), do func(i int), end func()) {
	i := 0
	var keep func()
	if lasting != nil {
		keep = func() { lasting(i) }
	}
	c.InSteps(keep, func() bool {
		for last := min(n, i+few); i < last; i++ {
			do(i)
		}
		if i < n {
			return false
		}
		if end != nil {
			end()
		}
		return true
	})
}

// ArgBytes returns roughly the memory for arguments that are kept.
func ArgBytes(args [][]byte) (n int64) {
	for _, a := range args {
		n += int64(len(a)) + ArgSize
	}
	return n
}

// CloneArgs copies arguments that must outlive the turn into one allocation.
func CloneArgs(args [][]byte) [][]byte {
	n := 0
	for _, a := range args {
		n += len(a)
	}
	all := make([]byte, 0, n)
	out := make([][]byte, len(args))
	for i, a := range args {
		all = append(all, a...)
		out[i] = all[len(all)-len(a) : len(all) : len(all)]
	}
	return out
}
