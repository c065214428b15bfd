package api

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// GetLimits returns the limits in force.
func (s *Server) GetLimits(ctx context.Context, _ *petrelv1.GetLimitsRequest) (*petrelv1.ClusterLimits, error) {
	return s.o.Console.Limits(ctx), nil
}

// Upper bounds of limits. The limits that clients are told fit 32 bits.
const (
	maxLimit       = 1 << 30
	maxWindowSends = 1 << 16
)

// SetLimits sets, on all nodes, each limit that is not 0 in the request.
func (s *Server) SetLimits(ctx context.Context, r *petrelv1.ServerLimits) (*petrelv1.ClusterLimits, error) {
	if err := checkLimits(r); err != nil {
		return nil, err
	}
	done := s.o.Console.SetLimits(ctx, r)
	for _, c := range done.Changes {
		name := c.Name
		if len(c.Nodes) > 0 {
			name += " on " + strings.Join(c.Nodes, ",")
		}
		recordChange(ctx, name, strconv.FormatInt(c.From, 10), strconv.FormatInt(c.To, 10))
	}
	if len(done.Silent) > 0 {
		recordChange(ctx, "answer of "+strings.Join(done.Silent, ","), "", "none")
	}
	now := s.o.Console.Limits(ctx)
	now.Silent = append(now.Silent, done.Silent...)
	slices.Sort(now.Silent)
	now.Silent = slices.Compact(now.Silent)
	return now, nil
}

// checkLimits refuses limits above their bounds. Codes: invalid.
func checkLimits(m *petrelv1.ServerLimits) (err error) {
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if n := v.Int(); n > maxLimit || f.Name() == "window_sends" && n > maxWindowSends {
			err = im.Errorf(im.CodeInvalid, "%s is at most %d, window_sends %d", f.Name(), maxLimit, maxWindowSends)
		}
		return err == nil
	})
	return err
}

// GetStats returns the counts of the process since its start.
func (s *Server) GetStats(context.Context, *petrelv1.GetStatsRequest) (*petrelv1.Stats, error) {
	return s.o.Stats(), nil
}

// Compact merges the store's tables.
func (s *Server) Compact(ctx context.Context, _ *petrelv1.CompactRequest) (*petrelv1.CompactResponse, error) {
	if err := s.o.CompactStore(ctx); err != nil {
		return nil, err
	}
	st := s.o.Stats()
	return &petrelv1.CompactResponse{DiskBytes: st.DiskBytes, TableBytes: st.TableBytes}, nil
}

// CreateCheckpoint makes a copy of the store for a backup.
func (s *Server) CreateCheckpoint(ctx context.Context,
	_ *petrelv1.CreateCheckpointRequest) (*petrelv1.CreateCheckpointResponse, error) {
	name, err := s.o.Checkpoint(ctx)
	return &petrelv1.CreateCheckpointResponse{Name: name}, err
}
