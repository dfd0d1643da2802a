package main

import (
	"encoding/json"
	"fmt"
)

// directive is what the scratchpad (gates) or the arguments (tools) tell the plugin to do, under the key "directive".
type directive struct {
	// Type is the answer's type; empty = continue.
	Type       string          `json:"type"`
	Reason     string          `json:"reason"`
	SkipResult json.RawMessage `json:"skip_result"`
	// Change is laid over the port's value.
	Change json.RawMessage `json:"change"`
	// Append goes to the end of the port's text.
	Append string `json:"append"`
	// Add goes to the end of the port's messages, after Drop of them were taken from the front.
	Add  []message `json:"add"`
	Drop int       `json:"drop"`
	// Set and Delete change the scratchpad.
	Set    map[string]json.RawMessage `json:"set"`
	Delete []string                   `json:"delete"`
	// Calls go to the host one after the other; what they gave is set in the scratchpad as "called".
	Calls []hostCall `json:"calls"`
	Print string     `json:"print"`
	Log   string     `json:"log"`
	// Hang logs "hangs" and waits until the question is cancelled, then logs "cancelled"; both with this text.
	Hang  string `json:"hang"`
	Fail  string `json:"fail"`
	Panic string `json:"panic"`
	// Leave takes the payload out of the answer, which means unchanged.
	Leave bool `json:"leave"`
}

type hostCall struct {
	Method string          `json:"method"`
	Scope  string          `json:"scope"`
	Name   string          `json:"name"`
	Text   string          `json:"text"`
	Value  json.RawMessage `json:"value"`
	// Session in place of the question's own.
	Session string `json:"session"`
}

// called is what a call to the host gave; Code is the gRPC status and 0 for success.
type called struct {
	Code int    `json:"code"`
	Text string `json:"text"`
}

type scratchpad map[string]json.RawMessage

func readScratchpad(encoded []byte) (scratchpad, directive, error) {
	bag := scratchpad{}
	var told directive
	if len(encoded) == 0 {
		return bag, told, nil
	}
	if err := json.Unmarshal(encoded, &bag); err != nil {
		return nil, told, fmt.Errorf("the scratchpad is no JSON object: %w", err)
	}
	if text, ok := bag["directive"]; ok {
		if err := json.Unmarshal(text, &told); err != nil {
			return nil, told, fmt.Errorf("the directive cannot be read: %w", err)
		}
	}
	return bag, told, nil
}

func (bag scratchpad) apply(told directive) {
	for key, value := range told.Set {
		bag[key] = value
	}
	for _, key := range told.Delete {
		delete(bag, key)
	}
}
