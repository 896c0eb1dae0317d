package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

const notANumber = "Cell error: Store error: Couldn't parse as integer: sixty"

// goClient has the methods of a library that the tests below need.
type goClient struct {
	// do runs a command. Integers are returned as int64, arrays as []any.
	do func(args ...any) (any, error)
	// pipeline sends one command n times before it reads.
	pipeline func(n int, args ...any) ([]any, error)
	close    func()
}

// dialOptions says how a library should connect.
type dialOptions struct {
	addr, password, name string
	tls                  *tls.Config
}

// TestGoClients drives the server with Go's client libraries.
func TestGoClients(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		proto int
		dial  func(o dialOptions) (*goClient, error)
	}{
		{"go-redis", 3, dialGoRedis(3)},
		{"go-redis with RESP2", 2, dialGoRedis(2)},
		{"rueidis", 3, dialRueidis(rueidis.ClientOption{})},
		{"rueidis with RESP2", 2, dialRueidis(rueidis.ClientOption{AlwaysRESP2: true, DisableCache: true})},
		{"redigo", 2, dialRedigo},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testGoClient(t, startFixture(t), tt.proto, tt.dial)
		})
	}
}

func testGoClient(t *testing.T, f *fixture, proto int, dial func(dialOptions) (*goClient, error)) {
	connect := func(o dialOptions) *goClient {
		t.Helper()
		c, err := dial(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.close)
		return c
	}
	c := connect(dialOptions{addr: f.open.Addr, name: "e2e-go"})
	expect := func(want string, args ...any) {
		t.Helper()
		got, err := c.do(args...)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v: got %v (%v), want %s", args, got, err, want)
		}
	}
	expect("PONG", "PING")
	expect("[0 16 15 -1 2]", "CL.THROTTLE", "e2e:throttle", 15, 30, 60)
	expect("[0 5 4 -1 12000]", "RL.TAKE", "e2e:take", "GCRA", "5/m")
	expect("e2e-go", "CLIENT", "GETNAME")
	if _, err := c.do("CL.THROTTLE", "e2e:error", 15, 30, "sixty"); err == nil || err.Error() != notANumber {
		t.Errorf("got the error %v, want %s", err, notANumber)
	}
	info, err := c.do("CLIENT", "INFO")
	if want := fmt.Sprintf(" resp=%d", proto); err != nil || !strings.Contains(fmt.Sprint(info), want) {
		t.Errorf("CLIENT INFO: %v (%v), want%s", info, err, want)
	}
	// HELLO answers with a map in RESP3 and a flat array in RESP2.
	hello, err := c.do("HELLO", proto)
	if _, isMap := asMap(hello); err != nil || isMap != (proto == 3) {
		t.Errorf("HELLO: %#v (%v)", hello, err)
	}

	replies, err := c.pipeline(1000, "CL.THROTTLE", "e2e:pipeline", 499, 1, 86400)
	if err != nil {
		t.Fatal(err)
	}
	allowed := 0
	for _, r := range replies {
		if r.([]any)[0] == int64(0) {
			allowed++
		}
	}
	if len(replies) != 1000 || allowed != 500 {
		t.Errorf("a pipeline of 1000 got %d replies, %d allowed; want 500 allowed", len(replies), allowed)
	}

	reconnect(t, c, connect(dialOptions{addr: f.open.Addr}))

	c = connect(dialOptions{addr: f.locked.Addr, password: password})
	expect("PONG", "PING")
	c = connect(dialOptions{addr: "127.0.0.1:" + f.tlsPort, tls: trust(t, f.cert)})
	expect("PONG", "PING")
	if err := refused(dial, dialOptions{addr: f.locked.Addr, password: "wrong"}); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("a wrong password: %v, want WRONGPASS", err)
	}
}

func asMap(v any) (any, bool) {
	switch v.(type) {
	case map[string]any, map[any]any:
		return v, true
	}
	return v, false
}

// refused returns the error of connecting, or else of the first command.
func refused(dial func(dialOptions) (*goClient, error), o dialOptions) error {
	c, err := dial(o)
	if err != nil {
		return err
	}
	defer c.close()
	_, err = c.do("PING")
	return err
}

// reconnect makes other kill c's connection, and checks that c connects again by itself.
func reconnect(t *testing.T, c, other *goClient) {
	t.Helper()
	id, err := c.do("CLIENT", "ID")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := other.do("CLIENT", "KILL", "ID", id); err != nil || fmt.Sprint(n) != "1" {
		t.Fatalf("CLIENT KILL ID %v: %v (%v)", id, n, err)
	}
	eventually(t, "the client is connected again", func() bool {
		now, err := c.do("CLIENT", "ID")
		return err == nil && now != id
	})
}

func dialGoRedis(proto int) func(o dialOptions) (*goClient, error) {
	return func(o dialOptions) (*goClient, error) {
		c := goredis.NewClient(&goredis.Options{
			Addr: o.addr, Password: o.password, ClientName: o.name, Protocol: proto,
			TLSConfig: o.tls, PoolSize: 1, ReadTimeout: deadline,
		})
		ctx := context.Background()
		return &goClient{
			do: func(args ...any) (any, error) { return c.Do(ctx, args...).Result() },
			pipeline: func(n int, args ...any) ([]any, error) {
				cmds, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
					for range n {
						p.Do(ctx, args...)
					}
					return nil
				})
				replies := make([]any, len(cmds))
				for i, cmd := range cmds {
					replies[i] = cmd.(*goredis.Cmd).Val()
				}
				return replies, err
			},
			close: func() { c.Close() },
		}, nil
	}
}

func dialRueidis(option rueidis.ClientOption) func(o dialOptions) (*goClient, error) {
	return func(o dialOptions) (*goClient, error) {
		option := option
		option.InitAddress = []string{o.addr}
		option.Password, option.ClientName, option.TLSConfig = o.password, o.name, o.tls
		option.ConnWriteTimeout = deadline // of replies too
		option.PipelineMultiplex = -1      // one connection, so that CLIENT ID is always the same
		c, err := rueidis.NewClient(option)
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		cmd := func(args []any) rueidis.Completed {
			words := make([]string, len(args))
			for i, a := range args {
				words[i] = fmt.Sprint(a)
			}
			return c.B().Arbitrary(words...).Build()
		}
		value := func(r rueidis.RedisResult) (any, error) {
			if err := r.Error(); err != nil {
				return nil, err
			}
			return r.ToAny()
		}
		return &goClient{
			do: func(args ...any) (any, error) { return value(c.Do(ctx, cmd(args))) },
			pipeline: func(n int, args ...any) ([]any, error) {
				cmds := make([]rueidis.Completed, n)
				for i := range cmds {
					cmds[i] = cmd(args)
				}
				var replies []any
				for _, r := range c.DoMulti(ctx, cmds...) {
					v, err := value(r)
					if err != nil {
						return nil, err
					}
					replies = append(replies, v)
				}
				return replies, nil
			},
			close: c.Close,
		}, nil
	}
}

func dialRedigo(o dialOptions) (*goClient, error) {
	options := []redis.DialOption{
		redis.DialPassword(o.password), redis.DialClientName(o.name),
		redis.DialUseTLS(o.tls != nil), redis.DialTLSConfig(o.tls),
		redis.DialReadTimeout(deadline), redis.DialWriteTimeout(deadline),
	}
	pool := &redis.Pool{
		MaxIdle: 1, MaxActive: 1, Wait: true, IdleTimeout: time.Minute,
		Dial: func() (redis.Conn, error) { return redis.Dial("tcp", o.addr, options...) },
	}
	text := func(v any) any {
		if b, ok := v.([]byte); ok {
			return string(b)
		}
		return v
	}
	return &goClient{
		do: func(args ...any) (any, error) {
			c := pool.Get()
			defer c.Close()
			v, err := c.Do(args[0].(string), args[1:]...)
			return text(v), err
		},
		pipeline: func(n int, args ...any) ([]any, error) {
			c := pool.Get()
			defer c.Close()
			for range n {
				if err := c.Send(args[0].(string), args[1:]...); err != nil {
					return nil, err
				}
			}
			if err := c.Flush(); err != nil {
				return nil, err
			}
			replies := make([]any, n)
			var errs []error
			for i := range replies {
				v, err := c.Receive()
				replies[i] = text(v)
				errs = append(errs, err)
			}
			return replies, errors.Join(errs...)
		},
		close: func() { pool.Close() },
	}, nil
}

// TestRueidisCachesNothing: a value that rueidis may cache for an hour is read again.
func TestRueidisCachesNothing(t *testing.T) {
	t.Parallel()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{start(t).Addr}, ConnWriteTimeout: deadline, PipelineMultiplex: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, want := range []string{"1", "2"} {
		if err := c.Do(t.Context(), c.B().Set().Key("k").Value(want).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if got, err := c.DoCache(t.Context(), c.B().Get().Key("k").Cache(), time.Hour).ToString(); err != nil || got != want {
			t.Errorf("%q (%v), want %q", got, err, want)
		}
	}
}
