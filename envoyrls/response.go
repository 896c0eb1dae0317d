package envoyrls

import (
	"context"
	"errors"
	"math"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"limitdb/internal/quotaheaders"
)

// errReply is the status for a reply that is no answer to the command.
var errReply = status.Error(codes.Internal, "the reply to RL.ENVOY cannot be read")

// answer is the status of a descriptor with its parts, so that those of a response are one allocation.
type answer struct {
	status pb.RateLimitResponse_DescriptorStatus
	limit  pb.RateLimitResponse_RateLimit
	reset  durationpb.Duration
}

// responseOf returns the response for a reply to the command, with the headers that are asked for.
func responseOf(b []byte, headers Headers) (*pb.RateLimitResponse, error) {
	if len(b) > 0 && b[0] == '-' {
		text, _, _ := strings.Cut(string(b[1:]), "\r\n")
		return nil, statusOf(text)
	}
	in := reply{rest: b}
	pair, overall, n := in.array(), in.int(), in.array()
	out := &pb.RateLimitResponse{OverallCode: code(overall), Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, n)}
	answers := make([]answer, n)
	for i := range answers {
		answers[i].read(&in)
		out.Statuses[i] = &answers[i].status
	}
	if in.bad || pair != 2 || len(in.rest) > 0 {
		return nil, errReply
	}
	if headers != NoHeaders {
		out.ResponseHeadersToAdd = headers.of(out)
	}
	return out, nil
}

// read reads the answer for a descriptor.
func (a *answer) read(in *reply) {
	if in.array() != 6 {
		in.fail()
	}
	s := &a.status
	s.Code = code(in.int())
	requests, unit, name := in.int(), in.text(), in.text()
	if requests >= 0 {
		a.limit.RequestsPerUnit, a.limit.Name = upTo32(requests), string(name)
		a.limit.Unit = pb.RateLimitResponse_RateLimit_Unit(pb.RateLimitResponse_RateLimit_Unit_value[string(unit)])
		s.CurrentLimit = &a.limit
	}
	s.LimitRemaining = upTo32(in.int())
	if reset := in.int(); reset >= 0 {
		a.reset.Seconds = reset
		s.DurationUntilReset = &a.reset
	}
}

func code(over int64) pb.RateLimitResponse_Code {
	if over != 0 {
		return pb.RateLimitResponse_OVER_LIMIT
	}
	return pb.RateLimitResponse_OK
}

// upTo32 returns n, or the largest number of the field.
func upTo32(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// statusOf returns the status for an error reply. Where nothing could be decided it is Unavailable, so that Envoy's failure_mode_deny
// decides.
func statusOf(text string) error {
	word, message, _ := strings.Cut(text, " ")
	as := codes.Unavailable
	switch {
	case word == "NOAUTH", word == "WRONGPASS":
		as = codes.Unauthenticated
	case word == "NOPERM":
		as = codes.PermissionDenied
	case word == "WRONGTYPE":
		as = codes.FailedPrecondition
	case word == "ERR" && strings.HasPrefix(message, "internal error"):
		as = codes.Internal
	case word == "ERR" && !strings.Contains(message, "shutting down"):
		as = codes.InvalidArgument
	}
	return status.Error(as, text)
}

// failureOf returns the status for an error of Options.Do; ctx is the call's.
func failureOf(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return status.FromContextError(cause).Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return status.Error(codes.Unavailable, "the decision was not durable in time: it may have been counted")
	}
	return status.Error(codes.Unavailable, err.Error())
}

// Headers says which fields a response asks Envoy to add to what the caller gets.
type Headers uint8

// The values of Headers.
const (
	NoHeaders Headers = iota
	Draft3            // RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset
	Draft11           // RateLimit-Policy and RateLimit
)

// of returns the header fields for a response: of draft 3, those of the limit that decides, and of draft 11, those of all.
func (h Headers) of(out *pb.RateLimitResponse) (list []*core.HeaderValue) {
	var all []quotaheaders.Policy
	least := -1
	for _, s := range out.Statuses {
		l := s.CurrentLimit
		if l == nil {
			continue
		}
		p := quotaheaders.Policy{
			Name: l.Name, Quota: int64(l.RequestsPerUnit), Window: seconds[l.Unit], Remaining: int64(s.LimitRemaining), Reset: s.DurationUntilReset.GetSeconds(),
		}
		if p.Name == "" {
			p.Name = "default"
		}
		all = append(all, p)
		switch over := s.Code == pb.RateLimitResponse_OVER_LIMIT; {
		case least < 0, over, out.OverallCode == pb.RateLimitResponse_OK && p.Remaining < all[least].Remaining:
			least = len(all) - 1
		}
	}
	if least < 0 {
		return nil
	}
	add := func(name, value string) { list = append(list, &core.HeaderValue{Key: name, Value: value}) }
	if h == Draft3 {
		quotaheaders.Draft3(all[least], add)
	} else {
		quotaheaders.Draft11(all, add)
	}
	return list
}

// seconds are the lengths of the units by their numbers in RateLimit.Unit.
var seconds = [...]int64{0, 1, 60, 3600, 86400, 30 * 86400, 365 * 86400, 7 * 86400}
