package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

func newCluster(c *cli) *cobra.Command {
	return group("cluster", "See and change what the nodes of a cluster do",
		"  petrel cluster status\n  petrel cluster drain node-2\n  petrel cluster move-partition 17 --to 2",
		newClusterStatus(c), newClusterDrain(c), newClusterResume(c), newClusterRebalance(c), newClusterMove(c),
		newClusterFinalize(c))
}

// patientOperator is operator for a command whose call may take minutes: the call has no time limit.
func (c *cli) patientOperator(do func(ctx context.Context, api *admin,
	args []string) error) func(*cobra.Command, []string) error {
	return c.operator(func(ctx context.Context, api *admin, args []string) error {
		patient := *api
		patient.AdminServiceClient = petrelv1connect.NewAdminServiceClient(&http.Client{}, api.url,
			sdk.Credentials(sdk.StaticToken(api.key)))
		return do(ctx, &patient, args)
	})
}

func newClusterStatus(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "List the nodes and what they own",
		Long: "Lists the nodes as the node that is asked sees them: their roles, how many partitions each owns (OWNS) and should own\n" +
			"(SHARE), and how long ago its heartbeat was seen to change (SILENT). The command ends with exit code 6 while no node\n" +
			"serves some partition: sends to the conversations in it wait.",
		Example: "  petrel cluster status\n  petrel cluster status --server http://10.0.0.2:8080 --json",
		Args:    cobra.NoArgs,
		RunE: c.operator(func(ctx context.Context, api *admin, _ []string) error {
			s, err := call(ctx, api, "ask for the cluster", api.GetCluster, &petrelv1.GetClusterRequest{})
			if err != nil {
				return err
			}
			if err := c.printState(s); err != nil {
				return err
			}
			if n := len(s.Unowned); n > 0 {
				return &fault{exit: exitViolated, code: "unowned",
					what: fmt.Sprintf("no node serves %d of %d partitions", n, s.Partitions),
					why:  "their numbers: " + numbers(s.Unowned),
					fix:  "ask again after 5 s, which a takeover may take; if it stays so, start a node with the role conv, and check that the database answers"}
			}
			return nil
		}),
	}
}

// answer prints the answer of a call without an error: as JSON if that was asked for, else as a line.
func (c *cli) answer(m proto.Message, err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return c.printMessage(m, func(w io.Writer) { fmt.Fprintf(w, format, args...) })
}

// printMessage writes m as JSON if that was asked for, else the output of text.
func (c *cli) printMessage(m proto.Message, text func(w io.Writer)) error {
	if c.json {
		return writeLine(c.out, m)
	}
	text(c.out)
	return nil
}

func (c *cli) printState(s *petrelv1.ClusterState) error {
	return c.printMessage(s, func(w io.Writer) { writeState(w, s, c) })
}

func writeState(w io.Writer, s *petrelv1.ClusterState, c *cli) {
	t := c.table("NODE", "STATE", "ROLES", "VERSION", "STARTED", "OWNS", "SHARE", "SILENT", "ADDRESSES")
	for _, n := range s.Nodes {
		_ = t.row(n, n.Node, nodeState(n), strings.Join(n.Roles, ","), orDash(n.Version), date(n.StartedMs),
			strconv.Itoa(int(n.Owned)), strconv.Itoa(int(n.Share)),
			// row writes only with --json, so it cannot fail here
			(time.Duration(n.SilentMs) * time.Millisecond).String(), orDash(strings.Join(n.Addresses, " ")))
	}
	_ = t.end()
	fmt.Fprintf(
		w, "\n%d partitions: %d served by no node, %d on their way to another node; format level %d; answered by %s\n",
		s.Partitions, len(s.Unowned), s.Misplaced, s.Level, s.AnsweredBy)
	for i, n := range s.Databases {
		fmt.Fprintf(w, "database %d holds %d partitions\n", i+1, n)
	}
	for _, n := range s.Unreachable {
		fmt.Fprintf(
			w, "warn  node %s is alive in the database but cannot be reached on the bus: check the network between the nodes\n", n)
	}
	for _, n := range s.Nodes {
		if skew := time.Duration(n.SkewMs) * time.Millisecond; skew.Abs() > time.Minute {
			fmt.Fprintf(w, "warn  the clock of %s is ahead by %s: run NTP on all nodes\n", n.Node,
				skew.Round(time.Second))
		}
	}
	if s.StoreGone {
		fmt.Fprintf(w, "warn  %s cannot read or write heartbeats: check that it reaches the database\n", s.AnsweredBy)
	}
}

// nodeState returns a word for the state of a node: of those that hold, the first of gone, unreachable and draining,
// otherwise ok.
func nodeState(n *petrelv1.ClusterNode) string {
	switch {
	case !n.Alive:
		return "gone"
	case !n.Reachable:
		return "unreachable"
	case n.Draining:
		return "draining"
	}
	return "ok"
}

func numbers(list []uint32) string {
	const most = 16
	var b strings.Builder
	for i, n := range list {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(list)-most)
			break
		}
		fmt.Fprintf(&b, "%s%d", map[bool]string{true: ", "}[i > 0], n)
	}
	return b.String()
}

func newClusterDrain(c *cli) *cobra.Command {
	q := &petrelv1.DrainNodeRequest{}
	return &cobra.Command{
		Use:   "drain NODE",
		Short: "Empty a node before it is stopped or worked on",
		Long: "The node hands all its partitions to other nodes. Then it sends its clients to other nodes, over a time that grows with\n" +
			"their number. It takes no partitions and no clients until `petrel cluster resume`, or until it is restarted. Any node can\n" +
			"be asked to do this to any other. A server that is stopped with SIGTERM drains by itself.",
		Example: "  petrel cluster drain node-2",
		Args:    cobra.ExactArgs(1),
		RunE: c.patientOperator(func(ctx context.Context, api *admin, args []string) error {
			q.Node = args[0]
			r, err := call(ctx, api, "drain "+q.Node, api.DrainNode, q)
			return c.answer(r, err, "%s handed %d partitions over and sent %d sessions away in %s\n",
				q.Node, r.GetPartitions(), r.GetSessions(), time.Duration(r.GetTookMs())*time.Millisecond)
		}),
	}
}

func newClusterResume(c *cli) *cobra.Command {
	q := &petrelv1.ResumeNodeRequest{}
	return &cobra.Command{
		Use:     "resume NODE",
		Short:   "Let a drained node take partitions and clients again",
		Long:    "Ends what `petrel cluster drain` began. Any node may be asked. A node that is started again is not drained any more.",
		Example: "  petrel cluster resume node-2",
		Args:    cobra.ExactArgs(1),
		RunE: c.patientOperator(func(ctx context.Context, api *admin, args []string) error {
			q.Node = args[0]
			r, err := call(ctx, api, "resume "+q.Node, api.ResumeNode, q)
			return c.answer(r, err, "%s takes partitions and clients again\n", q.Node)
		}),
	}
}

func newClusterRebalance(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "rebalance",
		Short: "Give each node its share of the partitions now",
		Long: "Nodes share the partitions by themselves, a second after a node has come or gone. A node that was lost several times has\n" +
			"to wait up to 30 s before it gets partitions. This command ends that wait, and returns when each node owns its share,\n" +
			"after 30 s at the latest.",
		Example: "  petrel cluster rebalance",
		Args:    cobra.NoArgs,
		RunE: c.patientOperator(func(ctx context.Context, api *admin, _ []string) error {
			s, err := call(ctx, api, "rebalance", api.RebalanceCluster, &petrelv1.RebalanceClusterRequest{})
			if err != nil {
				return err
			}
			if err := c.printState(s); err != nil {
				return err
			}
			if n := int(s.Misplaced) + len(s.Unowned); n > 0 {
				return &fault{exit: exitViolated, code: "unbalanced",
					what: fmt.Sprintf("after 30 s, %d partitions are not where they should be", n),
					fix:  "see the state of the nodes above, and their logs"}
			}
			return nil
		}),
	}
}

func newClusterMove(c *cli) *cobra.Command {
	q := &petrelv1.MovePartitionRequest{}
	cmd := &cobra.Command{
		Use:   "move-partition PARTITION",
		Short: "Move a partition to another database while it is in use",
		Long: "Copies the partition to another database, and then has all nodes use it there. Databases are counted from 1, in the\n" +
			"order of store.postgres, and every node must name both. Users can write to the conversations of the partition while\n" +
			"it is copied; only while the last few commits are copied do their sends wait. A move that is interrupted leaves the\n" +
			"partition where it was, or sealed: then sends to it wait until the same command is run again.",
		Example: "  petrel cluster move-partition 17 --to 2\n  for p in $(seq 0 2 254); do petrel cluster move-partition $p --to 2; done",
		Args:    cobra.ExactArgs(1),
		RunE: c.patientOperator(func(ctx context.Context, api *admin, args []string) error {
			n, err := strconv.ParseUint(args[0], 10, 16)
			if err != nil || n >= im.Partitions {
				return usage(fmt.Sprintf("%q is not a partition", args[0]),
					fmt.Sprintf("partitions are 0 to %d", im.Partitions-1))
			}
			q.Partition = uint32(n)
			stop := c.waiting(ctx, fmt.Sprintf("copying partition %d", n))
			r, err := call(ctx, api, fmt.Sprintf("move partition %d to database %d", n, q.Database), api.MovePartition,
				q)
			stop()
			return c.answer(r, err, "partition %d is in database %d; it took %s\n",
				n, q.Database, time.Duration(r.GetTookMs())*time.Millisecond)
		}),
	}
	cmd.Flags().Uint32Var(&q.Database, "to", 0, "`NUMBER` of the database, from 1")
	_ = cmd.MarkFlagRequired("to") // the flag is there
	return cmd
}

// waiting prints every 5 s on the standard error what the command does and for how long, until stop is called. With
// --json it prints nothing.
func (c *cli) waiting(ctx context.Context, doing string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if !c.json {
					fmt.Fprintf(c.err, "%s, for %s\n", doing, time.Since(began).Round(time.Second))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

func newClusterFinalize(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "finalize",
		Short: "End an upgrade, after which nodes of the previous release no longer start",
		Long: "Raises the level of the stored format to that of this release. It is refused while a node cannot read that level. Until\n" +
			"then nodes of this release and of the previous one can run together, and going back is possible. Afterwards it is not.",
		Example: "  petrel cluster finalize",
		Args:    cobra.NoArgs,
		RunE: c.patientOperator(func(ctx context.Context, api *admin, _ []string) error {
			r, err := call(ctx, api, "finalize the upgrade", api.FinalizeCluster, &petrelv1.FinalizeClusterRequest{})
			if err != nil {
				return err
			}
			return c.printMessage(r, func(w io.Writer) {
				if r.From == r.To {
					fmt.Fprintf(w, "the stored format already has level %d\n", r.To)
					return
				}
				fmt.Fprintf(w, "the stored format has level %d now; it had %d\n", r.To, r.From)
			})
		}),
	}
}
