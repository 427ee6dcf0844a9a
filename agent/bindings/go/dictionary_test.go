// SPDX-License-Identifier: LGPL-2.1-or-later

package mountd1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestOnlyKeysThatAreSetAreSent(t *testing.T) {
	options := BindMountOptions{Noexec: Of(false), TaskPath: Of("/data"),
		Idmap: []IdExtent{{1, 2, 3}}}
	wire := toWire(reflect.ValueOf(options)).(map[string]dbus.Variant)
	want := map[string]string{"noexec": "b", "task_path": "s", "idmap": "a(uuu)"}
	for key, signature := range want {
		if got := wire[key].Signature().String(); got != signature {
			t.Errorf("%s is %q", key, got)
		}
	}
	if len(wire) != len(want) {
		t.Errorf("sends %v", wire)
	}
}

func TestDictionariesInDictionariesAreSent(t *testing.T) {
	spec := VolumeCreation{Usages: []VolumeUsage{{ReadOnly: Of(true)}}}
	wire := toWire(reflect.ValueOf(spec)).(map[string]dbus.Variant)
	if got := wire["usages"].Signature().String(); got != "aa{sv}" {
		t.Errorf("usages are %q", got)
	}
}

func TestNilListsHaveTheirType(t *testing.T) {
	if got := toWire(reflect.ValueOf([]Port(nil))); reflect.ValueOf(got).IsNil() {
		t.Error("a nil list stays nil")
	}
}

func TestAnAnswerIsReadWithItsNestedDictionaries(t *testing.T) {
	answer := map[string]dbus.Variant{
		"complete":    dbus.MakeVariant(true),
		"a_later_key": dbus.MakeVariant("x"),
		"holders": dbus.MakeVariant([]map[string]dbus.Variant{
			{"pid": dbus.MakeVariant(uint32(7)), "how": dbus.MakeVariant("cwd")}}),
	}
	var holders Holders
	if err := fromWire(answer, reflect.ValueOf(&holders).Elem()); err != nil {
		t.Fatal(err)
	}
	if !holders.Complete || len(holders.Holders) != 1 || holders.Holders[0].Pid != 7 {
		t.Errorf("read %+v", holders)
	}
	if holders.Raw["a_later_key"].Value() != "x" {
		t.Error("a later key is not in Raw")
	}
}

func TestStructsAreRead(t *testing.T) {
	answer := map[string]dbus.Variant{"volumes": dbus.MakeVariant(
		[][]interface{}{{"csi", "vol", true}})}
	var receipt Receipt
	if err := fromWire(answer, reflect.ValueOf(&receipt).Elem()); err != nil {
		t.Fatal(err)
	}
	want := []ReleasedVolume{{"csi", "vol", true}}
	if !reflect.DeepEqual(receipt.Volumes, want) {
		t.Errorf("read %+v", receipt.Volumes)
	}
}

func TestAKeyOfAnotherTypeIsAnError(t *testing.T) {
	answer := map[string]dbus.Variant{"complete": dbus.MakeVariant("yes")}
	var holders Holders
	if fromWire(answer, reflect.ValueOf(&holders).Elem()) == nil {
		t.Error("a text was read as a bool")
	}
}

func TestErrorsHaveCodes(t *testing.T) {
	err := error(typedError("Unmount", dbus.Error{Name: "org.mountd1.Error.Busy",
		Body: []interface{}{"is in use"}}))
	if !errors.Is(err, ErrBusy) || errors.Is(err, ErrNotFound) {
		t.Errorf("%v is not Busy alone", err)
	}
	old := typedError("ListPorts", dbus.Error{
		Name: "org.freedesktop.DBus.Error.UnknownMethod"})
	if !errors.Is(old, ErrNotSupported) {
		t.Errorf("a method that mountd has not is %v", old)
	}
}

func TestOnlyTheEndOfMountdCountsAsLost(t *testing.T) {
	lost := []error{dbus.ErrClosed, io.EOF, fmt.Errorf("read: %w", io.EOF),
		dbus.Error{Name: "org.freedesktop.DBus.Error.NoReply"}}
	for _, err := range lost {
		if !isLost(err) {
			t.Errorf("%v is no loss", err)
		}
	}
	kept := []error{nil, context.Canceled, dbus.Error{Name: "org.mountd1.Error.Unavailable"}}
	for _, err := range kept {
		if isLost(err) {
			t.Errorf("%v is a loss", err)
		}
	}
}

func TestPropertiesOfPluginsAreRead(t *testing.T) {
	properties := map[string]dbus.Variant{"State": dbus.MakeVariant("healthy"),
		"Topology":         dbus.MakeVariant(map[string]string{"zone": "a"}),
		"NodeCapabilities": dbus.MakeVariant([]int32{1, 3}),
		"Later":            dbus.MakeVariant(true)}
	path := dbus.ObjectPath("/org/mountd1/plugin/csi/0")
	signal := decodeSignal(&dbus.Signal{Path: path,
		Name: "org.freedesktop.DBus.Properties.PropertiesChanged",
		Body: []any{"org.mountd1.Plugin", properties, []string{}}})
	changed, ok := signal.(*PluginPropertiesChanged)
	if !ok {
		t.Fatalf("read %v", signal)
	}
	read := changed.Properties
	if changed.Object != path || read.State != "healthy" || read.Topology["zone"] != "a" ||
		len(read.NodeCapabilities) != 2 || read.Raw["Later"].Value() != true {
		t.Errorf("read %+v", changed)
	}
	other := decodeSignal(&dbus.Signal{Name: "org.freedesktop.DBus.Properties.PropertiesChanged",
		Body: []any{"org.mountd1.Manager", properties, []string{}}})
	if other != nil {
		t.Errorf("another interface's properties are %v", other)
	}
}
