package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/store/pebblestore"
)

// restored is the answer of `restore`.
type restored struct {
	Data      string `json:"data"`
	Backup    string `json:"backup"`
	StoreID   string `json:"store_id"`
	Commit    uint64 `json:"commit,string"` // the last of the backup
	Time      uint64 `json:"commit_time_ms,string"`
	HistoryID string `json:"history_id"`
	Former    string `json:"former_history_id"`
}

func newRestore(c *cli) *cobra.Command {
	var from string
	var adopt bool
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Make a data folder out of a backup",
		Long: "Copies a backup into the data folder and checks every byte of it. --from names a backup, a folder of backups, of which it\n" +
			"takes the newest. The data folder must not exist, or hold no store; files like admin.key may be there. The store gets a new history id: clients then drop what they have stored, and send again\n" +
			"what they still have to send. A restore that was interrupted or has failed leaves no store; run it again.\n" +
			"With store.postgres, restore all databases to the same time with their own tools, and then run `petrel restore\n" +
			"--adopt`, which draws the new history id. Stop all nodes first.",
		Example: "  petrel restore --from /var/backups/petrel --data /srv/petrel\n" +
			"  petrel restore --adopt --config /etc/petrel/petrel.toml",
		Args: cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			if adopt == (from != "") {
				return usage("what shall be restored?",
					"give --from with a backup, or, after databases were restored, --adopt")
			}
			secretFiles()
			conf, err := c.load(cmd)
			if err != nil {
				return err
			}
			switch inDatabases := len(conf.Store.Postgres) > 0; {
			case adopt && inDatabases:
				return c.renew(cmd.Context(), conf)
			case adopt:
				return usage("--adopt is for databases: store.postgres is not set",
					"give --from with a backup that `petrel backup` has made; for a data folder that was put back, use `petrel repair --new-history`")
			case inDatabases:
				return usage("the messages are in the databases of store.postgres",
					"restore all of them with their own tools, then run `petrel restore --adopt`")
			}
			done, err := pebblestore.Restore(cmd.Context(), c.storeOptions(conf),
				pebblestore.RestoreOptions{From: from, Progress: c.progress("restored")})
			if err != nil {
				return badBackup(err)
			}
			out := restored{conf.Store.Dir, done.Name, done.StoreID, done.Commit, done.CommitMs,
				fmt.Sprintf("%016x", done.Report.HistoryID), done.Manifest.HistoryID}
			return c.print(out, func(w io.Writer) {
				fmt.Fprintf(w, "restored   %s into %s\n", out.Backup, out.Data)
				fmt.Fprintf(w, "store      %s\n", out.StoreID)
				fmt.Fprintf(w, "holds      commits up to %d, of %s\n", out.Commit, clock(out.Time))
				repaired{HistoryID: out.HistoryID}.writeHistory(w)
			})
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "`FOLDER` of a backup or of backups")
	cmd.Flags().BoolVar(&adopt, "adopt", false, "draw a new history id for databases that were restored")
	addOptionFlags(cmd.Flags())
	return cmd
}
