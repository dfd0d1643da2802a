package main

import "context"

// judge decides about one tool call before it is executed: this one lets everything pass.
func judge(_ context.Context, call Call) (Decision, error) {
	return Decision{}, nil
}
