// SPDX-License-Identifier: LGPL-2.1-or-later

// A node agent's prerun and postrun, in Go, on the system bus:
//
//	agent prerun ALLOCATION | agent postrun ALLOCATION
package main

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/godbus/dbus"
)

type options = map[string]dbus.Variant

type port struct {
	Label, HostAddress     string
	Host, Container, Count uint16
	Protocols              string
}

// call makes any call; the same again is right, and joins what goes on.
func call(mountd dbus.BusObject, method string, arguments ...interface{}) (result options) {
	for {
		err := mountd.Call("org.mountd1.Manager."+method, 0, arguments...).Store(&result)
		var failed dbus.Error
		if errors.As(err, &failed) && failed.Name == "org.mountd1.Error.InProgress" {
			continue
		}
		if err != nil {
			log.Fatalf("%s: %v", method, err)
		}
		return result
	}
}

func main() {
	bus, err := dbus.SystemBus()
	if err != nil {
		log.Fatal(err)
	}
	mountd, allocation := bus.Object("org.mountd1", "/org/mountd1"), os.Args[2]
	if os.Args[1] == "postrun" {
		receipt := call(mountd, "ReleaseAllocation", allocation, options{})
		fmt.Println("released, node detached:", receipt["node_detached"].Value())
		return
	}
	call(mountd, "PrepareAllocation", allocation, options{"scope": dbus.MakeVariant("example")})
	network := call(mountd, "SetupNetwork", allocation, "bridge",
		[]port{{"http", "", 8080, 80, 1, "tcp"}}, options{})
	mount := call(mountd, "BindMount", allocation, "server", "shared", "host", "shared",
		false, "private", options{"task_path": dbus.MakeVariant("/shared")})
	fmt.Printf("namespace %s\n", network["netns_path"].Value())
	fmt.Printf("mount %s %s\n", mount["host_path"].Value(), mount["task_path"].Value())
}
