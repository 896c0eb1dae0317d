package load

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"limitdb/resp"
)

// fake is a server whose replies come from a function.
type fake struct {
	// answer returns the reply to command n of a connection, counted from 0. It may sleep; commands are still
	// read meanwhile. An empty reply closes the connection.
	answer func(n int, args []string) string

	mu       sync.Mutex // guards commands
	commands [][]string // all commands that came, in order
	wg       sync.WaitGroup
}

// runFake calls Run with fake time, which the kernel's timers do not know.
func runFake(ctx context.Context, c Config) (*Result, error) {
	c.newNap = newGoNap
	return Run(ctx, c)
}

const granted = "*5\r\n:0\r\n:101\r\n:100\r\n:-1\r\n:36\r\n"

const denied = "*5\r\n:1\r\n:101\r\n:0\r\n:36\r\n:3600\r\n"

// pipe is a Dial that connects to the fake without a network, so that it works with fake time.
func (f *fake) pipe(context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	f.serve(server)
	return client, nil
}

// listen serves on a loopback address until the listener is closed.
func (f *fake) listen(l net.Listener) {
	f.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.serve(c)
		}
	})
}

func (f *fake) serve(c net.Conn) {
	requests := make(chan []string, 1<<11)
	f.wg.Go(func() { // this goroutine reads, and never waits for the replies
		defer close(requests)
		r := resp.Reader{Limits: resp.Limits{Args: 64, WideArgs: 64, Bulk: 1 << 16, Inline: 1 << 16, Query: 1 << 20}}
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			r.Feed(buf[:n])
			for {
				args, perr := r.Next()
				if perr != nil {
					return
				}
				if args == nil {
					break
				}
				requests <- words(args)
			}
			r.Keep()
			if err != nil {
				return
			}
		}
	})
	f.wg.Go(func() {
		defer func() {
			c.Close()
			for range requests { // lets the reader end
			}
		}()
		n := 0
		for args := range requests {
			f.mu.Lock()
			f.commands = append(f.commands, args)
			f.mu.Unlock()
			reply := f.answer(n, args)
			n++
			if reply == "" {
				return
			}
			if _, err := io.WriteString(c, reply); err != nil {
				return
			}
		}
	})
}

func words(args [][]byte) []string {
	var w []string
	for _, a := range args {
		w = append(w, string(a))
	}
	return w
}

// count returns how many commands came.
func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.commands)
}

// always returns a function that answers reply after d.
func always(reply string, d time.Duration) func(int, []string) string {
	return func(int, []string) string {
		time.Sleep(d)
		return reply
	}
}
