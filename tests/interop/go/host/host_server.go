package main

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	pluginv1 "codedock.dev/interop/gen/codedock/plugin/v1"
)

// hostServer is the least of a host that a plugin can call back.
type hostServer struct {
	pluginv1.UnimplementedHostServer
	mutex      sync.Mutex
	registered []string
	memory     map[string]string
}

func (h *hostServer) RegisterMethod(_ context.Context, method *pluginv1.Method) (*emptypb.Empty, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.registered = append(h.registered, method.GetName())
	return &emptypb.Empty{}, nil
}

func (h *hostServer) MemoryUpsert(_ context.Context, entry *pluginv1.MemoryEntry) (*emptypb.Empty, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.memory[entry.GetKey().GetName()] = entry.GetText()
	return &emptypb.Empty{}, nil
}

func (h *hostServer) MemoryGet(_ context.Context, key *pluginv1.MemoryKey) (*pluginv1.MemoryValue, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	text, found := h.memory[key.GetName()]
	if !found {
		return nil, status.Error(codes.NotFound, "no such memory")
	}
	return &pluginv1.MemoryValue{Text: text}, nil
}
