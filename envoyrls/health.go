package envoyrls

import "google.golang.org/protobuf/encoding/protowire"

// The health of a service, as of grpc.health.v1.
const (
	isServing    = 1
	isNotServing = 2
	isNoService  = 3
)

// healthOf returns the health of a service, "" for that of the server. Like /readyz it needs no password.
func (s *Server) healthOf(service string) byte {
	switch {
	case service != "" && service != serviceName:
		return isNoService
	case s.Ready() != nil:
		return isNotServing
	}
	return isServing
}

// tellsHealth answers a call about the health of a service.
func (c *call) tellsHealth(message []byte) *failure {
	service := ""
	err := fields(message, func(num protowire.Number, _ uint64, b []byte) error {
		if num == 1 && b != nil {
			service = string(b)
		}
		return nil
	})
	if err != nil {
		return failed(codeArgument, err.Error())
	}
	is := c.x.s.healthOf(service)
	switch {
	case c.to == toCheck && is == isNoService:
		return failed(codeNotFound, "there is no such service")
	case c.to == toCheck:
		c.answer(healthMessage(is), answerEnd)
	case c.x.leaving != stays:
		return failed(codeNotNow, "the server is stopping")
	default:
		c.watched = service
		c.x.watches.Add(1)
		c.tell(is)
	}
	return nil
}

// healthMessage returns a HealthCheckResponse.
func healthMessage(is byte) []byte { return []byte{0, 0, 0, 0, 2, 1 << 3, is} }

// tell tells a client that watches.
func (c *call) tell(is byte) {
	c.health = is
	c.say(healthMessage(is))
	c.send()
}

// tellHealth tells all who watch what has changed.
func (x *session) tellHealth() {
	for _, c := range x.calls {
		if c.health == 0 || len(c.unsent) > 0 {
			continue
		}
		if is := x.s.healthOf(c.watched); is != c.health {
			c.tell(is)
		}
	}
}
