package envoyrls

import (
	"fmt"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestResponse(t *testing.T) {
	two := "*2\r\n:1\r\n*2\r\n" +
		"*6\r\n:0\r\n:100\r\n$6\r\nMINUTE\r\n$2\r\nip\r\n:99\r\n:40\r\n" +
		"*6\r\n:1\r\n:5000000000\r\n$4\r\nWEEK\r\n$0\r\n\r\n:0\r\n:100\r\n"
	none := "*2\r\n:0\r\n*2\r\n*6\r\n:0\r\n:-1\r\n$0\r\n\r\n$0\r\n\r\n:0\r\n:-1\r\n*6\r\n:0\r\n:-1\r\n$0\r\n\r\n$0\r\n\r\n:4294967295\r\n:-1\r\n"
	for _, c := range []struct {
		reply   string
		headers Headers
		want    string
	}{
		{two, NoHeaders, `OVER_LIMIT; OK 100/MINUTE "ip" 99 left, 40 s; OVER_LIMIT 4294967295/WEEK "" 0 left, 100 s`},
		{two, Draft3, `OVER_LIMIT; OK 100/MINUTE "ip" 99 left, 40 s; OVER_LIMIT 4294967295/WEEK "" 0 left, 100 s; RateLimit-Limit: 4294967295; RateLimit-Remaining: 0; RateLimit-Reset: 100`},
		{two, Draft11, `OVER_LIMIT; OK 100/MINUTE "ip" 99 left, 40 s; OVER_LIMIT 4294967295/WEEK "" 0 left, 100 s; ` +
			`RateLimit-Policy: "ip";q=100;w=60, "default";q=4294967295;w=604800; RateLimit: "ip";r=99;t=40, "default";r=0;t=100`},
		{none, Draft3, `OK; OK 0 left; OK 4294967295 left`},
		{none, Draft11, `OK; OK 0 left; OK 4294967295 left`},
		{strings.Replace(two, ":1\r\n", ":0\r\n", 1)[:len(two)-len("*6\r\n:1\r\n:5000000000\r\n$4\r\nWEEK\r\n$0\r\n\r\n:0\r\n:100\r\n")], NoHeaders, "Internal: the reply to RL.ENVOY cannot be read"},
	} {
		if got := describe(responseOf(c.reply, c.headers)); got != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.reply, got, c.want)
		}
	}
}

// responseOf returns the response for a reply.
func responseOf(reply string, headers Headers) (*pb.RateLimitResponse, error) {
	b, failure := appendResponse(nil, []byte(reply), headers)
	if failure != nil {
		return nil, status.Error(codes.Code(failure.code), failure.text)
	}
	out := new(pb.RateLimitResponse)
	return out, proto.Unmarshal(b, out)
}

// describe writes a response, or an error, in one line.
func describe(out *pb.RateLimitResponse, err error) string {
	if err != nil {
		return status.Code(err).String() + ": " + status.Convert(err).Message()
	}
	text := out.OverallCode.String()
	for _, s := range out.Statuses {
		text += "; " + s.Code.String()
		if l := s.CurrentLimit; l != nil {
			text += fmt.Sprintf(" %d/%s %q", l.RequestsPerUnit, l.Unit, l.Name)
		}
		text += fmt.Sprintf(" %d left", s.LimitRemaining)
		if s.DurationUntilReset != nil {
			text += fmt.Sprintf(", %d s", s.DurationUntilReset.Seconds)
		}
	}
	for _, h := range out.ResponseHeadersToAdd {
		text += "; " + h.Key + ": " + h.Value
	}
	return text
}

// TestBrokenReplies cuts a reply at every byte and changes each of its bytes: no reply may be more than it says.
func TestBrokenReplies(t *testing.T) {
	whole := "*2\r\n:1\r\n*1\r\n*6\r\n:0\r\n:100\r\n$6\r\nMINUTE\r\n$2\r\nip\r\n:99\r\n:40\r\n"
	for n := range len(whole) {
		if _, err := responseOf(whole[:n], NoHeaders); status.Code(err) != codes.Internal {
			t.Errorf("%q: %v", whole[:n], err)
		}
		for _, c := range []byte("*:$-0917\r\n\x00") {
			b := []byte(whole)
			b[n] = c
			_, _ = responseOf(string(b), Draft11)
		}
	}
	for _, b := range []string{"*2\r\n:0\r\n*9223372036854775807\r\n", "*2\r\n:0\r\n*1\r\n*6\r\n:0\r\n:1\r\n$9223372036854775807\r\nx\r\n", whole + "x"} {
		if _, err := responseOf(b, NoHeaders); status.Code(err) != codes.Internal {
			t.Errorf("%q: %v", b, err)
		}
	}
}

func TestStatuses(t *testing.T) {
	for reply, want := range map[string]codes.Code{
		"ERR numentries is missing":           codes.InvalidArgument,
		"ERR the server is shutting down":     codes.Unavailable,
		"ERR internal error: the panic is in": codes.Internal,
		"LOADING the state is being loaded":   codes.Unavailable,
		"CLUSTERDOWN no leader":               codes.Unavailable,
		"MOVED 1 192.0.2.1:6379":              codes.Unavailable,
		"OOM command not allowed":             codes.Unavailable,
		"MISCONF cannot write":                codes.Unavailable,
		"UNKNOWNOUTCOME it may have run":      codes.Unavailable,
		"PAUSED for a while":                  codes.Unavailable,
		"NOPERM no":                           codes.PermissionDenied,
		"NOAUTH no":                           codes.Unauthenticated,
		"WRONGTYPE it holds a value":          codes.FailedPrecondition,
	} {
		_, err := responseOf("-"+reply+"\r\n", NoHeaders)
		if s := status.Convert(err); s.Code() != want || s.Message() != reply {
			t.Errorf("%s: %v", reply, err)
		}
	}
}
