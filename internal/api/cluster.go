package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Cluster is what the operator may ask of the nodes. Errors for the caller have
// codes. Spec: P-10.7.
type Cluster struct {
	State     func(context.Context) *petrelv1.ClusterState
	Drain     func(context.Context, im.Node) (*petrelv1.DrainNodeResponse, error)
	Resume    func(context.Context, im.Node) error
	Rebalance func(context.Context) (*petrelv1.ClusterState, error)
	Move      func(ctx context.Context, p im.Partition, database int) (*petrelv1.MovePartitionResponse, error)
	Finalize  func(context.Context) (*petrelv1.FinalizeClusterResponse, error)

	// Gateways lists the addresses that a user should connect to, best first.
	Gateways func(im.Account) []string
}

// GetCluster tells what this node knows of all nodes.
func (s adminService) GetCluster(ctx context.Context, _ *connect.Request[petrelv1.GetClusterRequest]) (*connect.Response[petrelv1.ClusterState], error) {
	return connect.NewResponse(s.o.Cluster.State(ctx)), nil
}

// DrainNode empties a node.
func (s adminService) DrainNode(ctx context.Context, r *connect.Request[petrelv1.DrainNodeRequest]) (*connect.Response[petrelv1.DrainNodeResponse], error) {
	return respond(s.o.Cluster.Drain(ctx, im.Node(r.Msg.Node)))
}

// ResumeNode lets a drained node take partitions and clients again.
func (s adminService) ResumeNode(ctx context.Context, r *connect.Request[petrelv1.ResumeNodeRequest]) (*connect.Response[petrelv1.ResumeNodeResponse], error) {
	return respond(&petrelv1.ResumeNodeResponse{}, s.o.Cluster.Resume(ctx, im.Node(r.Msg.Node)))
}

// RebalanceCluster waits until every node owns its share.
func (s adminService) RebalanceCluster(ctx context.Context, _ *connect.Request[petrelv1.RebalanceClusterRequest]) (*connect.Response[petrelv1.ClusterState], error) {
	return respond(s.o.Cluster.Rebalance(ctx))
}

// MovePartition takes a partition to another database.
func (s adminService) MovePartition(ctx context.Context, r *connect.Request[petrelv1.MovePartitionRequest]) (*connect.Response[petrelv1.MovePartitionResponse], error) {
	if r.Msg.Partition >= im.Partitions || r.Msg.Database == 0 {
		return nil, im.Errorf(im.CodeInvalid, "partitions are 0 to %d, and databases are counted from 1", im.Partitions-1)
	}
	return respond(s.o.Cluster.Move(ctx, im.Partition(r.Msg.Partition), int(min(r.Msg.Database, 1<<30))))
}

// FinalizeCluster raises the level of the stored format.
func (s adminService) FinalizeCluster(ctx context.Context, _ *connect.Request[petrelv1.FinalizeClusterRequest]) (*connect.Response[petrelv1.FinalizeClusterResponse], error) {
	return respond(s.o.Cluster.Finalize(ctx))
}

func respond[T any](answer *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(answer), nil
}
