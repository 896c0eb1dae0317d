package groups

// Ways are those along which replicas of a spread can be passed on. The places on them are the nodes, the groups, and the
// zones of each group. A step says what passes:
//
//	node → zone of a group    the node gives its replica of the group away
//	zone of a group → node    another node in that zone gets it
//	zone of a group → group   it is to leave the zone
//	group → zone of a group   it comes into another zone, which has room
//	node → tie → node         in a cycle: the first node keeps one more, the second has one less to keep,
//	                          which leaves loads as even as they were
//
// A step's length is the number of moves that it costs: −1 where a move that was to be is no longer needed.
type ways struct {
	far    []int32 // by place
	before []int32 // by place: the place before it
	queue  []int32
	spare  []int32 // room for the next queue
	queued []bool
	in     [][]int   // by zone: its nodes
	ties   int       // places of the ties, behind the others
	gains  []int32   // by node: the tie of its gain, or −1
	losses [][]int32 // by tie: the nodes that lose as much
	colour []int32
}

const (
	unreached = int32(1) << 30
	nowhere   = int32(-1)
)

func (s *spread) group(g int) int      { return s.nodes + g }
func (s *spread) zoneOf(g, z int) int  { return s.nodes + s.groups + g*s.zones + z }
func (s *spread) tie(k int) int        { return s.nodes + s.groups + s.groups*s.zones + k }
func (s *spread) has(g, n int) bool    { return s.at[g*s.nodes+n] }
func (s *spread) costs(g, n int) int32 { return int32(s.cost[g*s.nodes+n]) }

func (w *ways) init(s *spread) {
	all := s.tie(s.nodes)
	w.far, w.before, w.colour = make([]int32, all), make([]int32, all), make([]int32, all)
	w.queue, w.spare, w.queued = make([]int32, 0, all), make([]int32, 0, all), make([]bool, all)
	w.in = make([][]int, s.zones)
	for n, z := range s.zone {
		w.in[z] = append(w.in[z], n)
	}
	w.gains, w.losses = make([]int32, s.nodes), make([][]int32, s.nodes)
}

// from finds the shortest ways from a place to all others. There must be no cycle of a negative length, so nothing may
// have been taken along others than shortest ways.
func (w *ways) from(s *spread, place int) {
	w.ties = 0
	for v := range w.far {
		w.far[v], w.before[v] = unreached, nowhere
	}
	w.far[place] = 0
	w.queue = append(w.queue[:0], int32(place))
	for len(w.queue) > 0 {
		w.round(s)
	}
}

// take passes replicas along the way to a place.
func (w *ways) take(s *spread, to int) {
	for at := int32(to); w.before[at] != nowhere; at = w.before[at] {
		s.step(int(w.before[at]), int(at))
	}
}

// cycle looks for a cycle of a negative length, and passes replicas along it. It reports whether there was one.
func (w *ways) cycle(s *spread) bool {
	w.tied(s)
	w.queue = w.queue[:0]
	for v := range w.far {
		w.far[v], w.before[v] = 0, nowhere
		w.queue = append(w.queue, int32(v))
		w.queued[v] = true
	}
	for len(w.queue) > 0 {
		w.round(s)
		at := w.closed()
		if at == nowhere {
			continue
		}
		for v := at; ; v = w.before[v] {
			s.step(int(w.before[v]), int(v))
			if w.before[v] == at {
				break
			}
		}
		clear(w.queued)
		return true
	}
	return false
}

// round goes one step further from each place in the queue.
func (w *ways) round(s *spread) {
	round := w.queue
	w.queue, w.spare = w.spare[:0], round
	for _, u := range round {
		w.queued[u] = false
		w.leave(s, int(u))
	}
}

// leave looks whether the steps from a place make ways shorter.
func (w *ways) leave(s *spread, u int) {
	switch {
	case u < s.nodes:
		for g := range s.groups {
			if s.has(g, u) {
				w.shorten(u, s.zoneOf(g, s.zone[u]), -s.costs(g, u))
			}
		}
		if w.ties > 0 && w.gains[u] != nowhere {
			w.shorten(u, s.tie(int(w.gains[u])), 0)
		}
	case u < s.group(s.groups):
		g := u - s.nodes
		for z := range s.zones {
			if s.used[g*s.zones+z] < s.room[g*s.zones+z] {
				w.shorten(u, s.zoneOf(g, z), 0)
			}
		}
	case u < s.tie(0):
		g, z := (u-s.group(s.groups))/s.zones, (u-s.group(s.groups))%s.zones
		for _, n := range w.in[z] {
			if !s.has(g, n) && s.costs(g, n) != barred {
				w.shorten(u, n, s.costs(g, n))
			}
		}
		if s.used[g*s.zones+z] > 0 {
			w.shorten(u, s.group(g), 0)
		}
	default:
		if k := u - s.tie(0); k < w.ties {
			for _, n := range w.losses[k] {
				w.shorten(u, int(n), 0)
			}
		}
	}
}

func (w *ways) shorten(u, v int, length int32) {
	if far := w.far[u] + length; far < w.far[v] {
		w.far[v], w.before[v] = far, int32(u)
		if !w.queued[v] {
			w.queued[v] = true
			w.queue = append(w.queue, int32(v))
		}
	}
}

// step makes the change that a step stands for.
func (s *spread) step(u, v int) {
	zones := s.group(s.groups)
	switch {
	case u < s.nodes && v >= zones && v < s.tie(0):
		s.at[(v-zones)/s.zones*s.nodes+u] = false
		s.load[u]--
	case v < s.nodes && u >= zones && u < s.tie(0):
		s.at[(u-zones)/s.zones*s.nodes+v] = true
		s.load[v]++
	case v >= s.nodes && v < zones:
		s.used[u-zones]--
	case u >= s.nodes && u < zones:
		s.used[v-zones]++
	}
}

// tied finds the nodes of which one gains what the other loses.
func (w *ways) tied(s *spread) {
	w.ties = 0
	for n := range s.nodes {
		w.gains[n] = nowhere
		for m := range n { // those that gain the same have one tie
			if s.gain(m).compare(s.gain(n)) == 0 {
				w.gains[n] = w.gains[m]
			}
		}
		if w.gains[n] != nowhere {
			continue
		}
		k := w.ties
		w.losses[k] = w.losses[k][:0]
		for m := range s.nodes {
			if s.load[m] > 0 && s.loss(m).compare(s.gain(n)) == 0 {
				w.losses[k] = append(w.losses[k], int32(m))
			}
		}
		if len(w.losses[k]) > 0 {
			w.gains[n] = int32(k)
			w.ties++
		}
	}
}

// closed returns a place on a cycle of the ways, or nowhere.
func (w *ways) closed() int32 {
	clear(w.colour)
	for v := range w.before {
		at := int32(v)
		for at != nowhere && w.colour[at] == 0 {
			w.colour[at] = int32(v) + 1
			at = w.before[at]
		}
		if at != nowhere && w.colour[at] == int32(v)+1 {
			return at
		}
	}
	return nowhere
}
