// Command host drives one plugin with the real go-plugin client and prints, as one JSON object, what it saw.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pluginv1 "codedock.dev/interop/gen/codedock/plugin/v1"
	"codedock.dev/interop/wire"
)

const timeout = 20 * time.Second

// report is what the host saw, in the order in which it did it.
type report struct {
	Error       string            `json:"error,omitempty"`
	Version     int               `json:"version"`
	Ping        string            `json:"ping"`
	Manifest    manifest          `json:"manifest"`
	Registered  []string          `json:"registered"`
	Answer      answer            `json:"answer"`
	Blocked     answer            `json:"blocked"`
	Failure     string            `json:"failure"`
	Cancelled   string            `json:"cancelled"`
	Memory      map[string]string `json:"memory"`
	Tool        json.RawMessage   `json:"tool"`
	ToolFailure string            `json:"tool_failure"`
	Stdout      string            `json:"stdout"`
	Logged      []logged          `json:"logged"`
	KillMs      int64             `json:"kill_ms"`
	Exited      bool              `json:"exited"`
}

type manifest struct {
	Name          string   `json:"name"`
	Subscriptions []string `json:"subscriptions"`
}

type answer struct {
	Type    string          `json:"type"`
	Reason  string          `json:"reason"`
	Payload json.RawMessage `json:"payload"`
	Context json.RawMessage `json:"context"`
}

type logged struct {
	Level   string `json:"@level"`
	Message string `json:"@message"`
	Answer  int    `json:"answer"`
}

func main() {
	mtls := flag.Bool("mtls", false, "use AutoMTLS")
	multiplex := flag.Bool("multiplex", false, "ask for one connection for everything")
	flag.Parse()
	seen := drive(flag.Arg(0), *mtls, *multiplex)
	encoded, err := json.MarshalIndent(seen, "", "  ")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(encoded))
}

func drive(program string, mtls, multiplex bool) (seen report) {
	var logs, stdout lockedBuffer
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:     wire.Handshake,
		Plugins:             plugin.PluginSet{wire.Key: &wire.GRPC{}},
		Cmd:                 exec.Command(program),
		AllowedProtocols:    []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:            mtls,
		GRPCBrokerMultiplex: multiplex,
		SyncStdout:          &stdout,
		StartTimeout:        timeout,
		Logger:              hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &logs, JSONFormat: true}),
	})
	defer func() {
		started := time.Now()
		client.Kill()
		seen.KillMs = time.Since(started).Milliseconds()
		seen.Exited = client.Exited()
		seen.Stdout = stdout.String()
		seen.Logged = warnings(logs.String())
	}()
	if err := ask(client, &seen); err != nil {
		seen.Error = err.Error()
		if os.Getenv("INTEROP_LOG") != "" {
			fmt.Fprint(os.Stderr, logs.String())
		}
	}
	return seen
}

func ask(client *plugin.Client, seen *report) error {
	protocol, err := client.Client()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	seen.Version = client.NegotiatedVersion()
	if err := protocol.Ping(); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	seen.Ping = "ok"
	raw, err := protocol.Dispense(wire.Key)
	if err != nil {
		return fmt.Errorf("dispense: %w", err)
	}
	peer := raw.(*wire.Client)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	host := &hostServer{memory: map[string]string{}}
	id := peer.Broker.NextId()
	go peer.Broker.AcceptAndServe(id, func(options []grpc.ServerOption) *grpc.Server {
		server := grpc.NewServer(options...)
		pluginv1.RegisterHostServer(server, host)
		return server
	})
	told, err := peer.Plugin.Bootstrap(ctx, &pluginv1.BootstrapRequest{HostServerId: id})
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	seen.Manifest = manifest{told.GetName(), told.GetSubscriptions()}
	seen.Registered = host.registered

	input := question("agent/input", `{"content":"héllo 🦫 <&>"}`, `{"append":"!","set":{"k":[1,null,"ü"]},"print":"printed","log":"logged","calls":[
		{"method":"MemoryUpsert","name":"n","text":"stored ü"},{"method":"MemoryGet","name":"n"},{"method":"MemoryGet","name":"absent"},{"method":"Complete","name":"p","text":"t"}]}`)
	if seen.Answer, err = put(ctx, peer.Plugin, input); err != nil {
		return fmt.Errorf("event with call-backs: %w", err)
	}
	seen.Memory = host.memory
	veto := question("tools/pre-execute", `{"call":{"id":"c","name":"shell","arguments":{"a":1}}}`, `{"type":"tools/denied","reason":"not ünder my watch"}`)
	if seen.Blocked, err = put(ctx, peer.Plugin, veto); err != nil {
		return fmt.Errorf("event with a veto: %w", err)
	}
	if _, err = put(ctx, peer.Plugin, question("agent/input", `{"content":"x"}`, `{"fail":"the handler failed"}`)); err != nil {
		seen.Failure = err.Error()
	}
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if _, err = put(short, peer.Plugin, question("agent/input", `{"content":"x"}`, `{"hang":"mark"}`)); err != nil {
		seen.Cancelled = err.Error()
	}
	for _, tool := range host.registered {
		result, err := peer.Plugin.ExecuteMethod(ctx, &pluginv1.MethodInput{Name: tool, CallId: "c1", SessionId: "s1", Arguments: []byte(`{"text":"ü"}`)})
		if err != nil {
			return fmt.Errorf("execute: %w", err)
		}
		seen.Tool = result.GetOutput()
	}
	if _, err = peer.Plugin.ExecuteMethod(ctx, &pluginv1.MethodInput{Name: "unknown", Arguments: []byte(`{}`)}); err != nil {
		seen.ToolFailure = err.Error()
	}
	return nil
}

func question(port, payload, directive string) *pluginv1.Envelope {
	return &pluginv1.Envelope{
		Type: port, ChainId: "chain", SessionId: "s1", RunId: "r1",
		Payload: []byte(payload), Context: []byte(`{"directive":` + directive + `}`),
	}
}

func put(ctx context.Context, peer pluginv1.PluginClient, envelope *pluginv1.Envelope) (answer, error) {
	reply, err := peer.OnEvent(ctx, envelope)
	if err != nil {
		return answer{}, err
	}
	return answer{reply.GetType(), reply.GetReason(), orNull(reply.GetPayload()), withoutDirective(reply.GetContext())}, nil
}

func orNull(encoded []byte) json.RawMessage {
	if len(encoded) == 0 {
		return json.RawMessage("null")
	}
	return encoded
}

func withoutDirective(encoded []byte) json.RawMessage {
	var bag map[string]json.RawMessage
	if json.Unmarshal(encoded, &bag) != nil {
		return orNull(encoded)
	}
	delete(bag, "directive")
	rest, _ := json.Marshal(bag)
	return rest
}

// warnings are the lines that the go-plugin client took over from the plugin's stderr at a level above debug.
func warnings(logs string) []logged {
	found := []logged{}
	for _, line := range strings.Split(logs, "\n") {
		var entry logged
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "warn" {
			found = append(found, entry)
		}
	}
	return found
}

type lockedBuffer struct {
	mutex sync.Mutex
	bytes bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.bytes.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.bytes.String()
}
