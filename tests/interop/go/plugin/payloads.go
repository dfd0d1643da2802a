package main

import (
	"encoding/json"
	"fmt"
	"time"
)

// The values of the ports, as a typed plugin sees them: a null or a wrong type in one of them would fail to decode.

type message struct {
	ID          string            `json:"id"`
	SessionID   string            `json:"session_id"`
	RunID       string            `json:"run_id,omitempty"`
	TurnID      string            `json:"turn_id,omitempty"`
	Role        string            `json:"role"`
	Content     content           `json:"content"`
	Attachments []json.RawMessage `json:"attachments,omitempty"`
	ToolCalls   []call            `json:"tool_calls,omitempty"`
	EventSeq    int64             `json:"event_seq"`
	CreatedAt   time.Time         `json:"created_at"`
}

type content struct {
	Text   string          `json:"text,omitempty"`
	CallID string          `json:"call_id,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
}

type call struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	Arguments      json.RawMessage `json:"arguments,omitempty"`
	Attempt        int             `json:"attempt,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
}

// result has no tags: on the wire its members are spelled as here.
type result struct {
	CallID  string
	Name    string
	Output  json.RawMessage `json:",omitempty"`
	Success bool
	Error   string
}

type agentInput struct {
	Content string `json:"content"`
	Mode    string `json:"mode,omitempty"`
}

type agentPreStep struct {
	SystemPrompt string    `json:"system_prompt"`
	Hidden       []message `json:"hidden"`
}

type agentRequest struct {
	SystemPrompt string    `json:"system_prompt"`
	Messages     []message `json:"messages"`
}

type llmStream struct {
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
}

type toolPreExecute struct {
	Call call `json:"call"`
}

type toolPostExecute struct {
	Call   call   `json:"call"`
	Result result `json:"result"`
}

// answerPayload decodes the payload of a port, changes it as told and encodes it again, changed or not.
func answerPayload(port string, payload []byte, told directive) ([]byte, error) {
	switch port {
	case "agent/input":
		return rewritten(payload, func(value *agentInput) error {
			value.Content += told.Append
			return overlay(value, told.Change)
		})
	case "agent/pre-step":
		return rewritten(payload, func(value *agentPreStep) error {
			value.SystemPrompt += told.Append
			value.Hidden = append(value.Hidden[told.Drop:], told.Add...)
			return overlay(value, told.Change)
		})
	case "agent/request":
		return rewritten(payload, func(value *agentRequest) error {
			value.SystemPrompt += told.Append
			value.Messages = append(value.Messages[told.Drop:], told.Add...)
			return overlay(value, told.Change)
		})
	case "llm/stream":
		return rewritten(payload, func(value *llmStream) error { return overlay(value, told.Change) })
	case "tools/pre-execute":
		return rewritten(payload, func(value *toolPreExecute) error { return overlay(&value.Call, told.Change) })
	case "tools/post-execute":
		return rewritten(payload, func(value *toolPostExecute) error { return overlay(&value.Result, told.Change) })
	default:
		return nil, fmt.Errorf("asked on the unknown port %q", port)
	}
}

func rewritten[T any](payload []byte, change func(value *T) error) ([]byte, error) {
	var value T
	if err := json.Unmarshal(payload, &value); err != nil {
		return nil, fmt.Errorf("the payload cannot be decoded: %w", err)
	}
	if err := change(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

func overlay(value any, change json.RawMessage) error {
	if len(change) == 0 {
		return nil
	}
	return json.Unmarshal(change, value)
}
