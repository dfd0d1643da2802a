package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/status"

	pluginv1 "codedock.dev/interop/gen/codedock/plugin/v1"
)

// callHost makes the calls in turn; none of them ends the question, whatever it gives.
func callHost(ctx context.Context, host pluginv1.HostClient, session, run string, calls []hostCall) []called {
	results := make([]called, 0, len(calls))
	for _, one := range calls {
		text, err := callOnce(ctx, host, session, run, one)
		if err != nil {
			results = append(results, called{Code: int(status.Code(err)), Text: status.Convert(err).Message()})
			continue
		}
		results = append(results, called{Text: text})
	}
	return results
}

func callOnce(ctx context.Context, host pluginv1.HostClient, session, run string, one hostCall) (string, error) {
	if one.Session != "" {
		session = one.Session
	}
	key := &pluginv1.MemoryKey{SessionId: session, Scope: one.Scope, Name: one.Name}
	switch one.Method {
	case "MemoryGet":
		value, err := host.MemoryGet(ctx, key)
		return value.GetText(), err
	case "MemoryUpsert":
		_, err := host.MemoryUpsert(ctx, &pluginv1.MemoryEntry{Key: key, Text: one.Text})
		return "", err
	case "AppendNotice":
		_, err := host.AppendNotice(ctx, &pluginv1.Notice{SessionId: session, RunId: run, Text: one.Text})
		return "", err
	case "Complete":
		reply, err := host.Complete(ctx, &pluginv1.CompleteRequest{SessionId: session, RunId: run, Prompt: one.Name, Text: one.Text})
		return reply.GetText(), err
	case "Emit":
		_, err := host.Emit(ctx, &pluginv1.Envelope{Type: one.Name, SessionId: session, RunId: run, Payload: one.Value})
		return "", err
	case "RegisterMethod":
		_, err := host.RegisterMethod(ctx, &pluginv1.Method{Name: one.Name, Prompt: one.Text, ParametersSchema: one.Value})
		return "", err
	case "GetActiveTools":
		reply, err := host.GetActiveTools(ctx, &pluginv1.ActiveToolsRequest{SessionId: session, RunId: run})
		return strings.Join(reply.GetNames(), ","), err
	case "SetActiveTools":
		names := strings.Split(one.Text, ",")
		_, err := host.SetActiveTools(ctx, &pluginv1.SetActiveToolsRequest{SessionId: session, RunId: run, Names: names})
		return "", err
	case "GetSystemPrompt":
		reply, err := host.GetSystemPrompt(ctx, &pluginv1.SystemPromptRequest{SessionId: session, RunId: run})
		return reply.GetText(), err
	case "GetSetting":
		reply, err := host.GetSetting(ctx, &pluginv1.SettingKey{SessionId: session, RunId: run, Key: one.Name})
		return string(reply.GetValue()), err
	case "SetSetting":
		entry := &pluginv1.SettingEntry{SessionId: session, RunId: run, Key: one.Name, Value: one.Value}
		_, err := host.SetSetting(ctx, entry)
		return "", err
	case "GetSecret":
		reply, err := host.GetSecret(ctx, &pluginv1.SecretKey{SessionId: session, RunId: run, Key: one.Name})
		return reply.GetValue(), err
	case "SetSecret":
		_, err := host.SetSecret(ctx, &pluginv1.SecretEntry{SessionId: session, RunId: run, Key: one.Name, Value: one.Text})
		return "", err
	case "ListModels":
		reply, err := host.ListModels(ctx, &pluginv1.ModelsRequest{SessionId: session, RunId: run})
		return strings.Join(reply.GetModels(), ","), err
	default:
		return "", fmt.Errorf("the host is not known to have %q", one.Method)
	}
}
