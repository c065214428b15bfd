package api

import (
	"context"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// servicesOn returns the names of the services that a listener has.
func servicesOn(on Listener) []string {
	if on == Inside {
		return []string{petrelv1connect.AdminServiceName, petrelv1connect.OperatorServiceName,
			petrelv1connect.SetupServiceName}
	}
	return []string{
		petrelv1connect.AuthServiceName, petrelv1connect.AccountServiceName, petrelv1connect.ContactServiceName,
		petrelv1connect.ConversationServiceName,
		petrelv1connect.MessageServiceName, petrelv1connect.AdminServiceName,
	}
}

// toolsOfGRPC serves what tools for gRPC ask without a credential: the schema, which is public, and the health.
// Spec: P-12.1.
func (s *Server) toolsOfGRPC(on Listener, rest *http.ServeMux) {
	names := servicesOn(on)
	opts := []connect.HandlerOption{connect.WithReadMaxBytes(maxStrangerBytes),
		connect.WithCompression("gzip", nil, nil)}
	reflector := grpcreflect.NewStaticReflector(names...)
	rest.Handle(grpcreflect.NewHandlerV1(reflector, opts...))
	rest.Handle(grpcreflect.NewHandlerV1Alpha(reflector, opts...))
	rest.Handle(grpchealth.NewHandler(health{s, names}, opts...))
}

// health answers health checks for the services of a listener.
type health struct {
	s     *Server
	names []string
}

// Check implements grpchealth.Checker.
func (h health) Check(_ context.Context, r *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if r.Service != "" && !slices.Contains(h.names, r.Service) {
		return nil, connect.NewError(connect.CodeNotFound, nil)
	}
	if !h.s.o.Ready() {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}
