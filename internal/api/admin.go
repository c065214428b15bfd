package api

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// adminService serves AdminService. It is a type of its own because some methods
// have the name of a method of users, like GetHistory: they do the same without
// asking who is a member.
type adminService struct{ *Server }

// GetLimits tells the limits in force.
func (s adminService) GetLimits(ctx context.Context, _ *connect.Request[petrelv1.GetLimitsRequest]) (*connect.Response[petrelv1.ClusterLimits], error) {
	return connect.NewResponse(s.o.Console.Limits(ctx)), nil
}

// The most that limits may be. What is announced to clients fits 32 bits.
const (
	maxLimit       = 1 << 30
	maxWindowSends = 1 << 16
)

// SetLimits changes those that are not 0.
func (s adminService) SetLimits(ctx context.Context, r *connect.Request[petrelv1.ServerLimits]) (*connect.Response[petrelv1.ClusterLimits], error) {
	if err := checkLimits(r.Msg); err != nil {
		return nil, err
	}
	done := s.o.Console.SetLimits(ctx, r.Msg)
	for _, c := range done.Changes {
		name := c.Name
		if len(c.Nodes) > 0 {
			name += " on " + strings.Join(c.Nodes, ",")
		}
		changed(ctx, name, strconv.FormatInt(c.From, 10), strconv.FormatInt(c.To, 10))
	}
	if len(done.Silent) > 0 {
		changed(ctx, "answer of "+strings.Join(done.Silent, ","), "", "none")
	}
	now := s.o.Console.Limits(ctx)
	now.Silent = append(now.Silent, done.Silent...)
	slices.Sort(now.Silent)
	now.Silent = slices.Compact(now.Silent)
	return connect.NewResponse(now), nil
}

// checkLimits refuses limits that cannot be. Codes: invalid.
func checkLimits(m *petrelv1.ServerLimits) (err error) {
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if n := v.Int(); n > maxLimit || f.Name() == "window_sends" && n > maxWindowSends {
			err = im.Errorf(im.CodeInvalid, "%s is at most %d, window_sends %d", f.Name(), maxLimit, maxWindowSends)
		}
		return err == nil
	})
	return err
}

// GetStats tells what the process has done so far.
func (s adminService) GetStats(context.Context, *connect.Request[petrelv1.GetStatsRequest]) (*connect.Response[petrelv1.Stats], error) {
	return connect.NewResponse(s.o.Stats()), nil
}

// Compact merges the store's tables.
func (s adminService) Compact(ctx context.Context, _ *connect.Request[petrelv1.CompactRequest]) (*connect.Response[petrelv1.CompactResponse], error) {
	if err := s.o.CompactStore(ctx); err != nil {
		return nil, err
	}
	st := s.o.Stats()
	return connect.NewResponse(&petrelv1.CompactResponse{DiskBytes: st.DiskBytes, TableBytes: st.TableBytes}), nil
}

// CreateCheckpoint makes a copy of the store for a backup.
func (s adminService) CreateCheckpoint(ctx context.Context, _ *connect.Request[petrelv1.CreateCheckpointRequest]) (*connect.Response[petrelv1.CreateCheckpointResponse], error) {
	name, err := s.o.Checkpoint(ctx)
	return respond(&petrelv1.CreateCheckpointResponse{Name: name}, err)
}
