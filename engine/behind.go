package engine

import "limitdb/limit"

// leastBehind is the least wait of a request that comes behind a queue, 1 ms: so
// those who come back are not more than that, however fast the queue moves.
const leastBehind = 1_000_000

// behind makes *d a denial of r, which must let q go first. Before the call, *d
// is the decision on r as if there were no queue. state is needed only if *d is
// not a denial yet.
//
// The wait is the larger of r's own and that of the head of q, and at least 1 ms.
// r may have to wait longer, for the others of q: nobody knows how long they will
// stay. A caller that comes back each time asks at most once for each grant.
func (s *shard) behind(now int64, q *queue, state []byte, r *Request, d *limit.Decision) error {
	if !d.Limited {
		if err := r.stand(state, now, d); err != nil {
			return err
		}
	}
	if d.Wait != limit.Never && q.holds() {
		d.Wait = max(d.Wait, leastBehind)
		if q.due > now {
			d.Wait = max(d.Wait, q.due-now)
		}
	}
	return nil
}
