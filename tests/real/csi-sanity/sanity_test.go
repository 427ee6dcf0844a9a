// SPDX-License-Identifier: LGPL-2.1-or-later

// Package sanity runs the CSI community's own test suite against a plugin. It
// fails a test that the suite skips for want of a capability which the plugin
// claims.
package sanity

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/kubernetes-csi/csi-test/v5/utils"
	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

const mebibyte = 1 << 20

var (
	endpoint   = flag.String("endpoint", "", "unix:/path of the plugin's socket")
	directory  = flag.String("directory", "", "where targets and staging paths are made")
	kind       = flag.String("kind", "", "the parameter kind of all volumes")
	accessType = flag.String("access", "mount", "mount or block")
	leastRun   = flag.Int("least", 0, "how many tests have to have run")
	left       = flag.String("left", "", "a regular expression of tests that the kind has nothing for")
)

// skipReasons maps csi-test's messages for a skipped test to the capability that
// csi-test did not find.
var skipReasons = map[string]string{
	"GroupControllerService not supported":             "GROUP_CONTROLLER_SERVICE",
	"VolumeGroupSnapshots not supported":               "GROUP_CONTROLLER_SERVICE",
	"ControllerModifyVolume not supported":             "MODIFY_VOLUME",
	"Modify volume not supported":                      "MODIFY_VOLUME",
	"Modify Volume not supported":                      "MODIFY_VOLUME",
	"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported": "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS",
}

// claims returns the capabilities that the plugin claims.
func claims() (map[string]bool, error) {
	connection, err := utils.Connect(*endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	claimed := map[string]bool{}
	background := context.Background()
	plugin, err := csi.NewIdentityClient(connection).GetPluginCapabilities(
		background, &csi.GetPluginCapabilitiesRequest{})
	if err != nil {
		return nil, err
	}
	for _, one := range plugin.GetCapabilities() {
		claimed[one.GetService().GetType().String()] = true
	}
	controller, err := csi.NewControllerClient(connection).ControllerGetCapabilities(
		background, &csi.ControllerGetCapabilitiesRequest{})
	if err != nil {
		return nil, err
	}
	for _, one := range controller.GetCapabilities() {
		claimed[one.GetRpc().GetType().String()] = true
	}
	return claimed, nil
}

// unexplained returns why the test must not be skipped, or "" if it may be.
func unexplained(spec types.SpecReport, claimed map[string]bool) string {
	if *left != "" && regexp.MustCompile(*left).MatchString(spec.FullText()) {
		return ""
	}
	capability, known := skipReasons[spec.Failure.Message]
	switch {
	case !known:
		return "for no reason that is known: " + spec.Failure.Message
	case claimed[capability]:
		return "but " + capability + " is claimed"
	default:
		return ""
	}
}

func checkReport(report Report) {
	claimed, err := claims()
	if err != nil {
		Fail(err.Error())
	}
	ran, skipped := 0, 0
	for _, spec := range report.SpecReports {
		switch {
		case spec.LeafNodeType != types.NodeTypeIt:
		case spec.State == types.SpecStatePending: // switched off by csi-test
		case spec.State == types.SpecStateSkipped:
			skipped++
			if why := unexplained(spec, claimed); why != "" {
				Fail(fmt.Sprintf("%q was skipped, %s", spec.FullText(), why))
			}
		default:
			ran++
		}
	}
	fmt.Printf("\n%d ran, %d were skipped for what is not claimed\n", ran, skipped)
	if ran < *leastRun {
		Fail(fmt.Sprintf("only %d tests ran", ran))
	}
}

// cacheSizes fills the cached size in received messages. csi-test compares received
// topologies as structs with topologies that were sent, and sending fills that cache.
func cacheSizes(background context.Context, method string, request, reply any,
	connection *grpc.ClientConn, invoker grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoker(background, method, request, reply, connection, options...)
	if message, ok := reply.(proto.Message); ok {
		proto.Size(message)
	}
	return err
}

func TestSanity(t *testing.T) {
	gomega.RegisterFailHandler(Fail)
	config := sanity.NewTestConfig()
	config.Address = *endpoint
	config.TargetPath = *directory + "/target"
	config.StagingPath = *directory + "/staging"
	config.TestVolumeSize = 32 * mebibyte
	config.TestVolumeExpandSize = 48 * mebibyte
	config.TestVolumeAccessType = *accessType
	config.TestVolumeParameters = map[string]string{"kind": *kind}
	config.TestNodeVolumeAttachLimit = true
	config.DialOptions = append(config.DialOptions, grpc.WithUnaryInterceptor(cacheSizes))
	sanityContext := sanity.GinkgoTest(&config)
	ReportAfterSuite("nothing that is claimed was skipped", checkReport)
	suite, reporter := GinkgoConfiguration()
	if *left != "" {
		suite.SkipStrings = append(suite.SkipStrings, *left)
	}
	RunSpecs(t, "csi-sanity", suite, reporter)
	sanityContext.Finalize()
}
