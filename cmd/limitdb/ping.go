package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/config"
	"limitdb/resp"
)

// pingTimeout bounds the time of limitdb ping.
const pingTimeout = 5 * time.Second

func pingCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "ping [--ready] [-a ADDRESS] [FILE] [--directive value …]",
		Short: "Check that a running server answers; exit 0 if it does",
		Long: `Connects to the address that a server with this configuration listens on, sends PING and
prints PONG. It reads the configuration as the server does, so that in a container
"limitdb ping" asks the container's own server. -a names another address, host:port or the path
of a unix socket.

--ready asks /readyz of the HTTP port instead: whether the server makes decisions and, in a cluster, has
caught up.`,
		DisableFlagParsing: true, DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
				return c.Help()
			}
			args, ready := cli.CutFlag(args, "--ready")
			args, err := cli.CutAddress(args)
			if err != nil {
				return err
			}
			registry, set := config.New()
			if err := registry.Load(config.Sources{Args: args, Environ: os.Environ()}); err != nil {
				return err
			}
			if ready {
				return askReady(c.OutOrStdout(), set)
			}
			reply, err := ping(set)
			if err != nil {
				return fmt.Errorf("no answer: %w", err)
			}
			fmt.Fprintln(c.OutOrStdout(), reply)
			return nil
		},
	}
	c.Flags().Bool("ready", false, "ask the HTTP port whether the server is ready")
	cli.AddressFlag(c)
	return c
}

// ping connects according to set and returns the reply to PING.
func ping(set *config.Settings) (string, error) {
	c, err := connect(set)
	if err != nil {
		return "", err
	}
	defer c.Close()
	reply, err := c.ask("PING")
	if err != nil && strings.Contains(err.Error(), "NOAUTH") {
		// The server answers; asking for a password does not make it unhealthy.
		return "PONG (it requires a password)", nil
	}
	return reply.Text, err
}

// askReady asks the HTTP port whether the server is ready.
func askReady(out io.Writer, set *config.Settings) error {
	port := set.HTTPPort.Get()
	if port == 0 {
		return errors.New("the configuration has no http-port")
	}
	scheme := "http"
	if set.HTTPTLS.Get() {
		scheme = "https"
	}
	// There is no need to authenticate the server on this machine's own port.
	web := http.Client{Timeout: pingTimeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	host := dialAddress(set, port)
	if all := set.HTTPBind.Get(); len(all) > 0 && net.ParseIP(all[0]) != nil && !net.ParseIP(all[0]).IsUnspecified() {
		host = net.JoinHostPort(all[0], strconv.FormatInt(port, 10))
	}
	res, err := web.Get(scheme + "://" + host + "/readyz")
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4096)) // what came of it
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", strings.TrimSpace(string(body)))
	}
	fmt.Fprintln(out, "ready")
	return nil
}

// client is a connection to a running server.
type client struct {
	net.Conn
	r *bufio.Reader
}

// connect connects to a server with these settings, and authenticates.
func connect(set *config.Settings) (*client, error) {
	conn, err := dialServer(set)
	if err != nil {
		return nil, err
	}
	c := &client{conn, bufio.NewReader(conn)}
	if pass := set.RequirePass.Get(); pass != "" {
		if _, err := c.ask("AUTH", pass); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// ask sends a command and returns its reply. An error reply is an error.
func (c *client) ask(words ...string) (resp.Value, error) {
	if err := c.SetDeadline(time.Now().Add(pingTimeout)); err != nil {
		return resp.Value{}, err
	}
	v, err := cli.Ask(c, c.r, 4<<20, words...)
	if err == nil {
		err = v.Err()
	}
	return v, err
}

// dialServer connects to the first address on which a server with these settings listens.
func dialServer(set *config.Settings) (net.Conn, error) {
	d := net.Dialer{Timeout: pingTimeout}
	if port := set.Port.Get(); port != 0 {
		return d.Dial("tcp", dialAddress(set, port))
	}
	if path := set.UnixSocket.Get(); path != "" {
		return d.Dial("unix", path)
	}
	if port := set.TLSPort.Get(); port != 0 {
		// There is no need to authenticate the server on this machine's own port.
		c := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
		if cert, err := tls.LoadX509KeyPair(set.TLSCertFile.Get(), set.TLSKeyFile.Get()); err == nil {
			c.Certificates = []tls.Certificate{cert}
		}
		return tls.DialWithDialer(&d, "tcp", dialAddress(set, port), c)
	}
	return nil, fmt.Errorf("the configuration has no port, no tls-port and no unixsocket")
}

// dialAddress returns a port of the first address that the server listens on, or of loopback for all addresses.
func dialAddress(set *config.Settings, port int64) string {
	host := "127.0.0.1" // needs no look-up of a name
	if addrs := set.Addrs(); len(addrs) > 0 && addrs[0].Host != "" {
		if ip := net.ParseIP(addrs[0].Host); ip == nil || !ip.IsUnspecified() {
			host = addrs[0].Host
		}
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10))
}
