package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// GetLimits tells the limits in force.
func (s *Server) GetLimits(context.Context, *connect.Request[petrelv1.GetLimitsRequest]) (*connect.Response[petrelv1.ServerLimits], error) {
	return connect.NewResponse(s.o.Limits()), nil
}

// SetLimits changes those that are not 0.
func (s *Server) SetLimits(_ context.Context, r *connect.Request[petrelv1.ServerLimits]) (*connect.Response[petrelv1.ServerLimits], error) {
	return connect.NewResponse(s.o.ChangeLimits(r.Msg)), nil
}

// GetStats tells what the process has done so far.
func (s *Server) GetStats(context.Context, *connect.Request[petrelv1.GetStatsRequest]) (*connect.Response[petrelv1.Stats], error) {
	return connect.NewResponse(s.o.Stats()), nil
}

// Compact merges the store's tables.
func (s *Server) Compact(ctx context.Context, _ *connect.Request[petrelv1.CompactRequest]) (*connect.Response[petrelv1.CompactResponse], error) {
	if err := s.o.CompactStore(ctx); err != nil {
		return nil, err
	}
	st := s.o.Stats()
	return connect.NewResponse(&petrelv1.CompactResponse{DiskBytes: st.DiskBytes, TableBytes: st.TableBytes}), nil
}
