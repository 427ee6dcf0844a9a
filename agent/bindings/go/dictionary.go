// SPDX-License-Identifier: LGPL-2.1-or-later

package mountd1

import (
	"fmt"
	"reflect"

	"github.com/godbus/dbus/v5"
)

// dictionary is a struct that is an a{sv} of the contract.
type dictionary interface{ isDictionary() }

var dictionaryType = reflect.TypeOf((*dictionary)(nil)).Elem()

// Of returns a pointer to the value, for a key of options.
func Of[T any](value T) *T { return &value }

// toWire returns the value as godbus sends it, with structs of the contract's
// dictionaries as dictionaries of the keys that are set.
func toWire(value reflect.Value) any {
	switch {
	case value.Type().Implements(dictionaryType) && value.Kind() == reflect.Struct:
		wire := map[string]dbus.Variant{}
		for i := 0; i < value.NumField(); i++ {
			key := value.Type().Field(i).Tag.Get("dbus")
			field := value.Field(i)
			if key == "" || field.IsNil() {
				continue
			}
			wire[key] = dbus.MakeVariant(toWire(reflect.Indirect(field)))
		}
		return wire
	case value.Kind() == reflect.Slice && value.Type().Elem().Implements(dictionaryType):
		wire := make([]map[string]dbus.Variant, value.Len())
		for i := range wire {
			wire[i], _ = toWire(value.Index(i)).(map[string]dbus.Variant)
		}
		return wire
	case value.Kind() == reflect.Slice && value.IsNil():
		return reflect.MakeSlice(value.Type(), 0, 0).Interface()
	case value.Kind() == reflect.Map && value.IsNil():
		return reflect.MakeMap(value.Type()).Interface()
	}
	return value.Interface()
}

// fromWire stores the value in `into`, which can be set. A key that the struct
// does not have stays in Raw alone, because a newer mountd may send more.
func fromWire(wire any, into reflect.Value) error {
	switch {
	case into.Type().Implements(dictionaryType):
		keys, ok := wire.(map[string]dbus.Variant)
		if !ok {
			return fmt.Errorf("%T is no dictionary", wire)
		}
		return fillDictionary(keys, into)
	case into.Kind() == reflect.Slice && into.Type().Elem().Implements(dictionaryType):
		list, ok := wire.([]map[string]dbus.Variant)
		if !ok {
			return fmt.Errorf("%T is no list of dictionaries", wire)
		}
		into.Set(reflect.MakeSlice(into.Type(), len(list), len(list)))
		for i, keys := range list {
			if err := fillDictionary(keys, into.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	return dbus.Store([]interface{}{wire}, into.Addr().Interface())
}

func fillDictionary(keys map[string]dbus.Variant, into reflect.Value) error {
	for i := 0; i < into.NumField(); i++ {
		field := into.Type().Field(i)
		if field.Name == "Raw" {
			into.Field(i).Set(reflect.ValueOf(keys))
			continue
		}
		value, has := keys[field.Tag.Get("dbus")]
		if !has {
			continue
		}
		if err := fromWire(value.Value(), into.Field(i)); err != nil {
			return fmt.Errorf("key %q: %w", field.Tag.Get("dbus"), err)
		}
	}
	return nil
}
