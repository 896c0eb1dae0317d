package server

import (
	"limitdb/resp"
	"limitdb/server/request"
)

// forms are the last commands with ids of a session: a hold, its commit or cancel, and a request that counts once. As with the
// remembered command, a client repeats each of them, but with another id and cost, and it may send them in turn.
type forms struct {
	of   [formClasses]formed
	last int // the class of the last command
}

// formed is one of them.
type formed struct {
	form     resp.Form
	cmd      *command
	plan     request.Plan
	id, cost int // which of the open arguments they are; 0 for none

	missed uint8 // as in remembered
	next   int   // the class of the command that came after it
}

const formClasses = 4

// formClass returns the class of a plan that has an id, or -1.
func formClass(p *request.Plan) int {
	switch {
	case p.OnceID == nil:
		return -1
	case p.Op >= request.Hold:
		return int(p.Op-request.Hold) + 1
	}
	return 0
}

// find reads the session's next command if it has one of the forms, and puts what it asks for in p.
func (f *forms) find(s *session, keyMost int, p *request.Plan) (cmd *command, key []byte) {
	guess := f.of[f.last].next
	for i := range formClasses {
		class := (guess + i) % formClasses
		if g := &f.of[class]; g.cmd != nil && promising(g.missed) && g.read(&s.rd.Reader, keyMost, p, &key) {
			g.missed, f.of[f.last].next, f.last = 0, class, class
			return g.cmd, key
		}
	}
	return nil, nil
}

// read is find for one form.
func (g *formed) read(r *resp.Reader, keyMost int, p *request.Plan, key *[]byte) bool {
	var open [resp.FormHoles][]byte
	left := r.Buffered()
	if !r.NextIn(&g.form, keyMost, &open) {
		return false
	}
	if *p = g.plan; p.Fill(open[g.id], open[g.cost], g.cost > 0) {
		*key = open[0]
		return true
	}
	r.Unread(left - r.Buffered()) // the command has an error
	return false
}

// learn is told of a command that the session has read, of which no form was known.
func (f *forms) learn(s *session, cmd *command, class int, p *request.Plan, args [][]byte) {
	g := &f.of[class]
	f.of[f.last].next, f.last = class, class
	if g.missed++; !worth(g.missed) {
		return
	}
	id, cost := p.Open(args)
	holes := []int{1, id, cost}
	switch g.id, g.cost = 1, 0; {
	case cost == 0:
		holes = holes[:2]
	case cost < id:
		holes[1], holes[2], g.id, g.cost = cost, id, 2, 1
	default:
		g.cost = 2
	}
	if g.cmd = cmd; id == 0 || !s.rd.Form(&g.form, holes...) {
		g.cmd = nil
		return
	}
	g.plan = *p
	g.plan.OnceID = nil
	g.plan.Prepare()
}
