package main

import (
	"context"
	"testing"
)

func TestEverythingPasses(t *testing.T) {
	decision, err := judge(context.Background(), Call{ID: "1", Name: "shell"})
	if err != nil || decision != (Decision{}) {
		t.Fatalf("got %+v, %v", decision, err)
	}
}
