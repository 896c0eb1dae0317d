package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// passwordVariable is where redis-cli also looks for a password.
const passwordVariable = "REDISCLI_AUTH"

// Command returns the subcommand "bench", which runs the generator. It writes the result to standard output
// and, if standard error is a terminal, a progress line there. Error replies make it fail at the end.
func Command() *cobra.Command {
	var c Config
	var asJSON, quiet bool
	var distribution string
	cmd := &cobra.Command{
		Use:   "bench [flags] [--] [COMMAND ARG …]",
		Short: "Put load on a server and measure it",
		Long: `Sends COMMAND over and over and prints throughput, latencies and, for a server on this
machine, its CPU time for each request. ` + Placeholder + ` in a word stands for the number of a key, in
12 digits. The default is

    ` + DefaultCommand + `

Without --rate, each connection sends its next pipeline when the last one is answered.
With it, requests are due at even intervals, whether or not the server keeps up, and latency
counts from then, so a stall counts in full.

The password comes from the environment, ` + passwordVariable + `.`,
		Example: "  limitdb bench -P 64 -d 10s\n" +
			"  limitdb bench --rate 50000 -d 30s --distribution zipf --json\n" +
			"  limitdb bench -n 1000000 --distribution sequential RL.TAKE user:" + Placeholder + " TOKEN 100/m",
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.Connections == 0 || c.Pipeline == 0 || c.Keys == 0 {
				return errors.New("--connections, --pipeline and --keys must be above 0")
			}
			c.Command, c.Distribution = args, Distribution(distribution)
			c.Password = os.Getenv(passwordVariable)
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return bench(ctx, c, cmd.OutOrStdout(), cmd.ErrOrStderr(), asJSON, quiet)
		},
	}
	f := cmd.Flags()
	// A word of the command may begin with a minus.
	f.SetInterspersed(false)
	f.SortFlags = false
	f.StringVarP(&c.Addr, "addr", "a", defaultAddr, "the server's host:port, or the path of its unix socket")
	f.IntVarP(&c.Connections, "connections", "c", 50, "connections")
	f.IntVarP(&c.Pipeline, "pipeline", "P", 1, "requests sent together")
	f.Uint64VarP(&c.Requests, "requests", "n", 0, "end after this many requests")
	f.DurationVarP(&c.Duration, "duration", "d", 0, "end after this time (default 10s, unless --requests is given)")
	f.DurationVarP(&c.Warmup, "warmup", "w", 0, "warm up for this time, which is not counted")
	f.BoolVar(&c.Cluster, "cluster", false, "divide the connections among the nodes of the cluster, each with keys that its node leads")
	f.Uint64Var(&c.Rate, "rate", 0, "open loop: requests a second, of all connections together")
	f.Uint64VarP(&c.Keys, "keys", "r", 1_000_000, "different keys")
	f.StringVar(&distribution, "distribution", string(Uniform), "how to draw keys: uniform, zipf, sequential or single")
	f.Float64Var(&c.ZipfS, "zipf-s", 1.1, "Zipf's exponent, above 1")
	f.Uint64Var(&c.Seed, "seed", 0, "the same seed draws the same keys")
	f.DurationVar(&c.Timeout, "timeout", 10*time.Second, "give up when no reply comes for this time")
	f.IntVar(&c.PID, "pid", 0, "the server's process, for its CPU time (default: ask a server on this machine)")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	f.BoolVarP(&quiet, "quiet", "q", false, "no progress line")
	return cmd
}

func bench(ctx context.Context, c Config, out, errOut io.Writer, asJSON, quiet bool) error {
	if c.PID == 0 {
		c.PID = PIDOf(ctx, c)
	}
	clear := func() {}
	if f, ok := errOut.(*os.File); ok && !quiet && terminal(f) {
		c.Progress = func(p Progress) { fmt.Fprintf(errOut, "\r\x1b[K%s", p) }
		clear = func() { fmt.Fprint(errOut, "\r\x1b[K") }
	}
	res, err := Run(ctx, c)
	clear()
	if err != nil {
		return err
	}
	if asJSON {
		err = res.WriteJSON(out)
	} else {
		err = res.WriteTable(out)
	}
	if err == nil && res.Errors > 0 {
		err = fmt.Errorf("%d of %d replies were errors, such as %s", res.Errors, res.Requests, res.FirstError)
	}
	return err
}

func terminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// String returns the progress line.
func (p Progress) String() string {
	var b strings.Builder
	if p.Warming {
		b.WriteString("warming up ")
	}
	fmt.Fprintf(&b, "%.0f s  %s requests", p.Elapsed.Seconds(), amount(float64(p.Requests)))
	if !p.Warming {
		fmt.Fprintf(&b, "  %s/s  p50 %s  p99 %s", amount(p.PerSecond), span(int64(p.P50)), span(int64(p.P99)))
	}
	if p.Errors > 0 {
		fmt.Fprintf(&b, "  errors %d", p.Errors)
	}
	return b.String()
}
