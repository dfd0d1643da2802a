// Command plugin is a CodeDock plugin written against go-plugin alone. It does what the question's scratchpad tells it to
// (see directive.go), on every port, so that one table of cases can be put to it and to plugins in other languages.
package main

import (
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	pluginv1 "codedock.dev/interop/gen/codedock/plugin/v1"
	"codedock.dev/interop/wire"
)

func main() {
	// Made before Serve, which takes os.Stderr away: this one keeps the real descriptor.
	log := hclog.New(&hclog.LoggerOptions{Name: "interop", Level: hclog.Trace, Output: os.Stderr, JSONFormat: true})
	serve := func(broker *plugin.GRPCBroker) pluginv1.PluginServer { return &server{broker: broker, log: log} }
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: wire.Handshake,
		Plugins:         plugin.PluginSet{wire.Key: &wire.GRPC{Serve: serve}},
		GRPCServer:      plugin.DefaultGRPCServer,
		Logger:          log,
	})
}
