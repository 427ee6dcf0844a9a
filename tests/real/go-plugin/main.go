// SPDX-License-Identifier: LGPL-2.1-or-later

// Command go-plugin plays a host of hashicorp/go-plugin for a plugin of Nomad.
//
//	go-plugin PROGRAM
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// The handshake of Nomad's plugins.
var handshake = plugin.HandshakeConfig{
	ProtocolVersion:  2,
	MagicCookieKey:   "NOMAD_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
}

// raw is a plugin whose client is the connection itself.
type raw struct{ plugin.NetRPCUnsupportedPlugin }

func (raw) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return fmt.Errorf("not a server")
}

func (raw) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// text is a buffer that several goroutines write to.
type text struct {
	lock   sync.Mutex
	buffer bytes.Buffer
}

func (t *text) Write(bytes []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.buffer.Write(bytes)
}

func (t *text) String() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.buffer.String()
}

var program string

func config(log io.Writer) *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig:  handshake,
		Plugins:          plugin.PluginSet{"driver": raw{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Cmd:              exec.Command(program),
		Logger: hclog.New(&hclog.LoggerOptions{
			Level: hclog.Trace, Output: log, JSONFormat: true}),
	}
}

func ping(client *plugin.Client) error {
	protocol, err := client.Client()
	if err != nil {
		return err
	}
	if err = protocol.Ping(); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	if _, err = protocol.Dispense("driver"); err != nil {
		return fmt.Errorf("dispense: %w", err)
	}
	return nil
}

// kill fails if the library had to kill the plugin.
func kill(client *plugin.Client, log *text) error {
	begin := time.Now()
	client.Kill()
	if took := time.Since(begin); took > 1500*time.Millisecond {
		return fmt.Errorf("the plugin took %v to end", took)
	}
	if strings.Contains(log.String(), "failed to exit gracefully") {
		return fmt.Errorf("the host had to kill the plugin")
	}
	return nil
}

func startAndKill(change func(*plugin.ClientConfig)) error {
	log := &text{}
	settings := config(log)
	change(settings)
	client := plugin.NewClient(settings)
	defer client.Kill()
	if err := ping(client); err != nil {
		return fmt.Errorf("%w\n%s", err, log)
	}
	if err := kill(client, log); err != nil {
		return fmt.Errorf("%w\n%s", err, log)
	}
	for _, word := range []string{"[WARN]", "panic", "stdio service not available"} {
		if strings.Contains(log.String(), word) {
			return fmt.Errorf("the host's log has %q:\n%s", word, log)
		}
	}
	return nil
}

func reattach() error {
	first := plugin.NewClient(config(io.Discard))
	defer first.Kill()
	if err := ping(first); err != nil {
		return err
	}
	log := &text{}
	settings := config(log)
	settings.Cmd = nil
	settings.Reattach = first.ReattachConfig()
	second := plugin.NewClient(settings)
	if err := ping(second); err != nil {
		return err
	}
	if err := ping(first); err != nil {
		return fmt.Errorf("after a second host came: %w", err)
	}
	second.Kill()
	if !second.Exited() {
		return fmt.Errorf("the plugin lives on")
	}
	return nil
}

func otherVersion() error {
	settings := config(io.Discard)
	settings.HandshakeConfig.ProtocolVersion = 3
	client := plugin.NewClient(settings)
	defer client.Kill()
	_, err := client.Start()
	if err == nil || !strings.Contains(err.Error(), "ncompatible API version") {
		return fmt.Errorf("a host of version 3 gets: %v", err)
	}
	return nil
}

func multiplexing() error {
	settings := config(io.Discard)
	settings.GRPCBrokerMultiplex = true
	client := plugin.NewClient(settings)
	defer client.Kill()
	_, err := client.Start()
	if err == nil || !strings.Contains(err.Error(), "multiplexing") {
		return fmt.Errorf("a host that wants multiplexing gets: %v", err)
	}
	return nil
}

func atOnce() error {
	const count = 8
	errors := make(chan error, count)
	for i := 0; i < count; i++ {
		go func() { errors <- startAndKill(func(*plugin.ClientConfig) {}) }()
	}
	var failed error
	for i := 0; i < count; i++ {
		if err := <-errors; err != nil {
			failed = err
		}
	}
	return failed
}

func main() {
	program = os.Args[1]
	status := 0
	for _, test := range []struct {
		name string
		run  func() error
	}{
		{"start, ping and end", func() error {
			return startAndKill(func(*plugin.ClientConfig) {})
		}},
		{"AutoMTLS", func() error {
			return startAndKill(func(c *plugin.ClientConfig) { c.AutoMTLS = true })
		}},
		{"reattach", reattach},
		{"a host of another version", otherVersion},
		{"a host that wants multiplexing", multiplexing},
		{"eight at once", atOnce},
	} {
		err := test.run()
		if err != nil {
			status = 1
			fmt.Printf("FAILED: %s: %v\n", test.name, err)
		} else {
			fmt.Printf("ok: %s\n", test.name)
		}
	}
	os.Exit(status)
}
