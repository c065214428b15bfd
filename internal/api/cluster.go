package api

import (
	"context"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Cluster has the actions of operators on the nodes. An error for the caller has a code. Spec: P-10.7.
type Cluster struct {
	State     func(context.Context) *petrelv1.ClusterState
	Drain     func(context.Context, im.Node) (*petrelv1.DrainNodeResponse, error)
	Resume    func(context.Context, im.Node) error
	Rebalance func(context.Context) (*petrelv1.ClusterState, error)
	Move      func(ctx context.Context, p im.Partition, database int) (*petrelv1.MovePartitionResponse, error)
	Finalize  func(context.Context) (*petrelv1.FinalizeClusterResponse, error)

	// Gateways lists the addresses for a user to connect to, best first.
	Gateways func(im.Account) []string
}

// GetCluster describes all nodes as this node knows them.
func (s *Server) GetCluster(ctx context.Context, _ *petrelv1.GetClusterRequest) (*petrelv1.ClusterState, error) {
	return s.o.Cluster.State(ctx), nil
}

// DrainNode moves the partitions and the clients of a node to the others.
func (s *Server) DrainNode(ctx context.Context, r *petrelv1.DrainNodeRequest) (*petrelv1.DrainNodeResponse, error) {
	return s.o.Cluster.Drain(ctx, im.Node(r.Node))
}

// ResumeNode lets a drained node take partitions and clients again.
func (s *Server) ResumeNode(ctx context.Context, r *petrelv1.ResumeNodeRequest) (*petrelv1.ResumeNodeResponse, error) {
	return &petrelv1.ResumeNodeResponse{}, s.o.Cluster.Resume(ctx, im.Node(r.Node))
}

// RebalanceCluster has all nodes compute at once which partitions they should own. It returns the state when this
// node sees nothing misplaced any more, or after 30 s.
func (s *Server) RebalanceCluster(ctx context.Context,
	_ *petrelv1.RebalanceClusterRequest) (*petrelv1.ClusterState, error) {
	return s.o.Cluster.Rebalance(ctx)
}

// MovePartition moves a partition to another database.
func (s *Server) MovePartition(ctx context.Context,
	r *petrelv1.MovePartitionRequest) (*petrelv1.MovePartitionResponse, error) {
	if r.Partition >= im.Partitions || r.Database == 0 {
		return nil, im.Errorf(im.CodeInvalid, "partitions are 0 to %d, and databases are counted from 1",
			im.Partitions-1)
	}
	return s.o.Cluster.Move(ctx, im.Partition(r.Partition), int(min(r.Database, 1<<30)))
}

// FinalizeCluster raises the level of the stored format.
func (s *Server) FinalizeCluster(ctx context.Context,
	_ *petrelv1.FinalizeClusterRequest) (*petrelv1.FinalizeClusterResponse, error) {
	return s.o.Cluster.Finalize(ctx)
}
