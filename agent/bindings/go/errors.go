// SPDX-License-Identifier: LGPL-2.1-or-later

package mountd1

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/godbus/dbus/v5"
)

const (
	errorPrefix    = "org.mountd1.Error."
	busErrorPrefix = "org.freedesktop.DBus.Error."
)

// Code is the last part of an error's name. errors.Is(err, ErrBusy) compares.
type Code string

func (c Code) Error() string { return string(c) }

// Error is an answer of mountd, or of the bus, that is an error.
type Error struct {
	Code Code

	// Method is the call that failed.
	Method string

	// Name is the whole name, as org.mountd1.Error.Busy.
	Name string

	Message string
}

func (e *Error) Error() string { return e.Method + ": " + string(e.Code) + ": " + e.Message }

// Is makes errors.Is compare the code.
func (e *Error) Is(target error) bool { return target == e.Code }

// ErrAway is the error if mountd does not answer: it is not there, or it went
// away and did not come back in time.
var ErrAway = errors.New("mountd does not answer")

// codeOfBusError says which error an error of the bus, or of mountd's own D-Bus
// library, means to a caller.
func codeOfBusError(name string) Code {
	switch strings.TrimPrefix(name, busErrorPrefix) {
	case "AccessDenied":
		return ErrPermissionDenied
	case "InvalidArgs", "InvalidSignature":
		return ErrInvalidArgument
	case "UnknownMethod", "UnknownInterface", "UnknownObject", "UnknownProperty":
		return ErrNotSupported
	case "LimitsExceeded":
		return ErrResourceExhausted
	}
	return ErrUnavailable
}

func typedError(method string, failed dbus.Error) *Error {
	typed := &Error{Method: method, Name: failed.Name}
	if strings.HasPrefix(failed.Name, errorPrefix) {
		typed.Code = Code(strings.TrimPrefix(failed.Name, errorPrefix))
	} else {
		typed.Code = codeOfBusError(failed.Name)
	}
	if len(failed.Body) > 0 {
		typed.Message, _ = failed.Body[0].(string)
	}
	return typed
}

// isLost reports whether mountd went away before it answered. The call may have
// been done or not, and every call of mountd may be repeated.
func isLost(err error) bool {
	var failed dbus.Error
	if errors.As(err, &failed) {
		switch strings.TrimPrefix(failed.Name, busErrorPrefix) {
		case "Disconnected", "NoReply", "NameHasNoOwner":
			return true
		}
		return false
	}
	var network net.Error
	return err != nil && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded) &&
		(errors.Is(err, dbus.ErrClosed) || errors.Is(err, io.EOF) ||
			errors.As(err, &network))
}
