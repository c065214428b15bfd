package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// defaultRate is the highest rate at which a backup reads. It is low enough for a server on the same disk.
const defaultRate = "50MB/s"

func newBackup(c *cli) *cobra.Command {
	var to, rate string
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Make a backup of the store, while the server runs or not",
		Long: "Makes a backup of the embedded store. It has all that was acked when the command began. " +
			"Run the command on the host of the\n" +
			"server, as the user of the server. The server goes on meanwhile; when it does not run, " +
			"the command keeps it from starting.\n" +
			"--to names a folder, in which each backup gets a folder of its own. Only what is new since the backup before is copied:\n" +
			"files that did not change are linked, where the file system of the backups has hard links. Each backup can be restored without the others, and any of them can be deleted.\n" +
			"A backup that was interrupted has a name that ends in .part; the next one removes it. The key needs the scope\n" +
			"backup. With store.postgres, back up the databases with their own tools, such as pg_basebackup.",
		Example: "  petrel backup --to /var/backups/petrel\n" +
			"  petrel backup --to /var/backups/petrel --rate 200MB/s --json",
		Args: cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			secretFiles()
			conf, err := c.load(cmd)
			if err != nil {
				return err
			}
			if len(conf.Store.Postgres) > 0 {
				return inDatabases()
			}
			return c.backup(cmd, conf, to, rate)
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "`FOLDER` of the backups")
	_ = cmd.MarkFlagRequired("to") // the flag is there
	cmd.Flags().StringVar(&rate, "rate", defaultRate, "`RATE` at which to read at most, such as 50MB/s; 0: no limit")
	cmd.AddCommand(newBackupVerify(c))
	return cmd
}

// inDatabases returns the error for a backup of a PostgreSQL store.
func inDatabases() error {
	return usage("the messages are in the databases of store.postgres, which have tools of their own for backups",
		"use pg_basebackup and an archive of the WAL, or what your provider offers, for all databases; after all of them were restored to\n"+
			"the same time, run `petrel restore --adopt` before you start the nodes")
}

// backedUp is the answer of `backup`.
type backedUp struct {
	Folder    string `json:"folder"`
	Name      string `json:"name"`
	StoreID   string `json:"store_id"`
	HistoryID string `json:"history_id"`
	Commit    uint64 `json:"commit,string"`
	Time      uint64 `json:"commit_time_ms,string"`
	Continues string `json:"continues,omitempty"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes,string"`
	Copied    int64  `json:"copied_bytes,string"`
	TookMs    int64  `json:"took_ms,string"`
}

func (c *cli) backup(cmd *cobra.Command, conf *config.Config, to, rate string) error {
	limit, err := parseRate(rate)
	if err != nil {
		return usage(fmt.Sprintf("--rate %s: %v", rate, err), "write it like 50MB/s, or 0 for no limit")
	}
	running := false
	b := pebblestore.BackupOptions{To: to, Rate: limit, Progress: c.progress("copied"),
		Checkpoint: func(ctx context.Context) (string, error) {
			running = true
			return c.checkpoint(ctx, cmd)
		}}
	if inside(to, conf.Store.Dir) {
		return usage(fmt.Sprintf("%s is in the data folder %s, so the backups would be lost with it", to,
			conf.Store.Dir), "name a folder on another disk")
	}
	began := time.Now()
	t, err := pebblestore.Backup(cmd.Context(), c.storeOptions(conf), b)
	if err != nil {
		return badBackup(err)
	}
	out := backedUp{
		Folder: t.Folder, Name: t.Name, StoreID: t.StoreID, HistoryID: t.HistoryID, Commit: t.Commit, Time: t.CommitMs,
		Continues: t.Continues,
		Files:     len(t.Files), Bytes: t.Bytes, Copied: t.Copied, TookMs: time.Since(began).Milliseconds(),
	}
	if running {
		c.noteBackup(cmd, &petrelv1.BackupInfo{
			Name: t.Name, Folder: t.Folder, MadeMs: uint64(began.UnixMilli()), Commit: t.Commit, CommitMs: t.CommitMs,
			Bytes: uint64(t.Bytes), CopiedBytes: uint64(t.Copied), TookMs: uint64(out.TookMs),
		})
	}
	return c.print(out, out.write)
}

// noteBackup reports a backup to the server, for the console. A failed report does not fail the backup.
func (c *cli) noteBackup(cmd *cobra.Command, b *petrelv1.BackupInfo) {
	t, err := c.target(cmd)
	if err != nil {
		return
	}
	if _, err := os.Stat(filepath.Join(t.data, adminKeyName)); err != nil && c.adminKeyFile == "" &&
		c.getenv("PETREL_ADMIN_KEY") == "" {
		return // without a key, c.admin would redeem the setup link just for this
	}
	api, err := c.admin(cmd.Context(), t)
	if err == nil {
		_, err = call(cmd.Context(), api, "note the backup", api.NoteBackup, &petrelv1.NoteBackupRequest{Backup: b})
	}
	if err != nil {
		fmt.Fprintf(c.err, "the backup is made, but was not reported to the console: %v\n", err)
	}
}

func (b backedUp) write(w io.Writer) {
	fmt.Fprintf(w, "backup   %s\n", b.Folder)
	fmt.Fprintf(w, "holds    commits up to %d, of %s\n", b.Commit, clock(b.Time))
	fmt.Fprintf(w, "copied   %s of %s in %d files, in %s\n", amount(b.Copied), amount(b.Bytes), b.Files,
		(time.Duration(b.TookMs) * time.Millisecond).Round(100*time.Millisecond))
	if b.Continues != "" {
		fmt.Fprintf(w, "shares   the rest with %s\n", b.Continues)
	}
}

func clock(ms uint64) string { return time.UnixMilli(int64(ms)).UTC().Format(time.RFC3339) }

// storeOptions returns the options of a tool that reads or makes the store of conf. Its block cache is small:
// it reads everything once.
func (c *cli) storeOptions(conf *config.Config) pebblestore.Options {
	return pebblestore.Options{
		Dir: conf.Store.Dir, Log: toolLog(c.err, conf.Log), CacheBytes: 16 << 20, Mark: conf.Store.Mark,
		AcceptCopies: !conf.Store.RefuseCopies,
	}
}

// checkpoint asks the server for a checkpoint of its store, and returns the name of its folder.
func (c *cli) checkpoint(ctx context.Context, cmd *cobra.Command) (string, error) {
	t, err := c.target(cmd)
	if err != nil {
		return "", err
	}
	key, err := c.adminKey(ctx, t)
	if err != nil {
		return "", err
	}
	// This call has no time limit: a checkpoint may take longer than callTimeout.
	api := &admin{AdminServiceClient: petrelv1connect.NewAdminServiceClient(&http.Client{}, t.admin,
		sdk.Credentials(sdk.StaticToken(key))), url: t.admin}
	r, err := call(ctx, api, "ask the server for a checkpoint", api.CreateCheckpoint,
		&petrelv1.CreateCheckpointRequest{})
	if f, ok := errors.AsType[*fault](err); ok && f.code == string(im.CodeDiskFull) {
		f.fix = "free some space on the disk of the data folder; or stop the server and run this again: the backup of a stopped server needs no space there"
	}
	if err != nil {
		return "", err
	}
	return r.Name, nil
}

// inside tells whether path is dir or below it.
func inside(path, dir string) bool {
	p, err := filepath.Abs(path)
	d, e := filepath.Abs(dir)
	if err != nil || e != nil {
		return false
	}
	rel, err := filepath.Rel(d, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// parseRate parses a rate like 50MB/s, 64MiB or 0 into bytes per second.
func parseRate(s string) (int64, error) {
	text := strings.TrimSuffix(s, "/s")
	for i, unit := range []string{"kB", "MB", "GB"} {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 30)
			if err != nil {
				return 0, errors.New("it is not a rate")
			}
			for range i + 1 {
				n *= 1000
			}
			return int64(n), nil
		}
	}
	return config.ParseSize(text)
}

// amount formats bytes for people.
func amount(n int64) string {
	f := float64(n)
	for _, unit := range []string{"B", "kB", "MB"} {
		if f < 1000 {
			return strconv.FormatFloat(f, 'f', map[bool]int{true: 0, false: 1}[unit == "B"], 64) + " " + unit
		}
		f /= 1000
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " GB"
}

// progressEvery is the interval of the progress lines.
const progressEvery = 2 * time.Second

// progress returns a function that prints on the standard error, at most once in progressEvery, how many bytes are done
// and at which rate; nil with --json. If done falls, a new action has begun, and the rate is counted anew.
func (c *cli) progress(verb string) func(done, total int64) {
	if c.json {
		return nil
	}
	var began, last time.Time
	from := int64(0) // done at the first call
	return func(done, total int64) {
		now := time.Now()
		if began.IsZero() || done < from {
			began, last, from = now, now, done
		}
		if now.Sub(last) < progressEvery {
			return
		}
		last = now
		rate := amount(int64(float64(done-from)/now.Sub(began).Seconds())) + "/s"
		if total > 0 {
			fmt.Fprintf(c.err, "%s %s of %s (%d %%), %s\n", verb, amount(done), amount(total), 100*done/total, rate)
			return
		}
		fmt.Fprintf(c.err, "%s %s, %s\n", verb, amount(done), rate)
	}
}

// badBackup returns the fault for an error of a backup, a restore or a check of backups.
func badBackup(err error) error {
	if f, ok := errors.AsType[*fault](err); ok {
		return f // from a call of the server, or of usage
	}
	if _, ok := errors.AsType[*pebblestore.BadBackup](err); ok {
		return &fault{exit: exitViolated, code: "bad_backup", what: "the backup is not as it was made",
			why: err.Error(), err: err,
			fix: "use another backup: `petrel backup verify FOLDER` says which ones are good"}
	}
	return cannotServe(err)
}

// verifiedBackup is one line of the answer of `backup verify`.
type verifiedBackup struct {
	Folder    string   `json:"folder"`
	OK        bool     `json:"ok"`
	StoreID   string   `json:"store_id,omitempty"`
	HistoryID string   `json:"history_id,omitempty"`
	Commit    uint64   `json:"commit,string"`
	Time      uint64   `json:"commit_time_ms,string"`
	Files     int      `json:"files"`
	Problems  []string `json:"problems,omitempty"`
}

func newBackupVerify(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "verify FOLDER",
		Short: "Read backups and check that they can be restored",
		Long: "Reads every byte of the backups in FOLDER, or of the one backup that FOLDER is, and compares with what was written. Then\n" +
			"it opens the store in it, without changing it, reads all messages, and follows the commits to the last. Files that\n" +
			"are not as they were are named, and the exit code is 6.",
		Example: "  petrel backup verify /var/backups/petrel\n  petrel backup verify /var/backups/petrel/backup-000007 --json",
		Args:    cobra.ExactArgs(1),
		RunE: command(func(cmd *cobra.Command, args []string) error {
			conf, err := c.load(cmd)
			if err != nil {
				return err
			}
			all, err := pebblestore.VerifyBackups(cmd.Context(), c.storeOptions(conf), args[0], c.progress("read"))
			bad := 0
			for i := range all {
				v := &all[i]
				line := verifiedBackup{v.Folder, len(v.Problems) == 0, v.StoreID, v.HistoryID, v.Commit, v.CommitMs,
					len(v.Files), v.Problems}
				if !line.OK {
					bad++
				}
				if err := c.print(line, line.write); err != nil {
					return err
				}
				// the file says that a server runs on this folder, or that it was killed
				if _, err := os.Stat(filepath.Join(conf.Store.Dir, addressesName)); err == nil {
					problems := strings.Join(v.Problems, "; ")
					c.noteBackup(cmd, &petrelv1.BackupInfo{
						Name: v.Name, Folder: v.Folder, Commit: v.Commit, CommitMs: v.CommitMs,
						VerifiedMs: uint64(time.Now().UnixMilli()), Sound: line.OK,
						Fault: strings.ToValidUTF8(problems[:min(len(problems), 400)], ""),
					})
				}
			}
			if err != nil {
				return badBackup(err)
			}
			if bad > 0 {
				return &fault{exit: exitViolated, code: "bad_backup",
					what: fmt.Sprintf("%d of %d backups are not as they were made", bad, len(all)),
					why:  strings.Join(all[firstBad(all)].Problems, "\n"),
					fix:  "delete the bad ones, and make a new backup; a file that several backups share is bad in all of them"}
			}
			return nil
		}),
	}
}

func firstBad(all []pebblestore.Verified) int {
	for i := range all {
		if len(all[i].Problems) > 0 {
			return i
		}
	}
	return 0
}

func (v verifiedBackup) write(w io.Writer) {
	if v.OK {
		fmt.Fprintf(w, "ok    %s  %d files, commits up to %d, of %s\n", v.Folder, v.Files, v.Commit, clock(v.Time))
		return
	}
	fmt.Fprintf(w, "bad   %s\n", v.Folder)
	for _, p := range v.Problems {
		fmt.Fprintf(w, "      %s\n", p)
	}
}
