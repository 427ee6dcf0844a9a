// SPDX-License-Identifier: LGPL-2.1-or-later

// Calls CNI plugins as container runtimes do: by libcni, which podman, CRI-O and
// cnitool use, and by go-cni, which containerd and Nomad use.
//
//	clients libcni VERB CONFLIST PLUGIN_DIR CACHE_DIR ID NETNS [CAPABILITIES]
//	clients go-cni VERB CONF_DIR PLUGIN_DIR ID NETNS
//	clients decode
//
// VERB is add, check, del, gc, or status. CAPABILITIES is an object, as
// runtimeConfig has it. `gc` keeps the attachment of ID, or none where ID is "".
// Prints the result of an ADD. go-cni's ADD asks for port 8080 and for DNS, with
// go-cni's own types; its cache is in /var/lib/cni.
//
// decode reads one document from each line. It decodes the document by Go's
// encoding/json into a struct as CNI's own plugins have, and prints the struct as
// JSON, or "error".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	gocni "github.com/containerd/go-cni"
	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
)

func main() {
	switch args := os.Args[1:]; {
	case len(args) >= 7 && args[0] == "libcni":
		byLibcni(args[1:])
	case len(args) == 6 && args[0] == "go-cni":
		byGoCni(args[1:])
	case len(args) == 1 && args[0] == "decode":
		decode()
	default:
		fail(fmt.Errorf("usage: see main.go"))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func show(value any) {
	text, err := json.Marshal(value)
	fail(err)
	fmt.Println(string(text))
}

// config is the configuration as the plugins portmap and tuning declare it.
type config struct {
	Name          string `json:"name"`
	RuntimeConfig struct {
		PortMappings []struct {
			HostPort      int    `json:"hostPort"`
			ContainerPort int    `json:"containerPort"`
			Protocol      string `json:"protocol"`
			HostIP        string `json:"hostIP"`
		} `json:"portMappings,omitempty"`
		DNS struct {
			Servers []string `json:"servers,omitempty"`
			Options []string `json:"options,omitempty"`
		} `json:"dns"`
		Mac string `json:"mac"`
	} `json:"runtimeConfig"`
}

func decode() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var one config
		if json.Unmarshal(lines.Bytes(), &one) != nil {
			fmt.Println(`"error"`)
			continue
		}
		show(one)
	}
	fail(lines.Err())
}

func byLibcni(args []string) {
	verb, conflist, plugins, cache, id, netns := args[0], args[1], args[2], args[3], args[4], args[5]
	list, err := libcni.ConfListFromFile(conflist)
	fail(err)
	runtime := &libcni.RuntimeConf{ContainerID: id, NetNS: netns, IfName: "eth0"}
	if len(args) > 6 {
		fail(json.Unmarshal([]byte(args[6]), &runtime.CapabilityArgs))
	}
	config := libcni.NewCNIConfigWithCacheDir([]string{plugins}, cache, nil)
	ctx := context.Background()
	switch verb {
	case "add":
		result, err := config.AddNetworkList(ctx, list, runtime)
		fail(err)
		show(result)
	case "check":
		fail(config.CheckNetworkList(ctx, list, runtime))
	case "del":
		fail(config.DelNetworkList(ctx, list, runtime))
	case "gc":
		valid := []types.GCAttachment{}
		if id != "" {
			valid = append(valid, types.GCAttachment{ContainerID: id, IfName: "eth0"})
		}
		fail(config.GCNetworkList(ctx, list, &libcni.GCArgs{ValidAttachments: valid}))
	case "status":
		fail(config.GetStatusNetworkList(ctx, list))
	default:
		fail(fmt.Errorf("%s is no verb", verb))
	}
}

func byGoCni(args []string) {
	verb, confs, plugins, id, netns := args[0], args[1], args[2], args[3], args[4]
	client, err := gocni.New(gocni.WithMinNetworkCount(1), gocni.WithPluginConfDir(confs),
		gocni.WithPluginDir([]string{plugins}), gocni.WithInterfacePrefix("eth"))
	fail(err)
	fail(client.Load(gocni.WithDefaultConf))
	ctx := context.Background()
	asked := []gocni.NamespaceOpts{
		gocni.WithCapabilityPortMap([]gocni.PortMapping{
			{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"},
			{HostPort: 8080, ContainerPort: 80, Protocol: "udp"},
		}),
		gocni.WithCapabilityDNS(gocni.DNS{
			Servers:  []string{"9.9.9.9"},
			Searches: []string{"svc.example"},
			Options:  []string{"ndots:5"},
		}),
	}
	switch verb {
	case "add":
		result, err := client.Setup(ctx, id, netns, asked...)
		fail(err)
		show(result.Raw())
	case "check":
		fail(client.Check(ctx, id, netns, asked...))
	case "del":
		fail(client.Remove(ctx, id, netns, asked...))
	case "status":
		fail(client.Status())
	default:
		fail(fmt.Errorf("%s is no verb of go-cni", verb))
	}
}
