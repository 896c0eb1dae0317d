package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"limitdb/cmd/limitdb/cli"
	"limitdb/config"
)

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
	}
	c.Flags().Bool("ready", false, "ask the HTTP port whether the server is ready")
	return asking(c, func(args []string) error {
		args, ready := cli.CutFlag(args, "--ready")
		set, err := settingsOf(args)
		if err != nil {
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
	})
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
	web := http.Client{Timeout: askTimeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
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
