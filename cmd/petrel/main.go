// Command petrel is the one binary: the server, and the tools to set it up, to talk to it and to measure it. The
// files here parse flags and call other packages; there is one file for each command.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args, env []string, in io.Reader, out, errOut io.Writer) int {
	return (&cli{env: env, in: in, out: terminal.NewWriter(out), err: terminal.NewWriter(errOut)}).run(ctx, args)
}

func (c *cli) run(ctx context.Context, args []string) int {
	root := newRoot(c)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	defer func() {
		if c.flush != nil {
			c.flush()
		}
	}()
	if err == nil {
		return exitOK
	}
	f := asFault(err)
	f.print(c.err, c.json)
	return f.exit
}

func newRoot(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:   "petrel",
		Short: "A chat server to put into your own product",
		Long: "Petrel is a chat server for people who put chat into their own product and want to run it themselves.\n" +
			"`petrel serve` needs no configuration. Exit codes: 0 ok; 1 failed; 2 wrong usage; 3 wrong configuration; 4 the\n" +
			"server cannot be reached; 5 not allowed; 6 a check was red: a target, an invariant or a partition without a node.",
		Example:       "  petrel serve\n  petrel demo\n  petrel chat --as alice\n  petrel send --as bob --to alice \"hi\"",
		SilenceErrors: true,
		SilenceUsage:  true,
		// Completion of shells is offered by cobra under `completion`.
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	fs := root.PersistentFlags()
	fs.BoolVar(&c.json, "json", false, "write the answer as JSON: one value, or one line for each item")
	fs.StringVar(&c.configFile, "config", "",
		"configuration `FILE` (default ./petrel.toml, else /etc/petrel/petrel.toml)")
	fs.StringVar(&c.data, "data", "",
		"data folder `DIR` with the store, the admin key and the tokens (default store.dir of the configuration)")
	fs.StringVar(&c.server, "server", "",
		"`URL` of the server (default PETREL_SERVER, else the address that the running server wrote into the data folder, else listen.http)")
	fs.StringVar(&c.adminServer, "admin-server", "",
		"`URL` at which operators reach the server (default PETREL_ADMIN_SERVER, else the address that the running server wrote into the data folder, else listen.admin; with another --server, that one)")
	fs.StringVar(&c.adminKeyFile, "admin-key-file", "",
		"`FILE` with the admin key (default PETREL_ADMIN_KEY, else admin.key in the data folder)")
	root.AddCommand(
		newServe(c), newSetup(c), newUser(c), newReport(c), newTenant(c), newKey(c), newOperator(c), newAudit(c),
		newConv(c), newTrace(c), newSend(c), newTail(c), newDemo(c), newChat(c), newBench(c), newCheck(c),
		newCluster(c), newBackup(c), newRestore(c), newRepair(c), newConfig(c), newDoctor(c), newVersion(c), newDocs(c),
	)
	return root
}
