package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/metadata"

	pluginv1 "codedock.dev/interop/gen/codedock/plugin/v1"
)

var ports = []string{"agent/input", "agent/pre-step", "agent/request", "llm/stream", "tools/pre-execute", "tools/post-execute"}
var events = []string{"run.started", "run.completed", "tool.execution_started", "tool.execution_result", "interop.told"}

type server struct {
	pluginv1.UnimplementedPluginServer
	broker *plugin.GRPCBroker
	log    hclog.Logger
	host   pluginv1.HostClient
}

// Bootstrap connects to the host, once, and registers the tool.
func (s *server) Bootstrap(ctx context.Context, request *pluginv1.BootstrapRequest) (*pluginv1.Manifest, error) {
	connection, err := s.broker.Dial(request.GetHostServerId())
	if err != nil {
		return nil, fmt.Errorf("the host cannot be reached: %w", err)
	}
	s.host = pluginv1.NewHostClient(connection)
	name := pluginName()
	_, err = s.host.RegisterMethod(ctx, &pluginv1.Method{
		Name:             toolName(name),
		Prompt:           "Does what its argument says.",
		ParametersSchema: []byte(`{"type":"object","properties":{"directive":{"type":"object"}}}`),
		RequiresApproval: true,
	})
	if err != nil {
		return nil, err
	}
	return &pluginv1.Manifest{
		Name:          name,
		Subscriptions: append(append([]string{}, ports...), events...),
		Capabilities:  []string{"conformance-directives"},
	}, nil
}

// OnEvent answers a gate, or takes notice of an event.
func (s *server) OnEvent(ctx context.Context, envelope *pluginv1.Envelope) (*pluginv1.Envelope, error) {
	if !isPort(envelope.GetType()) {
		return envelope, s.notice(ctx, envelope)
	}
	if trace, ok := metadata.FromIncomingContext(ctx); ok && len(trace["traceparent"]) > 0 {
		s.log.Info("traced", "port", envelope.GetType(), "traceparent", trace["traceparent"][0])
	}
	bag, told, err := readScratchpad(envelope.GetContext())
	if err != nil {
		return nil, err
	}
	if err := s.act(ctx, told); err != nil {
		return nil, err
	}
	payload, err := answerPayload(envelope.GetType(), envelope.GetPayload(), told)
	if err != nil {
		return nil, err
	}
	bag.apply(told)
	if len(told.Calls) > 0 {
		bag["called"], err = json.Marshal(callHost(ctx, s.host, envelope.GetSessionId(), envelope.GetRunId(), told.Calls))
		if err != nil {
			return nil, err
		}
	}
	if envelope.Context, err = json.Marshal(bag); err != nil {
		return nil, err
	}
	envelope.Payload = payload
	if told.Leave {
		envelope.Payload = nil
	}
	if told.Type != "" {
		envelope.Type = told.Type
	}
	envelope.Reason = told.Reason
	envelope.SkipResult = told.SkipResult
	return envelope, nil
}

// ExecuteMethod executes the tool: its output is what it was asked with.
func (s *server) ExecuteMethod(ctx context.Context, input *pluginv1.MethodInput) (*pluginv1.MethodResult, error) {
	if input.GetName() != toolName(pluginName()) {
		return nil, fmt.Errorf("this plugin has no tool %q", input.GetName())
	}
	var arguments struct {
		Directive directive `json:"directive"`
	}
	if err := json.Unmarshal(input.GetArguments(), &arguments); err != nil {
		return nil, fmt.Errorf("the arguments cannot be decoded: %w", err)
	}
	if err := s.act(ctx, arguments.Directive); err != nil {
		return &pluginv1.MethodResult{Error: err.Error()}, nil
	}
	output, err := json.Marshal(map[string]any{
		"arguments":       json.RawMessage(input.GetArguments()),
		"called":          callHost(ctx, s.host, input.GetSessionId(), input.GetRunId(), arguments.Directive.Calls),
		"call_id":         input.GetCallId(),
		"idempotency_key": input.GetIdempotencyKey(),
		"attempt":         input.GetAttempt(),
	})
	if err != nil {
		return nil, err
	}
	return &pluginv1.MethodResult{Success: true, Output: output}, nil
}

// notice remembers the event in the session's memory, where a test can see it.
func (s *server) notice(ctx context.Context, envelope *pluginv1.Envelope) error {
	s.log.Info("noticed", "event", envelope.GetType(), "payload", string(envelope.GetPayload()))
	if len(envelope.GetCapability()) == 0 {
		return nil
	}
	_, err := s.host.MemoryUpsert(ctx, &pluginv1.MemoryEntry{
		Key:  &pluginv1.MemoryKey{SessionId: envelope.GetSessionId(), Name: "noticed " + envelope.GetType()},
		Text: string(envelope.GetPayload()),
	})
	return err
}

// act does what has nothing to do with the port.
func (s *server) act(ctx context.Context, told directive) error {
	if told.Print != "" {
		fmt.Println(told.Print)
	}
	if told.Log != "" {
		s.log.Warn(told.Log, "answer", 42)
	}
	if told.Panic != "" {
		panic(told.Panic)
	}
	if told.Hang != "" {
		s.log.Info("hangs", "mark", told.Hang)
		<-ctx.Done()
		s.log.Info("cancelled", "mark", told.Hang)
		return ctx.Err()
	}
	if told.Fail != "" {
		return errors.New(told.Fail)
	}
	return nil
}

func isPort(name string) bool {
	for _, port := range ports {
		if port == name {
			return true
		}
	}
	return false
}

// pluginName is the name of the plugin's folder, which CodeDock tells; other hosts do not.
func pluginName() string {
	if name := os.Getenv("CODEDOCK_PLUGIN_NAME"); name != "" {
		return name
	}
	return filepath.Base(os.Args[0])
}

func toolName(plugin string) string { return plugin + "_tool" }
