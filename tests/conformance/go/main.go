// SPDX-License-Identifier: LGPL-2.1-or-later

// The conformance script's runner in Go, by the Go module.
//
//	conformance ADDRESS
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
	"mountd.org/mountd1"
)

type step struct {
	Call       string
	Arguments  []any
	PatienceMs *uint32 `json:"patience_ms"`
	Signals    bool
	Signal     string
}

// fill stores the JSON value in `into`, whose struct fields have the contract's
// names as tags.
func fill(value any, into reflect.Value) error {
	if into.Type() == reflect.TypeOf(dbus.UnixFD(0)) {
		if path, ok := value.(string); ok {
			return fillFile(path, into)
		}
		return fillSecrets(value, into)
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return fill(value, into.Elem())
	case reflect.Struct:
		keys, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%v is no object", value)
		}
		for key, one := range keys {
			field := fieldOf(into, key)
			if !field.IsValid() {
				return fmt.Errorf("%s has no %s", into.Type(), key)
			}
			if err := fill(one, field); err != nil {
				return err
			}
		}
		return nil
	case reflect.Slice:
		if text, ok := value.(string); ok && into.Type().Elem().Kind() == reflect.Uint8 {
			into.SetBytes([]byte(text))
			return nil
		}
		list, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%v is no list", value)
		}
		into.Set(reflect.MakeSlice(into.Type(), len(list), len(list)))
		for i, one := range list {
			if err := fill(one, into.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, into.Addr().Interface())
	}
	return err
}

// fillFile stores an fd of the file, which stays open until this program ends.
func fillFile(path string, into reflect.Value) error {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	into.SetInt(int64(fd))
	return nil
}

// fillSecrets stores the fd of a memfd with the object's texts.
func fillSecrets(value any, into reflect.Value) error {
	secrets := map[string]string{}
	if err := fill(value, reflect.ValueOf(&secrets).Elem()); err != nil {
		return err
	}
	file, err := mountd1.SealSecrets(secrets)
	if err != nil {
		return err
	}
	// The call sends this copy, which stays open until this program ends.
	fd, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		return err
	}
	into.SetInt(int64(fd))
	return file.Close()
}

func fieldOf(into reflect.Value, key string) reflect.Value {
	for i := 0; i < into.NumField(); i++ {
		if into.Type().Field(i).Tag.Get("dbus") == key {
			return into.Field(i)
		}
	}
	return reflect.Value{}
}

// plain returns the value as JSON has it.
func plain(value reflect.Value) any {
	switch {
	case value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Uint8:
		return string(value.Bytes())
	case value.Kind() == reflect.Slice:
		list := make([]any, value.Len())
		for i := range list {
			list[i] = plain(value.Index(i))
		}
		return list
	case value.Kind() == reflect.Map:
		object := map[string]any{}
		for _, key := range value.MapKeys() {
			object[fmt.Sprint(key)] = plain(value.MapIndex(key))
		}
		return object
	case value.Type() == reflect.TypeOf(dbus.Variant{}):
		return nil
	case value.Type() == reflect.TypeOf(dbus.UnixFD(0)):
		return opened(int(value.Int()))
	case value.Kind() == reflect.Struct:
		return plainStruct(value)
	}
	return value.Interface()
}

// opened closes the fd of an answer, which has to be open.
func opened(fd int) any {
	var stat syscall.Stat_t
	if syscall.Fstat(fd, &stat) != nil || syscall.Close(fd) != nil {
		return "closed"
	}
	return "open"
}

// plainStruct leaves out the keys that an answer did not have.
func plainStruct(value reflect.Value) any {
	raw := value.FieldByName("Raw")
	object := map[string]any{}
	for i := 0; i < value.NumField(); i++ {
		key := value.Type().Field(i).Tag.Get("dbus")
		if key == "" {
			continue
		}
		if raw.IsValid() && !raw.MapIndex(reflect.ValueOf(key)).IsValid() {
			continue
		}
		object[key] = plain(value.Field(i))
	}
	return object
}

// arguments returns what the method takes after its context.
func arguments(one step, kind reflect.Type) ([]reflect.Value, error) {
	if kind.NumIn() != len(one.Arguments)+1 {
		return nil, fmt.Errorf("%s takes %d arguments", one.Call, kind.NumIn()-1)
	}
	var values []reflect.Value
	for i, argument := range one.Arguments {
		value := reflect.New(kind.In(i + 1)).Elem()
		if err := fill(argument, value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	if one.PatienceMs != nil {
		fieldOf(values[len(values)-1], "patience_ms").Set(reflect.ValueOf(one.PatienceMs))
	}
	return values, nil
}

// received has the signals that no step has taken, and where later ones come from.
type received struct {
	client *mountd1.Client
	kept   []any
	later  <-chan any
}

func (r *received) subscribe() (err error) {
	r.later, err = r.client.Signals(context.Background())
	return
}

// take returns the first signal of that name, and removes it.
func (r *received) take(name string) (any, error) {
	deadline := time.After(10 * time.Second)
	for {
		for i, one := range r.kept {
			if nameOf(one) == name {
				r.kept = append(r.kept[:i], r.kept[i+1:]...)
				return plain(reflect.ValueOf(one).Elem()), nil
			}
		}
		select {
		case one := <-r.later:
			if one != nil {
				r.kept = append(r.kept, one)
			}
		case <-deadline:
			return nil, fmt.Errorf("there was no %s", name)
		}
	}
}

// nameOf returns the name of the signal in the contract.
func nameOf(signal any) string {
	name := reflect.TypeOf(signal).Elem().Name()
	if name == "PluginPropertiesChanged" {
		return "PropertiesChanged"
	}
	return strings.TrimSuffix(name, "Signal")
}

func (r *received) answer(one step) map[string]any {
	var result any
	var err error
	switch {
	case one.Signals:
		err = r.subscribe()
	case one.Signal != "":
		result, err = r.take(one.Signal)
	default:
		return answer(r.client, one)
	}
	if err != nil {
		return map[string]any{"error": "runner", "message": err.Error()}
	}
	return map[string]any{"result": result}
}

func answer(client *mountd1.Client, one step) map[string]any {
	method := reflect.ValueOf(client).MethodByName(one.Call)
	if !method.IsValid() {
		return map[string]any{"error": "runner", "message": "there is no " + one.Call}
	}
	values, err := arguments(one, method.Type())
	if err != nil {
		return map[string]any{"error": "runner", "message": err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	results := method.Call(append([]reflect.Value{reflect.ValueOf(ctx)}, values...))
	if err, _ := results[len(results)-1].Interface().(error); err != nil {
		code := "none"
		var typed *mountd1.Error
		if errors.As(err, &typed) {
			code = string(typed.Code)
		}
		return map[string]any{"error": code, "message": err.Error()}
	}
	if len(results) == 1 {
		return map[string]any{"result": nil}
	}
	return map[string]any{"result": plain(results[0])}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: conformance ADDRESS")
		os.Exit(2)
	}
	client := mountd1.Dial(os.Args[1])
	defer client.Close()
	signals := &received{client: client}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var one step
		reader := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		reader.UseNumber() // 64-bit numbers stay whole
		if err := reader.Decode(&one); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		text, err := json.Marshal(signals.answer(one))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(string(text))
	}
}
