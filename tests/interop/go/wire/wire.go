// Package wire is what a CodeDock plugin and a go-plugin host have to agree on.
package wire

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pluginv1 "codedock.dev/interop/gen/codedock/plugin/v1"
)

// Key is the name under which a CodeDock plugin is served.
const Key = "codedock"

// Handshake is the cookie by which a plugin knows that a host started it.
var Handshake = plugin.HandshakeConfig{
	ProtocolVersion:  1,
	MagicCookieKey:   "CODEDOCK_PLUGIN",
	MagicCookieValue: "codedock-plugin-v1",
}

// Serve registers a plugin's service; the broker leads to the host's.
type Serve func(broker *plugin.GRPCBroker) pluginv1.PluginServer

// Client is a host's view of a plugin.
type Client struct {
	Plugin pluginv1.PluginClient
	Broker *plugin.GRPCBroker
}

// GRPC connects the generated code with go-plugin, on both sides.
type GRPC struct {
	plugin.NetRPCUnsupportedPlugin
	Serve Serve
}

// GRPCServer is called in the plugin.
func (g *GRPC) GRPCServer(broker *plugin.GRPCBroker, server *grpc.Server) error {
	if g.Serve == nil {
		return errors.New("this process is no plugin")
	}
	pluginv1.RegisterPluginServer(server, g.Serve(broker))
	return nil
}

// GRPCClient is called in the host.
func (g *GRPC) GRPCClient(_ context.Context, broker *plugin.GRPCBroker, connection *grpc.ClientConn) (interface{}, error) {
	return &Client{Plugin: pluginv1.NewPluginClient(connection), Broker: broker}, nil
}
