// Serves the policy of policy.go to CodeDock, over HashiCorp's go-plugin.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pluginv1 "__NAME__/pluginv1"
)

const version = "0.1.0"

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion:  1,
			MagicCookieKey:   "CODEDOCK_PLUGIN",
			MagicCookieValue: "codedock-plugin-v1",
		},
		Plugins:    plugin.PluginSet{"codedock": &served{}},
		GRPCServer: plugin.DefaultGRPCServer,
	})
}

// served connects the generated code with go-plugin.
type served struct{ plugin.NetRPCUnsupportedPlugin }

func (*served) GRPCServer(broker *plugin.GRPCBroker, server *grpc.Server) error {
	pluginv1.RegisterPluginServer(server, &policy{broker: broker})
	return nil
}

func (*served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (interface{}, error) {
	return nil, errors.New("this process is a plugin, not a host")
}

type policy struct {
	pluginv1.UnimplementedPluginServer
	broker *plugin.GRPCBroker
	// What the host offers: memory, notices, completions, own tools (host.RegisterMethod) …
	host pluginv1.HostClient
}

// Bootstrap runs once, before anything is asked.
func (p *policy) Bootstrap(_ context.Context, request *pluginv1.BootstrapRequest) (*pluginv1.Manifest, error) {
	connection, err := p.broker.Dial(request.GetHostServerId())
	if err != nil {
		return nil, fmt.Errorf("the host cannot be reached: %w", err)
	}
	p.host = pluginv1.NewHostClient(connection)
	return &pluginv1.Manifest{
		Name:          os.Getenv("CODEDOCK_PLUGIN_NAME"),
		Version:       version,
		Subscriptions: []string{"tools/pre-execute"},
	}, nil
}

// Call is a tool call as it is asked about.
type Call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Decision is an answer at tools/pre-execute. The zero value lets the call pass.
type Decision struct {
	// One of "", "tools/denied", "tools/ask", "tools/skipped", "run/aborted".
	Type   string
	Reason string
}

// OnEvent answers a gate. An error is a failure of the plugin, which blocks here.
func (p *policy) OnEvent(ctx context.Context, question *pluginv1.Envelope) (*pluginv1.Envelope, error) {
	if question.GetType() != "tools/pre-execute" {
		return &pluginv1.Envelope{}, nil
	}
	var payload struct {
		Call Call `json:"call"`
	}
	if err := json.Unmarshal(question.GetPayload(), &payload); err != nil {
		return nil, fmt.Errorf("the payload cannot be decoded: %w", err)
	}
	decision, err := judge(ctx, payload.Call)
	if err != nil {
		return nil, err
	}
	// An answer without a payload leaves the call as it is.
	return &pluginv1.Envelope{Type: decision.Type, Reason: decision.Reason}, nil
}
