// SPDX-License-Identifier: LGPL-2.1-or-later

// Package mountd1 calls mountd, by its socket or by the system bus.
//
// Each method of org.mountd1.Manager is a method of Client, with a struct for
// each dictionary of the contract. A call that mountd answers with InProgress
// is joined again until it is done, and a call that met the end of mountd is
// repeated on a new connection, both as long as the context allows. Every call
// of mountd may be repeated.
package mountd1

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	service    = "org.mountd1"
	object     = dbus.ObjectPath("/org/mountd1")
	manager    = "org.mountd1.Manager"
	plugin     = "org.mountd1.Plugin"
	properties = "org.freedesktop.DBus.Properties."

	// Socket is the address of mountd's own socket.
	Socket = "unix:path=/run/mountd/bus"

	// A start of mountd with ten thousand mounts takes less time.
	defaultReconnect = 10 * time.Second
	firstPause       = 20 * time.Millisecond
	longestPause     = 500 * time.Millisecond
)

// Client owns a connection to mountd, and makes another one when it is lost.
// All methods may be called from several goroutines.
type Client struct {
	// Reconnect is how long a call goes on without a mountd that answers.
	Reconnect time.Duration

	dial func(ctx context.Context) (*dbus.Conn, error)
	lock sync.Mutex
	conn *dbus.Conn
	// Receives the signals of each connection; nil without Subscribe.
	signals chan any
}

// Dial returns a client of mountd's socket, as Socket. The first call connects.
func Dial(address string) *Client {
	return &Client{Reconnect: defaultReconnect,
		dial: func(ctx context.Context) (*dbus.Conn, error) {
			conn, err := dbus.Dial(address)
			if err != nil {
				return nil, err
			}
			user := strconv.Itoa(os.Getuid())
			if err = conn.Auth([]dbus.Auth{dbus.AuthExternal(user)}); err != nil {
				conn.Close()
				return nil, err
			}
			return conn, nil
		}}
}

// DialSystemBus returns a client of mountd on the system bus.
func DialSystemBus() *Client {
	return &Client{Reconnect: defaultReconnect,
		dial: func(ctx context.Context) (*dbus.Conn, error) {
			conn, err := dbus.ConnectSystemBus()
			if err != nil {
				return nil, err
			}
			if err = conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(service)); err != nil {
				conn.Close()
				return nil, err
			}
			return conn, nil
		}}
}

// Close ends the connection. A later call makes another one.
func (c *Client) Close() {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// Signals returns the channel of mountd's signals, each as a pointer to a struct
// of this package, and subscribes on this connection and on each later one. It
// drops signals while the channel is full. nil on the channel means that the
// connection was lost, and with it any signals until now.
func (c *Client) Signals(ctx context.Context) (<-chan any, error) {
	c.lock.Lock()
	if c.signals == nil {
		c.signals = make(chan any, 256)
		if c.conn != nil {
			c.conn.Close() // the next connection is one that subscribes
			c.conn = nil
		}
	}
	signals := c.signals
	c.lock.Unlock()
	_, err := c.Version(ctx)
	return signals, err
}

// connection returns the connection, or makes one.
func (c *Client) connection(ctx context.Context) (*dbus.Conn, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.conn != nil && c.conn.Connected() {
		return c.conn, nil
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	if c.signals != nil {
		if err = c.subscribe(ctx, conn); err != nil {
			conn.Close()
			return nil, err
		}
	}
	c.conn = conn
	return conn, nil
}

func (c *Client) subscribe(ctx context.Context, conn *dbus.Conn) error {
	received := make(chan *dbus.Signal, 256)
	conn.Signal(received)
	call := conn.Object(service, object).CallWithContext(
		ctx, manager+".Subscribe", 0, map[string]dbus.Variant{})
	if call.Err != nil {
		return call.Err
	}
	signals := c.signals
	go func() {
		for one := range received {
			if signal := decodeSignal(one); signal != nil {
				offer(signals, signal)
			}
		}
		offer(signals, nil)
	}()
	return nil
}

func offer(signals chan any, signal any) {
	select {
	case signals <- signal:
	default:
	}
}

// PluginPropertiesChanged is PropertiesChanged of an object of
// org.mountd1.Plugin, with all its properties.
type PluginPropertiesChanged struct {
	Object dbus.ObjectPath `dbus:"object"`

	Properties PluginProperties `dbus:"properties"`
}

func decodePropertiesChanged(received *dbus.Signal) any {
	signal := &PluginPropertiesChanged{Object: received.Path}
	if len(received.Body) < 2 || received.Body[0] != plugin ||
		fromWire(received.Body[1], reflect.ValueOf(&signal.Properties).Elem()) != nil {
		return nil
	}
	return signal
}

// decodeSignal returns nil for a signal that the contract did not have, or that
// does not follow it.
func decodeSignal(received *dbus.Signal) any {
	const prefix = manager + "."
	if received.Name == properties+"PropertiesChanged" {
		return decodePropertiesChanged(received)
	}
	if len(received.Name) <= len(prefix) || received.Name[:len(prefix)] != prefix {
		return nil
	}
	signal := newSignal(received.Name[len(prefix):])
	if signal == nil {
		return nil
	}
	into := reflect.ValueOf(signal).Elem()
	if into.NumField() > len(received.Body) {
		return nil
	}
	for i := 0; i < into.NumField(); i++ {
		if fromWire(received.Body[i], into.Field(i)) != nil {
			return nil
		}
	}
	return signal
}

// drop forgets a connection that was lost.
func (c *Client) drop(conn *dbus.Conn) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if conn != nil && c.conn == conn {
		c.conn.Close()
		c.conn = nil
	}
}

// call makes the call, joins it while it is in progress, and repeats it on
// another connection if mountd went away.
func (c *Client) call(ctx context.Context, method string, result any, arguments ...any) error {
	wire := make([]any, len(arguments))
	for i, argument := range arguments {
		wire[i] = toWire(reflect.ValueOf(argument))
	}
	return c.repeat(ctx, method, result, object, manager+"."+method, wire)
}

func (c *Client) property(ctx context.Context, name string, result any) error {
	var value dbus.Variant
	arguments := []any{manager, name}
	if err := c.repeat(ctx, name, &value, object, properties+"Get", arguments); err != nil {
		return err
	}
	return fromWire(value.Value(), reflect.ValueOf(result).Elem())
}

// PluginProperties returns the properties of an object of org.mountd1.Plugin,
// which GetPlugin and PluginAdded name. ErrNotSupported if there is no such
// object.
func (c *Client) PluginProperties(ctx context.Context, path dbus.ObjectPath) (
	result PluginProperties, err error) {
	if !path.IsValid() {
		return result, fmt.Errorf("PluginProperties: %w: %q is no object path",
			ErrInvalidArgument, path)
	}
	err = c.repeat(ctx, "PluginProperties", &result, path, properties+"GetAll", []any{plugin})
	return
}

func (c *Client) repeat(ctx context.Context, method string, result any,
	path dbus.ObjectPath, member string, arguments []any) error {
	var lost time.Time // when the first of the tries in a row failed
	for pause := firstPause; ; pause = nextPause(pause) {
		body, err := c.try(ctx, path, member, arguments)
		switch {
		case err == nil:
			return store(method, body, result)
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", method, ctx.Err())
		case isInProgress(err):
			lost, pause = time.Time{}, firstPause
			continue
		case !errors.Is(err, ErrAway):
			var failed dbus.Error
			if errors.As(err, &failed) {
				return typedError(method, failed)
			}
			return fmt.Errorf("%s: %w", method, err)
		}
		if lost.IsZero() {
			lost = time.Now()
		}
		if time.Since(lost) > c.Reconnect {
			return fmt.Errorf("%s: %w", method, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", method, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// try makes the call once. The error is ErrAway if mountd did not answer.
func (c *Client) try(ctx context.Context, path dbus.ObjectPath, member string,
	arguments []any) ([]any, error) {
	conn, err := c.connection(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrAway, err)
	}
	call := conn.Object(service, path).CallWithContext(ctx, member, 0, arguments...)
	if isLost(call.Err) {
		c.drop(conn)
		return nil, fmt.Errorf("%w: %v", ErrAway, call.Err)
	}
	return call.Body, call.Err
}

func isInProgress(err error) bool {
	var failed dbus.Error
	return errors.As(err, &failed) && failed.Name == errorPrefix+string(ErrInProgress)
}

func nextPause(pause time.Duration) time.Duration {
	if pause *= 2; pause > longestPause {
		return longestPause
	}
	return pause
}

func store(method string, body []any, result any) error {
	if result == nil {
		return nil
	}
	if len(body) == 0 {
		return fmt.Errorf("%s: the answer is empty", method)
	}
	if err := fromWire(body[0], reflect.ValueOf(result).Elem()); err != nil {
		return fmt.Errorf("%s: the answer: %w", method, err)
	}
	return nil
}
