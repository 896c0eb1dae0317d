package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/config"
	"limitdb/resp"
)

// askTimeout bounds the time of a connection to a running server, and of each reply.
const askTimeout = 5 * time.Second

// asking makes c a command that asks a running server: beside flags of its own, it takes the server's address, and the
// directives of its configuration, which package config parses. run gets the arguments as they were typed.
func asking(c *cobra.Command, run func(args []string) error) *cobra.Command {
	c.DisableFlagParsing, c.DisableFlagsInUseLine = true, true
	cli.AddressFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
			return c.Help()
		}
		return run(args)
	}
	return c
}

// settingsOf returns the configuration that arguments and the environment give, with the address of -a in it.
func settingsOf(args []string) (*config.Settings, error) {
	args, err := cli.CutAddress(args)
	if err != nil {
		return nil, err
	}
	registry, set := config.New()
	return set, registry.Load(config.Sources{Args: args, Environ: os.Environ()})
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
	return signIn(conn, set)
}

// connectTo is connect to another server of the same cluster, at its host:port.
func connectTo(address string, set *config.Settings) (*client, error) {
	d := net.Dialer{Timeout: askTimeout}
	conn, err := d.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return signIn(conn, set)
}

// signIn authenticates on a connection, if there is a password. An error closes it.
func signIn(conn net.Conn, set *config.Settings) (*client, error) {
	c := &client{conn, bufio.NewReader(conn)}
	if pass := set.RequirePass.Get(); pass != "" {
		if _, err := c.ask("AUTH", pass); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// ask sends a command and returns its reply. An error reply is an error, of the type replied.
func (c *client) ask(words ...string) (resp.Value, error) {
	if err := c.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return resp.Value{}, err
	}
	v, err := cli.Ask(c, c.r, 4<<20, words...)
	if err == nil && v.Err() != nil {
		err = replied{v.Err()}
	}
	return v, err
}

// replied is an error that the server replied, unlike one of the connection.
type replied struct{ error }

func (r replied) Unwrap() error { return r.error }

// dialServer connects to the first address on which a server with these settings listens.
func dialServer(set *config.Settings) (net.Conn, error) {
	d := net.Dialer{Timeout: askTimeout}
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
