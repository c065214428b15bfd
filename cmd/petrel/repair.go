package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/pgstore"
)

// repaired is the answer of `repair`.
type repaired struct {
	Sound     bool     `json:"sound"` // there was nothing to repair
	Found     string   `json:"found,omitempty"`
	Recovered uint64   `json:"recovered_commit,string,omitempty"` // the last commit that is kept
	Time      uint64   `json:"recovered_time_ms,string,omitempty"`
	HistoryID string   `json:"history_id,omitempty"`
	Aside     string   `json:"aside,omitempty"`
	Files     []string `json:"files,omitempty"`
	Lost      []string `json:"lost,omitempty"` // what cannot be read any more
	LostRows  uint64   `json:"lost_entries,string,omitempty"`
	LostFrom  uint64   `json:"lost_from_commit,string,omitempty"` // commits that were acked and are gone
	LostTo    uint64   `json:"lost_to_commit,string,omitempty"`
	LostTime  uint64   `json:"lost_time_ms,string,omitempty"` // of the last of them
	More      bool     `json:"lost_more,omitempty"`           // more messages may be lost; their number is not known

	// Only of a store in databases.
	Former string   `json:"former_history_id,omitempty"`
	Proofs []string `json:"proofs,omitempty"` // of each database that was an earlier state
}

func newRepair(c *cli) *cobra.Command {
	var renew bool
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Accept the loss of messages, so that the server starts again",
		Long: "Use it when the server refuses to start because a file of its store is missing or damaged. If there is a\n" +
			"backup, restore that instead. Use it also when /readyz says that a part of the store is damaged. Of the log the\n" +
			"command keeps the longest unbroken run of commits. Of damaged tables it keeps what lies before and after the damage,\n" +
			"and lists what is lost; lost messages become empty places. It reads the whole store. Damaged files go into a folder\n" +
			"inside the data folder. It draws a new history id: clients then drop what they have stored, and send again what they\n" +
			"still have to send. A sound store is left as it is.\n" +
			"The server also refuses a store that may be an earlier state of what clients were told: a folder that was put back from a\n" +
			"copy, one that is behind its store.mark, one that a client has proved to be behind. Put the newest state back if there\n" +
			"is one. Otherwise --new-history goes on with the store as it is, under a new history id. Use it for a sound store, too,\n" +
			"if you know that it is not the newest state, for example after a snapshot of its disk was put back.\n" +
			"With store.postgres, use it after all databases were restored to an earlier time together, or when the nodes ended with\n" +
			"rewound, for example because a standby that lagged was promoted. It draws a new history id, lists the commits\n" +
			"that are known to be missing, and lets the partitions take commits again. Stop all nodes first.",
		Example: "  petrel repair --data /srv/petrel\n  petrel repair --new-history --data /srv/petrel\n  petrel repair --config /etc/petrel/petrel.toml",
		Args:    cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			secretFiles()
			conf, err := c.load(cmd)
			if err != nil {
				return err
			}
			if len(conf.Store.Postgres) > 0 {
				return c.renew(cmd.Context(), conf)
			}
			repair := pebblestore.Repair
			if renew {
				repair = pebblestore.Renew
			}
			r, err := repair(pebblestore.Options{Dir: conf.Store.Dir, Log: toolLog(c.err, conf.Log),
				Mark: conf.Store.Mark, AcceptCopies: !conf.Store.RefuseCopies})
			if errors.Is(err, pebblestore.ErrSound) {
				return c.print(repaired{Sound: true},
					func(w io.Writer) { fmt.Fprintln(w, "the store is sound: there is nothing to repair") })
			}
			if err != nil {
				return cannotServe(err)
			}
			out := repaired{
				Recovered: r.Recovered, Time: r.RecoveredMs, HistoryID: fmt.Sprintf("%016x", r.HistoryID),
				Aside: r.Aside, Files: r.Files,
				Lost: r.Lost, LostRows: r.LostRows, More: r.More, LostFrom: r.LostFrom, LostTo: r.LostTo,
				LostTime: r.LostMs,
			}
			if r.Found != nil {
				out.Found = r.Found.Error()
			}
			return c.print(out, out.write)
		}),
	}
	cmd.Flags().BoolVar(&renew, "new-history", false,
		"draw a new history id for a store that is sound, or an earlier state; with store.postgres it is always drawn")
	addOptionFlags(cmd.Flags())
	return cmd
}

// renew gives a PostgreSQL store a new history id.
func (c *cli) renew(ctx context.Context, conf *config.Config) error {
	r, err := pgstore.Renew(ctx, pgstore.Options{DSNs: conf.Store.Postgres, Mark: conf.Store.Mark,
		Log: toolLog(c.err, conf.Log)})
	if err != nil {
		return cannotServe(err)
	}
	out := repaired{HistoryID: fmt.Sprintf("%016x", r.History), Former: fmt.Sprintf("%016x", r.Former),
		Proofs: r.Proofs}
	return c.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "found      history %s\n", out.Former)
		for _, p := range out.Proofs {
			fmt.Fprintf(w, "proof      %s\n", p)
		}
		out.writeHistory(w)
	})
}

func (r repaired) write(w io.Writer) {
	if found, _, _ := strings.Cut(r.Found, "; "); found != "" {
		fmt.Fprintf(w, "found      %s\n", found)
	}
	fmt.Fprintf(w, "kept       commits up to %d", r.Recovered)
	if r.Time > 0 {
		fmt.Fprintf(w, ", of %s", time.UnixMilli(int64(r.Time)).UTC().Format(time.RFC3339))
	}
	fmt.Fprintln(w)
	if r.Aside != "" {
		fmt.Fprintf(w, "set aside  %s in %s\n", strings.Join(r.Files, ", "), r.Aside)
	}
	if r.LostTo > 0 {
		fmt.Fprintf(w, "lost       commits %d to %d, the last of %s, with the messages and all else in them\n",
			r.LostFrom, r.LostTo, time.UnixMilli(int64(r.LostTime)).UTC().Format(time.RFC3339))
	}
	if len(r.Lost) > 0 {
		r.writeLost(w)
		for _, what := range r.Lost {
			fmt.Fprintf(w, "           %s\n", what)
		}
	}
	r.writeHistory(w)
}

// writeLost prints how many messages are lost, as far as that is known.
func (r repaired) writeLost(w io.Writer) {
	switch {
	case r.LostRows > 0 && r.More:
		fmt.Fprintf(
			w, "lost       at least %d messages, which are empty places now, and other entries. More may be lost: nothing tells how many:\n", r.LostRows)
	case r.LostRows > 0:
		fmt.Fprintf(w, "lost       %d messages, which are empty places now, and other entries:\n", r.LostRows)
	case r.More:
		fmt.Fprintf(
			w, "lost       entries, and messages that nothing tells of, so there are no empty places for them:\n")
	default:
		fmt.Fprintf(w, "lost       entries, but no messages:\n")
	}
}

func (r repaired) writeHistory(w io.Writer) {
	fmt.Fprintf(w, "history    %s: clients drop what they have stored, and send again what they still have to send\n",
		r.HistoryID)
}
